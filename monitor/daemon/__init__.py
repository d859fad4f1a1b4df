"""The process that scrapes, judges and stores without end."""

from monitor.daemon.process import Daemon

__all__ = ["Daemon"]
