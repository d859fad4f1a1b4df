"""The looks of a tape as a Prometheus that scraped the servers would have stored them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from monitor.backfill.looks import Look
from monitor.pipeline import Page


def to_openmetrics(looks: Iterable[Look], **added: str) -> str:
    """OpenMetrics text, series by series, with the labels that Prometheus adds."""
    series: defaultdict[str, list[str]] = defaultdict(list)
    for look in looks:
        labels = {"instance": f"{look.target}:8000", "job": "vllm", **added}
        page = look.seen.metrics.decode() if isinstance(look.seen, Page) else None
        add(series, "up{}", labels, "0" if page is None else "1", look.at)
        for line in (page or "").splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                add(series, name, labels, value, look.at)
    lines = [line for found in series.values() for line in found]
    return "\n".join([*lines, "# EOF", ""])


def add(
    series: Mapping[str, list[str]], name: str, labels: Mapping[str, str], value: str, at: float
) -> None:
    inner = ",".join(f'{label}="{text}"' for label, text in labels.items())
    name, _, own = name.partition("{")
    both = ",".join(filter(None, (own.rstrip("}"), inner)))
    series[f"{name}{{{both}}}"].append(f"{name}{{{both}}} {value} {at:.3f}")
