"""Rollbacks as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.text import Text

from monitor.cli.render import format_moment, named_rows, print_rich, text
from monitor.cli.render_status import format_age
from monitor.report import format_estimate, iso
from monitor.rollback.messages import what_to_type
from monitor.rollback.model import Phase
from monitor.rollback.settings import Mode

Document = Mapping[str, Any]

_STYLES = {
    "held": "bold red",
    "blocked": "bold red",
    "failed": "bold red",
    "proposed": "bold yellow",
    "done": "bold green",
}
_KEPT = ("config", "baselines", "pages")
"""Evidence that is the same for many decisions, and shown once."""


def print_list(document: Document, now: float) -> None:
    """A line or two for each service, then one for each plan."""
    parts: list[Text | Padding] = []
    if document["frozen"]:
        parts.append(text(f"all rollbacks are frozen: {document['frozen']}", "bold red"))
    parts += [line for service in document["services"] for line in _service(service, now)]
    if not document["services"]:
        parts.append(text("nothing is watched yet: 'monitor run' fills the database"))
    parts += [Text(), *(_plan(plan) for plan in document["plans"])]
    print_rich(*parts)


def _service(service: Document, now: float) -> Iterator[Text | Padding]:
    state = service["state"]
    line = text(service["service"], "bold").append_text(text(f"  {service['mode']}  "))
    line.append_text(text(state, _STYLES.get(state, "bold")))
    if state != "idle" and service["since"]:
        line.append_text(text(f" for {format_age(service['since'], now)}", "dim"))
    if service["baseline_share"]:
        line.append_text(text(f", {_percent(service['baseline_share'])} at the baseline side"))
    yield line
    if service["why"]:
        yield Padding(text(service["why"]), (0, 0, 0, 2))
    # What is only observed waits for nobody.
    is_observed = state == Phase.PROPOSED and service["mode"] == Mode.OBSERVE
    hint = "" if is_observed else what_to_type(state, service["service"])
    if hint:
        yield Padding(text(hint, "dim", limit=400), (0, 0, 0, 2))


def _plan(plan: Document) -> Text:
    line = text(f"{format_moment(plan['began_at'])}  ").append_text(text(plan["plan"], "bold"))
    line.append_text(text(f"  {plan['mode']}  {plan['kind']}: {plan['sentence']}", limit=400))
    return line


def print_story(document: Document, *, verbose: bool) -> None:
    """The audit of one plan, from the first decision to the last."""
    plan = document["plan"]
    head = named_rows(
        [
            ("plan", plan["plan"]),
            ("service", plan["service"]),
            ("mode", plan["mode"]),
            ("cure", plan["cure"] or "none"),
            ("began", format_moment(plan["began_at"])),
            ("stands", f"{plan['kind']}, {_percent(plan['share'])} at the baseline side"),
        ]
    )
    decisions: Sequence[Document] = document["decisions"]
    parts: list[Any] = [head, Text(), text("Decisions:", "bold")]
    for decision in decisions:
        parts += _decision(decision)
    parts += [Text(), text("Acts:", "bold"), *(_step(step) for step in document["steps"])]
    if not document["steps"]:
        parts.append(Padding(text("none"), (0, 0, 0, 2)))
    parts += _kept(decisions, verbose=verbose)
    print_rich(*parts)


def _decision(decision: Document) -> Iterator[Padding]:
    who = f" by {decision['who']}" if decision["who"] else ""
    calls = ", a person is called" if decision["pages"] else ""
    line = text(f"{format_moment(decision['at'])}  ").append_text(
        text(decision["kind"], _STYLES.get(decision["kind"], "bold"))
    )
    line.append_text(text(f"{who} → {decision['phase']}{calls}"))
    yield Padding(line, (0, 0, 0, 2))
    yield Padding(text(decision["sentence"], limit=2000), (0, 0, 0, 4))
    for line_of_evidence in _evidence(decision["evidence"]):
        yield Padding(text(line_of_evidence, "dim"), (0, 0, 0, 6))


def _evidence(evidence: Document) -> Iterator[str]:
    windows = evidence.get("windows") or {}
    for target, ballots in windows.items() if isinstance(windows, Mapping) else ():
        for ballot in ballots:
            yield _ballot(target, ballot)
    for side in ("baseline", "speculative"):
        for found in (evidence.get(side) or {}).get("completions", ()):
            said = found["error"] or f"{found['tokens']} tokens in {found['seconds']:.2f} s"
            yield f"{side} {found['target']}: {said}"
    if traffic := evidence.get("traffic"):
        yield f"traffic: {traffic}"


def _ballot(target: str, ballot: Document) -> str:
    vote = "votes" if ballot["vote"] else "no vote"
    speedup = format_estimate(ballot["speedup"], "{:.2f}", "x")
    return (
        f"{target} at {_moment(ballot['at'])}: {ballot['verdict']}, {vote} "
        f"({ballot['proof']}); speedup {speedup}"
    )


def _kept(decisions: Sequence[Document], *, verbose: bool) -> Iterator[Any]:
    """What decisions share: the configuration, and on request curves and pages."""
    shown = None
    for decision in decisions:
        kept = {name: decision["evidence"].get(name) for name in _KEPT}
        if kept == shown or not any(kept.values()):
            continue
        shown = kept
        yield Text()
        yield text(f"At {format_moment(decision['at'])}:", "bold")
        yield Padding(text(f"configuration {kept['config'] or 'without a hash'}"), (0, 0, 0, 2))
        for target, curve in (kept["baselines"] or {}).items():
            yield Padding(text(f"{target} was compared with {curve['name']}"), (0, 0, 0, 2))
            if verbose:
                points = ", ".join(f"{load:g}: {tpot:.4g} s" for load, tpot in curve["points"])
                yield Padding(text(points, limit=4000), (0, 0, 0, 4))
        for target, lines in (kept["pages"] or {}).items() if verbose else ():
            yield Padding(text(f"page of {target}:"), (0, 0, 0, 2))
            yield from (Padding(text(line, limit=400), (0, 0, 0, 4)) for line in lines)
        if not verbose:
            return


def _step(step: Document) -> Padding:
    share = "" if step["share"] is None else f" {_percent(step['share'])}"
    tries = f", {step['attempts']} tries" if step["attempts"] > 1 else ""
    detail = f": {step['detail']}" if step["detail"] else ""
    line = f"{format_moment(step['at'])}  {step['id']}  {step['do']}{share}  {step['status']}"
    return Padding(text(line + tries + detail, limit=600), (0, 0, 0, 2))


def _moment(at: float) -> str:
    return format_moment(iso(at))


def _percent(share: float) -> str:
    return f"{100.0 * share:.4g} %"
