"""Who runs a command, for the records."""

from __future__ import annotations

import getpass
import os
import socket


def whoami() -> str:
    """``user@host`` of this process; the number of the user where it has no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # Containers often run under a number that no file gives a name to.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
