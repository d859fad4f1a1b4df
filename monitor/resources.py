"""Finds the files that ship with the program but lie outside its package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal


def data_dir(name: Literal["alerts", "dashboards", "migrations"]) -> Path:
    """The folder ``name``: inside the package when installed, beside it in a checkout.

    Wheels are always unpacked by installers, so a resource of ours is a real folder.
    """
    package = Path(str(files("monitor")))
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name
