"""The picture of the README: what ``monitor demo`` shows in a terminal, drawn anew.

``python -m tools.terminal`` plays the demo and writes ``docs/demo.svg``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "demo.svg"
_WIDTH = 96
# Fonts of the reader's own machine: a picture fetches nothing.
_FORMAT = re.sub(r"@font-face {{.*?}}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, monospace"
)
_OF_ONE_RUN = ("endpoints ", "database ")
"""How lines begin that are different each time."""


def _play() -> str:
    command = [sys.executable, "-c", "from monitor.cli import main; main()", "demo", "--once"]
    environment = {**os.environ, "COLUMNS": str(_WIDTH), "FORCE_COLOR": "1", "LANG": "C.UTF-8"}
    return subprocess.run(command, env=environment, stdout=-1, check=True, text=True).stdout


def main() -> None:
    """Plays, and draws what was shown."""
    lines = ["$ make demo", *_play().rstrip().splitlines()]
    shown = [line for line in lines if line.strip() and not line.startswith(_OF_ONE_RUN)]
    console = Console(record=True, width=_WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(shown)))
    console.save_svg(str(PICTURE), title="monitor demo", code_format=_FORMAT)


if __name__ == "__main__":
    main()
