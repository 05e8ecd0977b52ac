"""The table of checkpoints: what it rejects, and when the supervisor completes a step."""

import pytest
from msgspec.structs import replace

from crawl_engine.errors import StorageError
from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.link import Link
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.run import checkpoints, runs
from crawl_engine.store.tables.run.checkpoints import Checkpoint
from crawl_engine.supervise.checkpoints import tracker
from crawl_engine.supervise.checkpoints.state_file import StateFile
from crawl_engine.supervise.checkpoints.step_graph import build_step_graph
from crawl_engine.supervise.checkpoints.tracker import CheckpointTracker
from tests.contract.store.harness import Page, StoreHarness, failed

STEP = Checkpoint(step="loader", group="g", position=1, content_hash="1")
DEFS = Definitions(
    locator_groups=(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/",)),)),),
    task_groups=(
        TaskGroup(name="g", tasks=(Task(name="t", data_def="book"),)),
        TaskGroup(name="far", tasks=(Task(name="t", data_def="book"),)),
    ),
    data_defs=(DataDef(name="book", fields=(Field(name="title"),), links=(Link(selector="a", group="far"),)),),
)
STEPS = build_step_graph(DEFS, base_url=None, output=None)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(STEP, completed_at=1.0, status="invalid"),
        replace(STEP, status="valid"),
        replace(STEP, status="finished"),  # type: ignore[arg-type]
    ],
    ids=["complete and invalid", "valid and not complete", "no status"],
)
def test_the_table_rejects_impossible_checkpoints(store: StoreHarness, wrong: Checkpoint) -> None:
    with pytest.raises(StorageError), store.db.transaction():
        checkpoints.write(store.db, store.run, [wrong])
    assert checkpoints.list_checkpoints(store.db, store.run) == []


def test_a_checkpoint_is_read_as_it_was_written(store: StoreHarness) -> None:
    entry = replace(STEP, completed_at=1.5, status="valid", reason="3 jobs failed", dependencies=("seeder", "x/loader"))
    seeder = replace(STEP, step="seeder", position=0)
    of_task = replace(STEP, task="t", position=2, dependencies=("loader", "parser", "g/t/loader"), kept=3)
    with store.db.transaction():
        checkpoints.write(store.db, store.run, [seeder, of_task, STEP])
        checkpoints.write(store.db, store.run, [entry])
    assert checkpoints.list_checkpoints(store.db, store.run) == [seeder, entry, of_task]
    assert entry.dependency_keys == ("g/seeder", "x/loader")
    assert (of_task.key, of_task.dependency_keys) == ("g/t/loader", ("g/loader", "g/t/parser", "g/t/loader"))
    assert checkpoints.is_complete(store.db, store.run, "loader", "g", "1")
    assert not checkpoints.is_complete(store.db, store.run, "loader", "g", "2"), "another content"
    assert not checkpoints.is_complete(store.db, store.run, "seeder", "g", "1")


def begun(store: StoreHarness) -> CheckpointTracker:
    """A run whose seeder is complete, with one job in the group `g`, and an output."""
    with store.db.transaction():
        outputs.ensure(store.db, store.run, appender="rows", type_="csv", data_def="book", path="/x", settings={})
        tracker.publish_steps(store.db, store.run, STEPS, 1)
        (seeder,) = [c for c in checkpoints.list_checkpoints(store.db, store.run) if c.step == "seeder"]
        checkpoints.write(store.db, store.run, [replace(seeder, completed_at=1.0, status="valid")])
        runs.mark_seeded(store.db, store.run, 1)
    store.seed("http://a/")
    return CheckpointTracker(store.context(), STEPS, StateFile(store.db, runs.get(store.db, store.run)))


def going() -> bool:
    return False


def complete(store: StoreHarness) -> set[str]:
    return {c.key for c in checkpoints.list_checkpoints(store.db, store.run) if c.completed}


def written(store: StoreHarness) -> None:
    """The appender has written every row."""
    with store.db.transaction():
        last = store.db.value("SELECT max(id) FROM rows")
        for output in outputs.list_outputs(store.db, store.run):
            outputs.advance(store.db, output.id, cursor=last, size=1, rows=1, inode=1)


def test_a_step_is_complete_when_its_last_job_is_done_and_the_appender_when_its_rows_are_written(
    store: StoreHarness,
) -> None:
    kept = begun(store)
    assert not kept.update(going)
    (job,) = store.take("http://a/")
    assert not kept.update(going), "its job is taken"
    store.commit(store.done(job, data=["{}"], links=[Page("http://a/far", "far")]))
    assert kept.update(going)
    assert complete(store) == {"g/seeder", "g/loader", "g/t/parser", "g/t/filter"}
    (job,) = store.take("http://a/far", "far")
    store.commit(store.done(job, data=["{}"]))
    kept.update(going)
    assert complete(store) == {step.key for step in STEPS.steps} - {"g/t/appender", "far/t/appender"}
    written(store)
    assert kept.update(going)
    assert complete(store) == {step.key for step in STEPS.steps}
    assert not kept.update(going), "and nothing more is written"


def test_rows_of_other_groups_do_not_hold_up_an_appender(store: StoreHarness) -> None:
    kept = begun(store)
    (job,) = store.take("http://a/")
    store.commit(store.done(job, data=["{}"], links=[Page(f"http://a/{n}", "far") for n in range(3)]))
    kept.update(going)
    written(store)
    first, *_ = store.take("http://a/", "far")
    store.commit(store.done(first, data=["{}"]))
    kept.update(going)
    assert "g/t/appender" in complete(store)
    assert "far/t/appender" not in complete(store)


def test_no_step_is_completed_while_the_run_is_stopping(store: StoreHarness) -> None:
    kept = begun(store)
    (job,) = store.take("http://a/")
    store.commit(store.done(job))
    assert not kept.update(lambda: True)
    assert complete(store) == {"g/seeder"}
    with store.db.transaction():
        kept.close(done=False, reason="cancelled by signal")
    assert complete(store) == {"g/seeder"}
    assert {c.reason for c in checkpoints.list_checkpoints(store.db, store.run) if not c.completed} == {
        "cancelled by signal: 0 jobs left"
    }


def test_the_stop_is_checked_inside_the_transaction_that_writes(store: StoreHarness) -> None:
    kept = begun(store)
    (job,) = store.take("http://a/")
    store.commit(store.done(job))
    calls = []
    kept.update(lambda: calls.append(store.db.in_transaction) or False)
    assert calls == [True]


def test_a_requeued_job_reopens_the_steps_of_its_group_and_of_groups_it_links_to(store: StoreHarness) -> None:
    kept = begun(store)
    (job,) = store.take("http://a/")
    store.commit(failed(job))
    kept.update(going)
    (loader,) = [c for c in checkpoints.list_checkpoints(store.db, store.run) if c.key == "g/loader"]
    assert loader.reason == "1 job failed"
    with store.db.transaction():
        store.db.execute("UPDATE jobs SET state = 'READY'")
    assert kept.update(going)
    assert complete(store) == {"g/seeder"}
    assert {c.reason for c in checkpoints.list_checkpoints(store.db, store.run) if not c.completed} == {
        "there is work again"
    }


def test_jobs_requeued_without_a_supervisor_reopen_the_steps_of_their_group(store: StoreHarness) -> None:
    kept = begun(store)
    (job,) = store.take("http://a/")
    store.commit(store.done(job, links=[Page("http://a/far", "far")]))
    store.finish_all("http://a/far", "far")
    kept.update(going)
    assert complete(store) == {step.key for step in STEPS.steps}
    with store.db.transaction():
        store.db.execute("UPDATE jobs SET state = 'READY' WHERE url = 'http://a/far'")
        checkpoints.reopen(store.db, store.run)
    assert complete(store) == {f"g/{step}" for step in ("seeder", "loader", "t/parser", "t/filter", "t/appender")}


def test_an_output_to_be_rebuilt_reopens_its_appender(store: StoreHarness) -> None:
    kept = begun(store)
    (job,) = store.take("http://a/")
    store.commit(store.done(job, data=["{}"]))
    written(store)
    kept.update(going)
    assert {"g/t/appender", "far/t/appender"} <= complete(store)
    with store.db.transaction():
        outputs.mark_dirty(store.db, store.run, "book", 1)
    kept.update(going)
    assert {step.key for step in STEPS.steps} - complete(store) == {"g/t/appender", "far/t/appender"}


def test_a_restart_keeps_what_is_complete(store: StoreHarness) -> None:
    kept = begun(store)
    (job,) = store.take("http://a/")
    store.commit(store.done(job, data=["{}"], links=[Page("http://a/far", "far")]))
    written(store)
    kept.update(going)
    before = checkpoints.list_checkpoints(store.db, store.run)
    with store.db.transaction():
        jobs.release_all(store.db, store.run, "x")
        tracker.publish_steps(store.db, store.run, STEPS, 1)
    again = CheckpointTracker(store.context(), STEPS, StateFile(store.db, runs.get(store.db, store.run)))
    (job,) = store.take("http://a/far", "far")
    store.commit(store.done(job, data=["{}"]))
    again.update(going)
    after = {c.key: c for c in checkpoints.list_checkpoints(store.db, store.run)}
    for entry in before:
        if entry.completed:
            assert after[entry.key] == entry


def test_an_update_reads_no_jobs_and_only_the_last_row(store: StoreHarness) -> None:
    kept = begun(store)
    (job,) = store.take("http://a/")
    store.commit(store.done(job, data=["{}"]))
    statements = store.plans(lambda: kept.update(going))
    assert len(statements) >= 4
    assert not [s for s, _ in statements if " jobs" in s.lower()]
