"""An explanation for people: plain text in a pipe, the same with colours on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bkgen.decide.decision import RULES, Decision, RuleOutcome
from bkgen.plan.planned import Plan
from bkgen.report.table import compared
from bkgen.report.terminal import painted
from bkgen.report.why import Explanation, Level, listed

Span = tuple[str, str]
"""A text and its style."""
Line = tuple[Span, ...]
_NOTE = len("does not apply")


def plain_why(told: Explanation, plan: Plan) -> str:
    """The explanation as plain text."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines(told, plan))


def coloured_why(told: Explanation, plan: Plan) -> str:
    """The same with colours; the terminal folds what is too wide for it."""
    return "".join("".join(painted(*span) for span in line) + "\n" for line in lines(told, plan))


def lines(told: Explanation, plan: Plan) -> Iterator[Line]:
    """The explanation line by line."""
    decision = told.decision
    yield ((f"{told.name}: ", "bold"), (decision.verdict, _style(decision)), (f", {decision.reason}", ""))
    yield (("to turn it round: ", "bold"), (decision.remedy, ""))
    yield ()
    yield from (((line, "dim"),) for line in compared(plan).splitlines())
    yield from _rules(told)
    yield from _chain(told.chain)
    if told.wanted_by:
        yield from _titled("wanted by")
        for by in told.wanted_by:
            yield ((f"  {by.name}", "bold"), (f"  {by.place}", ""))
            yield ((f"      {by.reason}", ""),)
    yield from _steps(told)


def _titled(title: str) -> Iterator[Line]:
    yield ()
    yield ((title, "bold"),)


def _style(decision: Decision) -> str:
    return "bold green" if decision.runs else "bold yellow"


def _rules(told: Explanation) -> Iterator[Line]:
    yield from _titled("rules, in order")
    for outcome in told.rules:
        yield from _rule(outcome, told)
    if told.is_plans:
        yield ((f"  {'decides':<{_NOTE}}  ", _style(told.decision)), ("the plan, after the rules", ""))
        yield from _evidence(told.decision, told)


def _rule(outcome: RuleOutcome, told: Explanation) -> Iterator[Line]:
    decision = outcome.decision
    if decision is None:
        yield ((f"  {outcome.note:<{_NOTE}}  {outcome.title}", "dim"),)
        return
    note = "applies" if told.is_plans else "decides"
    yield ((f"  {note:<{_NOTE}}  ", _style(decision)), (RULES[decision.rule], "bold"))
    if told.is_plans:
        yield (_indented("says", f"{decision.verdict}, {decision.reason}"),)
    else:
        yield from _evidence(decision, told)


def _evidence(decision: Decision, told: Explanation) -> Iterator[Line]:
    evidence = decision.evidence
    yield (_indented("rule", decision.rule),)
    if told.place is not None:
        yield (_indented("where", str(told.place)),)
    elif evidence.source:
        yield (_indented("where", evidence.source),)
    if evidence.pattern is not None:
        yield (_indented("pattern", evidence.pattern),)
    if evidence.labels:
        yield (_indented("labels", ", ".join(evidence.labels)),)
    for number, file in enumerate(evidence.files):
        yield (_indented("files" if number == 0 else "", file),)


def _indented(name: str, text: str) -> Span:
    return f"  {'':<{_NOTE}}  {name:<8} {text}", ""


def _chain(chain: Iterable[Level]) -> Iterator[Line]:
    yield from _titled("when")
    levels = list(chain)
    if not levels:
        yield (("  nothing is said: every build, and every change that is not trivial", "dim"),)
    for level in levels:
        yield ((f"  {level.name:<8}", "bold"), (str(level.place), ""))
        for name, value in level.says.items():
            yield ((f"  {'':<8}{name}: {listed(value)}", ""),)


def _steps(told: Explanation) -> Iterator[Line]:
    work = [step for step in told.steps if step.is_work]
    if len(work) < 2:
        return
    yield from _titled("steps")
    width = max(len(step.key) for step in work)
    for step in work:
        verdict = (f"  {step.decision.verdict:<5}", _style(step.decision))
        yield (verdict, (f"{step.key:<{width}}  {step.decision.reason}", ""))
