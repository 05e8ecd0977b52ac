"""The tables of allowed transitions, the SQL that is built from them, and the CHECK constraints that mirror them."""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from crawl_engine.errors import CrawlError, StorageError
from crawl_engine.model.job import JOB_TRANSITIONS, JobKind, JobOrigin, JobState, ReasonCode
from crawl_engine.model.node import (
    ALIVE_STATES,
    HEARTBEAT_TRANSITIONS,
    NODE_TRANSITIONS,
    ROLE_TRANSITIONS,
    HeartbeatState,
    NodeState,
    Role,
)
from crawl_engine.model.run import RUN_TRANSITIONS, STAGE_TRANSITIONS, RunState, Stage
from crawl_engine.runtime.beat_file import Beat
from crawl_engine.store.db.connector import source_states
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.job.jobs import JobUpdate
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import nodes, runs
from tests.contract.store.harness import StoreHarness

LEASE = 77


def _pairs(table: Mapping[Any, frozenset[Any]]) -> Iterator[tuple[Any, Any, bool]]:
    for before, after in product(table, table):
        yield before, after, after in table[before]


def _job(store: StoreHarness, state: JobState) -> int:
    """Put the only job of the store into a state."""
    taken = state is JobState.TAKEN
    with store.db.transaction():
        store.db.execute(
            "UPDATE jobs SET state = ?, not_before = NULL, attempts = 0, lease = ?, node = ?",
            (state, LEASE if taken else None, store.nodes[0] if taken else None),
        )
    return int(store.db.value("SELECT id FROM jobs"))


def finish(store: StoreHarness, update: JobUpdate) -> set[int]:
    return jobs.finish(store.db, [update], jobs.read_leased(store.db, [(update.id, update.lease, 0, None)]))


def _finish(target: JobState) -> Callable[[StoreHarness, int], object]:
    return lambda store, job: finish(store, JobUpdate(job, LEASE, target))


OPERATIONS: dict[str, tuple[JobState, set[JobState], Callable[[StoreHarness, int], object]]] = {
    "take": (JobState.TAKEN, {JobState.READY}, lambda h, j: jobs.take(h.db, [j], LEASE, h.nodes[0])),
    "done": (JobState.DONE, {JobState.TAKEN}, _finish(JobState.DONE)),
    "failed": (JobState.FAILED, {JobState.TAKEN}, _finish(JobState.FAILED)),
    "skipped": (JobState.SKIPPED, {JobState.TAKEN}, _finish(JobState.SKIPPED)),
    "incomplete": (JobState.INCOMPLETE, {JobState.TAKEN}, _finish(JobState.INCOMPLETE)),
    "given back": (JobState.READY, {JobState.TAKEN}, _finish(JobState.READY)),
    "released": (JobState.READY, {JobState.TAKEN}, lambda h, j: jobs.release(h.db, h.nodes[0], "x", crashed=True)),
    "all released": (JobState.READY, {JobState.TAKEN}, lambda h, j: jobs.release_all(h.db, h.run, "x")),
    "resumed": (JobState.READY, {JobState.INCOMPLETE}, lambda h, j: jobs.resume_incomplete(h.db, h.run)),
    "given up": (
        JobState.SKIPPED, {JobState.READY}, lambda h, j: jobs.skip_ready(h.db, 1, "x", 9),
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", ReasonCode)
def test_a_code_stays_with_its_reason(store: StoreHarness, code: ReasonCode) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(JobOutcome(job=job, state=JobState.SKIPPED, reason="x", reason_code=code))
    assert store.db.value("SELECT reason_code FROM jobs WHERE id = ?", (job.id,)) == code
    with store.db.transaction():
        is_over = jobs.requeue_skipped(store.db, job.sequence, 9) == 1
        assert is_over == (code not in (ReasonCode.CANONICAL, ReasonCode.NO_PAGE))
        jobs.reopen(store.db, [job.id], [])
    assert store.db.all("SELECT state, reason, reason_code FROM jobs") == [("READY", None, None)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_changes_only_jobs_in_allowed_states(store: StoreHarness, name: str) -> None:
    store.seed("http://a/1")
    target, accepted, operation = OPERATIONS[name]
    for state in JobState:
        job = _job(store, state)
        with store.db.transaction():
            operation(store, job)
        expected = target if state in accepted else state
        assert store.state(job) == expected, f"{name} of a {state} job"
        assert state not in accepted or target in JOB_TRANSITIONS[state]
        store.check_counters()


def test_a_wrong_lease_changes_nothing_in_any_state(store: StoreHarness) -> None:
    store.seed("http://a/1")
    for state, target in product(JobState, set(JobState) - {JobState.TAKEN}):
        job = _job(store, state)
        with store.db.transaction():
            assert finish(store, JobUpdate(job, LEASE + 1, target)) == set()
        assert store.state(job) == state


def test_a_node_changes_state_exactly_as_the_table_says(store: StoreHarness) -> None:
    node = store.nodes[0]
    for before, after, allowed in _pairs(NODE_TRANSITIONS):
        with store.db.transaction():
            store.db.execute("UPDATE nodes SET state = ? WHERE epoch = ?", (before, node))
            assert nodes.set_state(store.db, node, after) is allowed, f"{before} → {after}"
        assert nodes.get_state_and_role(store.db, node)[0] is (after if allowed else before)


def test_a_role_changes_exactly_as_the_table_says(store: StoreHarness) -> None:
    node = store.nodes[0]
    for before, after, allowed in _pairs(ROLE_TRANSITIONS):
        with store.db.transaction():
            store.db.execute("UPDATE nodes SET role = ? WHERE epoch = ?", (before, node))
            assert nodes.set_role(store.db, node, after) is allowed, f"{before} → {after}"
        assert nodes.get_state_and_role(store.db, node)[1] is (after if allowed else before)


def test_a_heart_changes_exactly_as_the_table_says(store: StoreHarness) -> None:
    node = store.nodes[0]
    for before, after, allowed in _pairs(HEARTBEAT_TRANSITIONS):
        with store.db.transaction():
            store.db.execute("UPDATE nodes SET heart = ? WHERE epoch = ?", (before, node))
            assert nodes.set_heart(store.db, node, after) is allowed, f"{before} → {after}"
        assert store.db.value("SELECT heart FROM nodes") == (after if allowed else before)


def test_a_run_changes_state_exactly_as_the_table_says(store: StoreHarness) -> None:
    for before, after, allowed in _pairs(RUN_TRANSITIONS):
        with store.db.transaction():
            store.db.execute("UPDATE runs SET state = ?", (before,))
            assert runs.set_state(store.db, store.run, after, "why") is allowed, f"{before} → {after}"
        assert runs.get(store.db, store.run).state is (after if allowed else before)


def test_a_run_changes_stage_exactly_as_the_table_says(store: StoreHarness) -> None:
    for before, after, allowed in _pairs(STAGE_TRANSITIONS):
        with store.db.transaction():
            store.db.execute("UPDATE runs SET stage = ?", (before,))
            if allowed:
                runs.enter_stage(store.db, store.run, after)
            else:
                with pytest.raises(CrawlError, match=f"no transition from stage {before} to {after}"):
                    runs.enter_stage(store.db, store.run, after)
        assert runs.get(store.db, store.run).stage is (after if allowed else before)


def test_a_heartbeat_moves_an_active_node_between_ready_and_done_and_never_revives_a_dead_or_draining_one(
    store: StoreHarness,
) -> None:
    node = store.nodes[0]
    moving = {NodeState.STARTING, NodeState.READY, NodeState.DONE}
    for before, after in product(NodeState, NodeState):
        with store.db.transaction():
            store.db.execute("UPDATE nodes SET state = ?, done = 0 WHERE epoch = ?", (before, node))
            beat = Beat(number=1, state=after, in_flight=1, done=5, rss=9, now="http://a/")
            nodes.record_beats(store.db, [(node, 0.1, beat)])
        moves = before in moving and after in {NodeState.READY, NodeState.DONE}
        state, done = store.db.all("SELECT state, done FROM nodes")[0]
        assert state == (after if moves else before)
        # the last heartbeat of a node that shut down still counts its work
        assert done == (5 if before in {*ALIVE_STATES, NodeState.SHUTDOWN} else 0)
        assert not moves or after is before or after in NODE_TRANSITIONS[before]


def test_only_an_expected_process_can_register(store: StoreHarness) -> None:
    node = store.nodes[0]
    for state in NodeState:
        with store.db.transaction():
            store.db.execute("UPDATE nodes SET state = ?", (state,))
            said = nodes.register(store.db, node, "DONE", 5, "b:5:1")
        assert said is (state in {NodeState.STARTING, NodeState.STANDBY}), state


def test_a_node_of_an_ended_supervisor_can_neither_register_nor_write(store: StoreHarness) -> None:
    with store.db.transaction():
        epoch, _ = nodes.insert(store.db, store.run, store.supervisor, Role.RUNNER, None, 0.0)
        store.db.execute("UPDATE supervisors SET ended_at = 1")
        assert not nodes.register(store.db, epoch, "DONE", 5, "b:5:1")
    assert nodes.get_live_role(store.db, epoch) is None
    assert nodes.get_live_role(store.db, store.nodes[0]) is None


def test_source_states_allow_a_transition_to_every_target() -> None:
    assert source_states(JOB_TRANSITIONS, JobState.TAKEN) == "('READY')"
    assert source_states(JOB_TRANSITIONS, JobState.SKIPPED) == "('READY', 'TAKEN')"
    assert source_states(JOB_TRANSITIONS, JobState.SKIPPED, JobState.TAKEN) == "('READY')"
    assert source_states(ROLE_TRANSITIONS, Role.INITIAL) == "(NULL)"


CHECKS: list[tuple[str, str, type[StrEnum]]] = [
    ("jobs", "state", JobState),
    ("jobs", "origin", JobOrigin),
    ("sequences", "kind", JobKind),
    ("nodes", "state", NodeState),
    ("nodes", "role", Role),
    ("nodes", "heart", HeartbeatState),
    ("appenders", "state", NodeState),
    ("runs", "state", RunState),
    ("runs", "stage", Stage),
]


@pytest.mark.sqlite
@pytest.mark.parametrize(("table", "column", "enum"), CHECKS)
def test_a_check_constraint_lists_exactly_the_words_of_its_enum(
    store: StoreHarness, table: str, column: str, enum: type[StrEnum]
) -> None:
    sql = str(store.db.value("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)))
    match = re.search(rf"CHECK \({column} IN \(([^)]*)\)", sql)
    assert match is not None
    assert set(re.findall(r"'([^']*)'", match[1])) == {str(word) for word in enum}


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, c, _ in CHECKS if t in ("jobs", "nodes", "runs")])
def test_a_check_constraint_refuses_other_words(store: StoreHarness, table: str, column: str) -> None:
    store.seed("http://a/1")
    with pytest.raises(StorageError, match=r"(?i)check constraint"), store.db.transaction():
        store.db.execute(f"UPDATE {table} SET {column} = 'ASLEEP'")


def test_a_job_is_taken_if_and_only_if_it_has_a_lease(store: StoreHarness) -> None:
    store.seed("http://a/1")
    for state, lease in ((JobState.TAKEN, None), (JobState.READY, 5), (JobState.DONE, 5)):
        with pytest.raises(StorageError, match=r"(?i)check constraint"), store.db.transaction():
            store.db.execute("UPDATE jobs SET state = ?, lease = ?", (state, lease))
