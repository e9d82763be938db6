"""Retry rules: what Buildkite takes, the failures they hide, and the lost machines that `*` leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bkgen.errors import did_you_mean
from bkgen.verify.finding import Finding, Path, error, warning
from bkgen.verify.values import as_list

SIGNAL_REASONS = frozenset(
    {"*", "none", "agent_incompatible", "agent_refused", "agent_stop", "cancel"}
    | {"process_run_error", "signature_rejected", "stack_error"}
)
_RULE_KEYS = frozenset({"exit_status", "limit", "signal", "signal_reason"})
_LOST = -1
_MOST = 2
# Reasons that are a machine's or its agent's, not the command's.
_OF_MACHINE = frozenset(
    {"agent_incompatible", "agent_refused", "agent_stop", "process_run_error", "stack_error"}
)


def retry(step: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings for a step's automatic retries."""
    written = step.get("retry")
    automatic = written.get("automatic") if isinstance(written, dict) else None
    if automatic is None or automatic is False:
        return
    path: Path = ("retry", "automatic")
    if automatic is True:
        yield _blanket(path, "automatic: true retries")
        return
    rules = (
        [(path, automatic)]
        if isinstance(automatic, dict)
        else [((*path, index), one) for index, one in enumerate(as_list(automatic))]
    )
    if not rules and not isinstance(automatic, list):
        yield _invalid(
            path, "true, false, a rule or a list of rules is wanted", "see Buildkite's retry attributes"
        )
    any_status, has_lost, blanket = None, False, False
    for place, rule in rules:
        if not isinstance(rule, dict):
            yield _invalid(place, "a rule is a map", "write exit_status, signal or signal_reason, and limit")
            continue
        yield from _judge(place, rule)
        if _is_blanket(rule) and _times(rule) > 1:
            blanket = True
            yield _blanket(place, "this rule retries")
        elif _is_for_lost(rule) and _MOST < _times(rule) <= 10:
            yield _too_often((*place, "limit"), _times(rule))
        statuses = _statuses(rule)
        any_status = place if "*" in statuses and any_status is None else any_status
        has_lost = has_lost or _LOST in statuses or rule.get("signal_reason") not in {None, "none", "*"}
    if any_status is not None and not has_lost and not blanket:
        yield _lost(any_status)


def _statuses(rule: Mapping[str, Any]) -> list[Any]:
    written = rule.get("exit_status", None if rule.keys() & {"signal", "signal_reason"} else "*")
    return written if isinstance(written, list) else [written]


def _times(rule: Mapping[str, Any]) -> int:
    """How often a rule retries; 0 where it does not say it in a number."""
    limit = rule.get("limit", 2)
    return limit if isinstance(limit, int) and not isinstance(limit, bool) else 0


def _is_blanket(rule: Mapping[str, Any]) -> bool:
    """Every failure of the command matches."""
    any_status = any(status in ("*", None) for status in _statuses(rule))
    any_signal = rule.get("signal", "*") == "*" and ("signal" not in rule or "exit_status" in rule)
    return any_status and any_signal and rule.get("signal_reason", "*") in ("*", "none")


def _is_for_lost(rule: Mapping[str, Any]) -> bool:
    return rule.get("signal_reason") in _OF_MACHINE or _statuses(rule) == [_LOST]


def _blanket(path: Path, what: str) -> Finding:
    message = f"{what} every failure, and a test that fails now and then passes unseen"
    hint = (
        "retry lost machines: [{exit_status: -1, limit: 2}, {signal_reason: agent_stop, limit: 2}]; a step "
        "that is known to fail now and then takes {exit_status: '*', limit: 1} beside them"
    )
    return warning("retry-every-failure", path, message, hint)


def _too_often(path: Path, limit: int) -> Finding:
    message = f"{limit} retries for a lost machine; one that is lost {_MOST + 1} times is lost by the job"
    return warning("retry-too-often", path, message, f"write limit: {_MOST}, and look at what the job does")


def _lost(path: Path) -> Finding:
    message = "'*' stands for 1 to 255; a job whose machine was lost ends with -1 and is not retried"
    return warning("retry-without-lost", path, message, "add a rule of its own: {exit_status: -1, limit: 2}")


def _judge(path: Path, rule: Mapping[str, Any]) -> Iterator[Finding]:
    for key in rule:
        if key in _RULE_KEYS:
            continue
        yield _invalid((*path, str(key)), f"a retry rule has no '{key}'", did_you_mean(str(key), _RULE_KEYS))
    for status in _statuses(rule):
        is_number = isinstance(status, int) and not isinstance(status, bool)
        if status not in (None, "*") and not (is_number and -1 <= status <= 255):
            message = f"'{status}' is no exit status"
            yield _invalid((*path, "exit_status"), message, "write -1 to 255, a list of these, or '*'")
    limit = rule.get("limit", 2)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 <= limit <= 10:
        yield _invalid((*path, "limit"), f"'{limit}' is no limit for retries", "write 0 to 10")
    reason = rule.get("signal_reason", "*")
    if str(reason) not in SIGNAL_REASONS:
        message = f"'{reason}' is no signal_reason"
        yield _invalid((*path, "signal_reason"), message, did_you_mean(str(reason), SIGNAL_REASONS))


def _invalid(path: Path, message: str, hint: str) -> Finding:
    return error("retry-invalid", path, message, hint)
