"""A plan as a value: every suite and step with its decision and its cost."""

from typing import NamedTuple

from bkgen.decide.decision import Decision
from bkgen.decide.facts import Facts
from bkgen.spec.merge import MergedPod
from bkgen.spec.references import Path
from bkgen.spec.steps import AnyStep, CommandStep, Mirror, TriggerStep
from bkgen.spec.suite import Suite


class PlannedStep(NamedTuple):
    """One step (or mirror of one) with its decision and its cost.

    `minutes` is the author's expectation for one job; `gpus` is what one job holds; `needs` are the
    keys it depends on, its group's included.
    """

    key: str
    suite: Suite
    path: Path
    step: AnyStep
    group: str | None
    decision: Decision
    needs: tuple[str, ...] = ()
    mirror: str | None = None
    pod: MergedPod = None
    jobs: int = 1
    gpus: int = 0
    minutes: float | None = None

    @property
    def mirror_spec(self) -> Mirror | None:
        """What the author wrote for this mirror."""
        if self.mirror is None or not isinstance(self.step, CommandStep) or self.step.mirrors is None:
            return None
        return self.step.mirrors[self.mirror]

    @property
    def is_work(self) -> bool:
        """A command or trigger: something that is chosen for its own sake."""
        return isinstance(self.step, (CommandStep, TriggerStep))

    @property
    def gpu_minutes(self) -> float:
        """GPUs times minutes times jobs."""
        return self.gpus * self.jobs * (self.minutes or 0.0)

    @property
    def name(self) -> str:
        """`suite/key`, as the command line takes it."""
        return f"{self.suite.name}/{self.key}"


class PlannedSuite(NamedTuple):
    """A suite with its decision and all its steps in file order, the skipped ones included."""

    suite: Suite
    key: str
    decision: Decision
    steps: tuple[PlannedStep, ...]

    @property
    def selected(self) -> tuple[PlannedStep, ...]:
        """The steps that run."""
        return tuple(step for step in self.steps if step.decision.runs)


class Plan(NamedTuple):
    """All suites, those that run first and in upload order; the rest by name."""

    suites: tuple[PlannedSuite, ...]
    facts: Facts

    @property
    def selected(self) -> tuple[PlannedSuite, ...]:
        """The suites that run."""
        return tuple(planned for planned in self.suites if planned.decision.runs)

    @property
    def is_empty(self) -> bool:
        """Nothing runs."""
        return not any(planned.decision.runs for planned in self.suites)
