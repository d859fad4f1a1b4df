"""The process that ``benchmarks.scrape`` measures: the real daemon over many equal targets."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter

from monitor.alerting.ruleset import load_rules
from monitor.daemon import Daemon
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.logs import configure
from monitor.settings import DaemonSettings, JudgeSettings, TargetSettings

CURVE = Baseline(
    "plain",
    tuple(BaselinePoint(n, t) for n, t in ((1.0, 0.0094), (4.0, 0.0142), (16.0, 0.0281))),
)
"""A curve against which speculation clearly pays, so that the first window decides."""


def resident() -> int:
    """Bytes of memory that the process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def by_thread() -> Counter[str]:
    """Seconds of CPU time that each thread has used, by its name."""
    names = {str(thread.native_id): thread.name for thread in threading.enumerate()}
    used: Counter[str] = Counter()
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
            used[names.get(task, "other")] += int(file.read().split()[0])
    return Counter({name: nanoseconds / 1e9 for name, nanoseconds in used.items()})


def main(spec: str) -> None:
    """Runs the daemon as ``spec`` says and prints what it used, as JSON."""
    url, number, interval, warm, seconds, database = json.loads(spec)
    configure(level="error")
    targets = tuple(
        TargetSettings(
            name=f"target-{index}",
            service="bench",
            url=url,
            interval=interval,
            timeout=interval / 2,
            judge=JudgeSettings(baseline=CURVE),
        )
        for index in range(number)
    )
    rules = load_rules(()).rules
    settings = DaemonSettings(database=database, targets=targets, port=0, rules=rules)
    daemon = Daemon(settings, load=lambda: settings)
    thread = threading.Thread(target=daemon.run)
    thread.start()
    daemon.started.wait()
    time.sleep(warm)
    threads, cpu, done = (
        by_thread(),
        time.process_time(),
        sum(view.rounds for view in daemon.targets()),
    )
    time.sleep(seconds)
    views = daemon.targets()
    answer = {
        "cpu": time.process_time() - cpu,
        "threads": by_thread() - threads,
        "scrapes": sum(view.rounds for view in views) - done,
        "rss": resident(),
        "verdicts": Counter(str(v.assessment.verdict) for v in views if v.assessment),
        "late": sum(view.late for view in views),
    }
    print(json.dumps(answer))
    daemon.stop()
    thread.join()


if __name__ == "__main__":
    main(sys.argv[1])
