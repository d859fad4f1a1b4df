"""``monitor demo``: a recorded incident, played to the real daemon."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from monitor.cli import exits
from monitor.cli.apps import single
from monitor.cli.output import print_text
from monitor.cli.render import print_rich, text, verdict_text
from monitor.cli.run import LogLevel
from monitor.demo.play import Demo, Line, clock_text
from monitor.logs import configure
from monitor.report import iso

app = single()

_TARGET_WIDTH = 10
_VERDICT_WIDTH = 12


@app.command()
def demo(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End by itself: 0 when the expected verdicts came.")
    ] = False,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Port of the endpoints; 0 takes a free one."
        ),
    ] = 0,
    log_level: Annotated[LogLevel, typer.Option(help="Least level logged.")] = LogLevel.ERROR,
) -> int:
    """Watch a real incident unfold, 20 times as fast: needs nothing but Python."""
    configure(as_json=False, level=log_level)
    # Whoever ends it in another way than by Ctrl-C leaves nothing behind either.
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup a terminal that is closed ends nothing.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="monitor-demo-") as folder:
        database = f"sqlite:///{Path(folder) / 'demo.db'}"
        play = Demo(database, _tell, port=port)
        with play.playing() as address:
            _introduce(address, database)
            passed = play.tell_until_end()
            _conclude(play, address, database, passed=passed, once=once)
            if not once:
                with contextlib.suppress(KeyboardInterrupt):
                    play.tell_forever()
    return exits.OK if passed else exits.BAD


def _introduce(address: str, database: str) -> None:
    print_text("A recorded incident, played 20 times as fast to the real daemon.")
    print_text(f"endpoints  {address}/  /metrics  /api/v1/status  /readyz")
    print_text(f"database   {database}\n\n")


def _conclude(play: Demo, address: str, database: str, *, passed: bool, once: bool) -> None:
    if passed:
        print_text(
            "\nThe daemon saw both collapses, alerted, and moved the traffic of one service\n"
            "to its plain server."
        )
    else:
        print_text("\nNot all came that was expected.")
    if not once:
        command, (start, end) = Path(sys.argv[0]).as_posix(), map(iso, play.span)
        print_text("The endpoints stay open until Ctrl-C. Try meanwhile:")
        print_text(f"  {command} history --target code-spec --database {database} \\")
        print_text(f"      --start {start} --end {end} --step 20s")
        print_text(f"  {command} rollback show code --database {database}")
        print_text(f"  curl -s {address}/api/v1/status")
        print_text(f"  curl -s {address}/metrics | grep ^monitor_verdict")


def _tell(line: Line) -> None:
    """One line of the story: time, target, verdict and sentence, wrapped under itself."""
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    if line.target is None:
        row.add_column()
        row.add_row(text(clock_text(line.at), "dim"), text(f"-- {line.text}", "italic"))
    else:
        row.add_column(no_wrap=True, min_width=_TARGET_WIDTH)
        row.add_column(no_wrap=True, min_width=_VERDICT_WIDTH)
        row.add_column()
        row.add_row(
            text(clock_text(line.at), "dim"),
            text(line.target),
            text(line.message or "", "bold")
            if line.verdict is None
            else verdict_text(line.verdict),
            text(line.text),
        )
    print_rich(row)
