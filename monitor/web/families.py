"""Builds families of samples: what is not known or not finite has no sample.

Families of the daemon itself are few samples and made by ``prometheus_client``. Those about
targets are thousands of lines that seldom change, so each target's lines are made as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from monitor.web.view import TargetView

Values = Iterable[tuple[Sequence[str], float | None]]
"""Label values and what they stand for."""


def gauge(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """A figure that may go up and down."""
    family = GaugeMetricFamily(f"monitor_{name}", text, labels=labels)
    for key, value in values:
        if value is not None and isfinite(value):
            family.add_metric(key, value)
    return family


def counter(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """A sum that begins at zero with the process; the page adds ``_total`` to its name."""
    family = CounterMetricFamily(f"monitor_{name}", text, labels=labels)
    for key, value in values:
        if value is not None and isfinite(value):
            family.add_metric(key, value)
    return family


@dataclass(frozen=True, slots=True)
class TargetFamily:
    """A family with samples of each target, which follow from its view alone."""

    name: str
    text: str
    values: Callable[[TargetView], Values]
    """The values of ``labels`` and what they stand for."""
    labels: tuple[str, ...] = ()
    """Names of labels beside those of the target."""
    counts: bool = False
    """Whether it is a sum that begins at zero with the process."""

    def head(self) -> Metric:
        """The family without samples."""
        return (counter if self.counts else gauge)(self.name, self.text, (), ())

    def lines(self, view: TargetView, who: str) -> str:
        """The samples of one target as they are in both formats of a page.

        ``who`` is the text of the target's own labels: see ``label_text``.
        """
        name = f"monitor_{self.name}{'_total' if self.counts else ''}{{{who}"
        known = [(key, v) for key, v in self.values(view) if v is not None and isfinite(v)]
        if not self.labels:
            return "".join([f"{name}}} {float(value)!r}\n" for _, value in known])
        return "".join(
            [
                f"{name}{''.join(map(_further, self.labels, key))}}} {float(value)!r}\n"
                for key, value in known
            ]
        )


def single(figure: Callable[[TargetView], float | None]) -> Callable[[TargetView], Values]:
    """The values of a family with one figure for each target."""
    return lambda view: (((), figure(view)),)


def label_text(name: str, value: str) -> str:
    """A label as it is on a page."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'


def _further(name: str, value: str) -> str:
    return f",{label_text(name, value)}"
