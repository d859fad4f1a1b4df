"""Writes the dashboards: ``python -m monitor.grafana.build [FOLDER]``.

The JSON is committed and shipped; the library that builds it is needed for development only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from monitor.grafana.boards import engines, history, itself, paying, service
from monitor.resources import data_dir

BOARDS = {
    "paying": paying.build,
    "service": service.build,
    "engines": engines.build,
    "history": history.build,
    "monitor": itself.build,
}
"""By the name of their file."""


def documents() -> dict[str, dict[str, Any]]:
    """All dashboards as plain JSON values, by the name of their file."""
    return {f"{name}.json": _plain(build().build()) for name, build in BOARDS.items()}


def render(document: Mapping[str, Any]) -> str:
    """The text of a file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _plain(built: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(built, cls=JSONEncoder))
    for link in document["links"]:
        # The library would hide the links in a menu.
        del link["placement"]
    return document


def main() -> None:
    """Writes all files into the folder that is named, or where they are shipped from."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else data_dir("dashboards")
    for name, document in documents().items():
        (folder / name).write_text(render(document), encoding="utf-8")


if __name__ == "__main__":
    main()
