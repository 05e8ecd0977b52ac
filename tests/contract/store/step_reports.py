"""A crawl whose pages report results of plugin steps."""

from collections.abc import Sequence

from msgspec.structs import replace

from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.job import JobState
from crawl_engine.model.step import ChainStep, Outcome, StepResult
from crawl_engine.store.tables.job.results import UnitResult
from crawl_engine.store.tables.run import runs, versions
from tests.contract.store.harness import StoreHarness

DEFS = Definitions(
    data_defs=(DataDef(name="book", fields=(Field(name="title"),)),),
    task_groups=(
        TaskGroup(
            name="g",
            tasks=(
                Task(name="list", data_def="book", chain=(ChainStep(name="mark", class_name="a.B", kind="step"),)),
                Task(name="plain", data_def="book"),
            ),
        ),
    ),
)


def publish_steps(store: StoreHarness) -> None:
    """Have the run use defs with a step of the user."""
    with store.db.transaction():
        runs.set_version(store.db, store.run, versions.publish(store.db, DEFS, 1.0))


def report(
    store: StoreHarness, url: str, outcomes: Sequence[Outcome], *, text: str = "", code: str = "", group: str = "g"
) -> int:
    """Crawl a page whose step `mark` has these outcomes; returns the id of its job."""
    store.seed(url, group=group)
    (job,) = store.take(url, group, free=1)
    results = tuple(
        UnitResult(store.book, group, StepResult("list", "mark", outcome, code, 1.25, text)) for outcome in outcomes
    )
    outcome = store.done(job, *results)
    if "error" in outcomes:
        outcome = replace(outcome, state=JobState.FAILED, reason=f"list/mark: {text}")
    store.commit(outcome)
    return job.id
