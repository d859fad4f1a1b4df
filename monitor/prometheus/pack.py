"""The alert rules of the daemon as rules of Prometheus, and how Alertmanager treats them.

There is one table, ``alerts/default.yaml`` with the changes of the user. What the daemon does and
Prometheus cannot is left to Alertmanager: what is muted, and reminders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import Template

from monitor.alerting.rules import Rule
from monitor.alerting.wording import explain
from monitor.model import ConfigError
from monitor.prometheus import promql
from monitor.prometheus.rule_file import Alerting, Group

GROUP = "speculation"


def _query(series: str, shown: str) -> str:
    """What the template language makes of a series of the same target, or ``unknown``."""
    asked = f'printf "{series}{{service=%q,target=%q}}" $labels.service $labels.target | query'
    return f"{{{{ with {asked} }}}}{{{{ . | first | {shown} }}}}{{{{ else }}}}unknown{{{{ end }}}}"


def _figure(series: str, form: str) -> str:
    return _query(series, f"value | {form}")


def _word(label: str, series: str = "monitor_decision_info") -> str:
    return _query(series, f'label "{label}"')


FIELDS: Mapping[str, str] = {
    "service": "{{ $labels.service }}",
    "target": "{{ $labels.target }}",
    "verdict": _word("verdict"),
    "cause": _word("cause"),
    "action": _word("action"),
    "acceptance_rate": _figure("monitor_acceptance_rate", "humanizePercentage"),
    "acceptance_length": _figure("monitor_acceptance_length", 'printf "%.2f"'),
    "speedup": _figure("monitor_speedup", 'printf "%.2f×"'),
    "running": _figure("monitor_running_requests", 'printf "%.4g"'),
    "threshold": _figure("monitor_acceptance_threshold", "humanizePercentage"),
    "baseline": _word("baseline", "monitor_baseline_matches"),
}
"""How Prometheus fills in the fields of a summary."""


def alert_name(rule: str) -> str:
    """The name of the alert of a rule: ``SpeculationDrafterDead`` of ``drafter_dead``."""
    return "Speculation" + "".join(word.capitalize() for word in rule.split("_"))


def pack_group(rules: Iterable[Rule]) -> Group:
    """The alerts of all rules.

    Raises:
        ConfigError: a rule asks for what the metrics of the daemon do not show.
    """
    return Group(GROUP, [alerting(rule) for rule in rules])


def alerting(rule: Rule) -> Alerting:
    """The alert of one rule."""
    try:
        expr = _stays(rule, alert_name(rule.id))
        said = summary(rule, FIELDS)
    except ConfigError as error:
        raise ConfigError(f"rule {rule.id}: {error}") from None
    return Alerting(
        name=alert_name(rule.id),
        expr=expr,
        hold=rule.hold_seconds,
        keep_firing=rule.keep_firing,
        labels=alert_labels(rule),
        annotations={"summary": said, **notes(rule)},
    )


def alert_labels(rule: Rule) -> dict[str, str]:
    """What routes and inhibitions go by."""
    own = {key: escaped(text) for key, text in rule.labels}
    return {**own, "severity": rule.severity.value, "rule": rule.id}


def notes(rule: Rule) -> dict[str, str]:
    """What is said about an alert besides its summary."""
    runbook = {"runbook": escaped(rule.runbook)} if rule.runbook else {}
    return {"description": escaped(explain(rule)), **runbook}


def escaped(text: str) -> str:
    """Text of the user, of which the template language takes nothing for itself."""
    return text.replace("{{", '{{ "{{" }}')


def summary(rule: Rule, fields: Mapping[str, str]) -> str:
    """The summary of a rule with its fields as ``fields`` has them."""
    template = Template(escaped(rule.summary))
    known = {**fields, "rule": rule.id, "severity": rule.severity.value}
    unknown = sorted(set(template.get_identifiers()) - known.keys())
    if unknown:
        raise ConfigError(f"summary: the metrics of the daemon do not show ${unknown[0]}")
    return template.substitute(known)


def _stays(rule: Rule, name: str) -> str:
    """The condition of ``rule``, or that its alert fires and is not known to be over.

    Without the second part, an alert would end as soon as nothing is known any more: the server
    became idle, or the daemon is being restarted. A target that nobody has watched for
    ``no_data_after`` is no longer held.
    """
    firing = f'ALERTS{{alertname={promql.quoted(name)}, alertstate="firing"}}'
    watched = promql.watched(rule.only, rule.no_data_after)
    held = promql.all_of([f"max by ({promql.BY}) ({firing})", watched])
    return promql.any_of([promql.enters(rule), promql.but_not(held, promql.over(rule))])
