"""Draws the dashboards into a folder: ``python -m tools.preview FOLDER [NAME...] [--all]``."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
sys.path += [str(ROOT / "tests" / "scenario"), str(ROOT / "tests" / "integration")]

from fleet import play  # noqa: E402
from prometheus_server import serving  # noqa: E402

from tools.preview.collect import Asker, scratch, stored, write  # noqa: E402

MINUTES = 180
BOARDS: dict[str, dict[str, str]] = {
    "paying": {},
    "service": {"service": "chat", "model": "llama"},
    "engines": {},
    "history": {},
    "monitor": {},
}
WIDTH = 1500


def main() -> None:
    """Everything, in order."""
    folder, *names = [word for word in sys.argv[1:] if word != "--all"]
    draw(Path(folder), names or list(BOARDS), unfolded="--all" in sys.argv)


def draw(folder: Path, names: Sequence[str], *, unfolded: bool) -> None:
    """Draws these dashboards; ``unfolded`` shows what is in folded rows, too."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (HERE / "dist" / "index.html").exists():
        subprocess.run(["npm", "run", "build"], cwd=HERE, check=True, stdout=subprocess.DEVNULL)
    past = play(MINUTES)
    with (
        scratch() as place,
        serving(past.text, Path(place)) as prometheus,
        stored(past) as engine,
        site(HERE / "dist") as url,
    ):
        asker = Asker(prometheus, engine, past, MINUTES)
        for name in names:
            answers = asker.board(f"{name}.json", **BOARDS[name])
            write(answers, HERE / "dist" / f"{name}.json")
            height = 60 + 38 * lines(answers["document"]["panels"], unfolded=unfolded)
            shoot(f"{url}/?{name}{'&all' * unfolded}", folder / f"{name}.png", height)


def lines(panels: Sequence[dict[str, Any]], *, unfolded: bool) -> int:
    """How many lines of the grid are drawn."""
    shown = [one for panel in panels for one in (panel, *panel.get("panels", ()))]
    bottom: int = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in shown)
    rows = [panel for panel in panels if panel["type"] == "row"]
    hidden = sum(
        max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in row["panels"])
        - row["gridPos"]["y"]
        - 1
        for row in rows
    )
    return bottom if unfolded else bottom - hidden


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Serves the built page."""
    handler = functools.partial(_Quiet, directory=str(folder))
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{web.server_address[1]}"
    web.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""


def shoot(url: str, file: Path, height: int) -> None:
    """A picture of a page, once it has drawn itself."""
    subprocess.run(
        [
            "chromium",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--window-size={WIDTH},{height}",
            "--virtual-time-budget=20000",
            f"--screenshot={file}",
            url,
        ],
        check=True,
        capture_output=True,
        timeout=180,
    )
    small = ["pngquant", "--force", "--ext=.png", "--quality=50-90", str(file)]
    subprocess.run(small, check=True)


if __name__ == "__main__":
    main()
