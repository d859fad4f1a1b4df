"""``python -m monitor`` is the same as ``monitor``."""

from monitor.cli import main

main()
