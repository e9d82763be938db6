"""Splitting a pipeline into uploads that Buildkite takes, dependencies first."""

from collections.abc import Iterable
from typing import NamedTuple

from bkgen.buildkite import Item, Pipeline
from bkgen.errors import UserError
from bkgen.graph import depths, find_cycle
from bkgen.spec.settings import Limits


class Unit(NamedTuple):
    """Items that must go up together, because they depend on each other both ways."""

    items: tuple[Item, ...]

    @property
    def jobs(self) -> int:
        """Jobs, groups counted."""
        return sum(item.jobs for item in self.items)


def split(pipeline: Pipeline, limits: Limits) -> tuple[Pipeline, ...]:
    """The uploads of `pipeline`: each within the limit, groups whole, dependencies not in a later one.

    UserError where one group is larger than an upload, or a wait would have to hold back another upload's
    steps. (Verification has counted the whole build.)
    """
    if pipeline.jobs <= limits.jobs_per_upload:
        return (pipeline,)
    _refuse_waits(pipeline)
    units = _units(pipeline.items)
    for unit in units:
        if unit.jobs > limits.jobs_per_upload:
            names = ", ".join(item.key for item in unit.items)
            raise UserError.single(
                "pipeline-group-too-large",
                f"{names} has {unit.jobs} jobs, and one upload takes {limits.jobs_per_upload}",
                "split the suite, lower its shards or matrices, or raise limits.jobs_per_upload "
                "if Buildkite has raised it for you",
            )
    return tuple(_filled(_dependencies_first(units), pipeline, limits.jobs_per_upload))


def _refuse_waits(pipeline: Pipeline) -> None:
    # Later uploads land in front of earlier ones, so a wait between them would hold back the wrong steps.
    waits = [item for item in pipeline.items if "wait" in item.body or item.body.get("type") == "wait"]
    if waits:
        raise UserError.single(
            "pipeline-wait-split",
            f"{pipeline.jobs} jobs go up in several parts, and the wait '{waits[0].key}' of "
            f"{waits[0].suite} has a condition, which cannot be kept between them",
            "put the wait into a group, or say with depends_on what waits for what",
        )


def _units(items: Iterable[Item]) -> list[Unit]:
    units = [Unit((item,)) for item in items]
    while True:
        cycle = find_cycle(_edges(units))
        if cycle is None:
            return units
        members = {int(name) for name in cycle}
        joined = Unit(tuple(item for index in sorted(members) for item in units[index].items))
        first = min(members)
        units = [
            joined if index == first else unit
            for index, unit in enumerate(units)
            if index == first or index not in members
        ]


def _edges(units: list[Unit]) -> dict[str, list[str]]:
    owner = {key: str(index) for index, unit in enumerate(units) for item in unit.items for key in item.keys}
    return {
        str(index): sorted(
            {owner[n] for item in unit.items for n in item.needs if n in owner} - {str(index)}, key=int
        )
        for index, unit in enumerate(units)
    }


def _dependencies_first(units: list[Unit]) -> list[Unit]:
    rank = depths(_edges(units))
    return [unit for _, unit in sorted(enumerate(units), key=lambda pair: (rank[str(pair[0])], pair[0]))]


def _filled(units: Iterable[Unit], pipeline: Pipeline, limit: int) -> Iterable[Pipeline]:
    notify = pipeline.notify
    batch: list[Item] = []
    jobs = 0
    for unit in units:
        if batch and jobs + unit.jobs > limit:
            yield Pipeline(tuple(batch), notify)
            batch, jobs, notify = [], 0, ()
        batch += unit.items
        jobs += unit.jobs
    yield Pipeline(tuple(batch), notify)
