"""The transition tables, written a second time as an operator would describe them."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any

import pytest

from crawl_engine.model.job import JOB_TRANSITIONS, OPEN_STATES, JobState
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

TABLES: list[tuple[type[StrEnum], Mapping[Any, frozenset[Any]], StrEnum]] = [
    (JobState, JOB_TRANSITIONS, JobState.READY),
    (NodeState, NODE_TRANSITIONS, NodeState.STARTING),
    (Role, ROLE_TRANSITIONS, Role.INITIAL),
    (HeartbeatState, HEARTBEAT_TRANSITIONS, HeartbeatState.NEWBORN),
    (RunState, RUN_TRANSITIONS, RunState.NEW),
    (Stage, STAGE_TRANSITIONS, Stage.INIT),
]


@pytest.mark.parametrize(("enum", "table", "first"), TABLES)
def test_each_state_has_an_entry_and_can_be_reached(
    enum: type[StrEnum], table: Mapping[Any, frozenset[Any]], first: StrEnum
) -> None:
    assert set(table) == set(enum)
    reached, left = {first}, [first]
    while left:
        new = table[left.pop()] - reached
        reached |= new
        left += new
    assert reached == set(enum)


@pytest.mark.parametrize(("enum", "table", "first"), TABLES)
def test_no_state_follows_itself(enum: type[StrEnum], table: Mapping[Any, frozenset[Any]], first: StrEnum) -> None:
    assert not [state for state in enum if state in table[state]]


def _words(table: Mapping[Any, frozenset[Any]]) -> dict[str, set[str]]:
    return {str(before): {str(after) for after in afters} for before, afters in table.items()}


def test_jobs() -> None:
    assert _words(JOB_TRANSITIONS) == {
        "READY": {"TAKEN", "SKIPPED"},
        "TAKEN": {"READY", "DONE", "FAILED", "SKIPPED", "INCOMPLETE"},
        "DONE": {"READY", "FAILED"}, "FAILED": {"READY", "DONE"}, "SKIPPED": {"READY"}, "INCOMPLETE": {"READY"},
    }  # fmt: skip
    assert set(map(str, OPEN_STATES)) == {"READY", "TAKEN", "INCOMPLETE"}


def test_nodes_never_come_back_from_the_dead() -> None:
    dead = {NodeState.DEAD, NodeState.FAILED, NodeState.TERMINATED}
    for state in dead:
        assert NODE_TRANSITIONS[state] <= dead
    assert NODE_TRANSITIONS[NodeState.DEAD] == {NodeState.FAILED}
    assert not NODE_TRANSITIONS[NodeState.SHUTDOWN] & ALIVE_STATES
    assert not NODE_TRANSITIONS[NodeState.DRAINING] & ALIVE_STATES
    assert not ALIVE_STATES & dead
    for state in ALIVE_STATES:
        assert dead <= NODE_TRANSITIONS[state], f"{state} may die at any moment"
    assert NodeState.READY in NODE_TRANSITIONS[NodeState.DONE]
    assert NodeState.DONE in NODE_TRANSITIONS[NodeState.READY]


def test_roles_and_heartbeats() -> None:
    assert _words(ROLE_TRANSITIONS) == {
        "INITIAL": {"RUNNER", "BACKUP_RUNNER"}, "RUNNER": {"DEAD_RUNNER"},
        "BACKUP_RUNNER": {"RUNNER", "DEAD_BACKUP_RUNNER"}, "DEAD_RUNNER": set(), "DEAD_BACKUP_RUNNER": set(),
    }  # fmt: skip
    assert _words(HEARTBEAT_TRANSITIONS) == {
        "NEWBORN": {"HEALTHY", "ARRHYTHMIA", "ASYSTOLE", "APPARENT_DEATH"},
        "HEALTHY": {"ARRHYTHMIA", "ASYSTOLE", "APPARENT_DEATH"},
        "ARRHYTHMIA": {"HEALTHY", "ASYSTOLE", "APPARENT_DEATH"}, "ASYSTOLE": set(), "APPARENT_DEATH": set(),
    }  # fmt: skip


def test_a_run_is_done_only_through_draining_and_every_other_end_can_be_resumed() -> None:
    assert [s for s in RunState if RunState.DONE in RUN_TRANSITIONS[s]] == [RunState.DRAINING]
    for state in (RunState.CANCELLED, RunState.KILLED, RunState.FAILED):
        assert {RunState.SEEDING, RunState.READY} <= RUN_TRANSITIONS[state]
        assert RunState.DONE not in RUN_TRANSITIONS[state]
    for state in (RunState.NEW, RunState.SEEDING, RunState.READY, RunState.DRAINING):
        assert {RunState.CANCELLED, RunState.KILLED, RunState.FAILED} <= RUN_TRANSITIONS[state]
    assert RunState.READY in RUN_TRANSITIONS[RunState.DRAINING], "a new def version flips it back"


def test_stages_have_one_end() -> None:
    assert STAGE_TRANSITIONS[Stage.SHUTDOWN_COMPLETE] == frozenset()
    assert [s for s in Stage if Stage.SHUTDOWN_COMPLETE in STAGE_TRANSITIONS[s]] == [Stage.ABORT, Stage.RELEASING_LOCK]
    assert [s for s in Stage if Stage.CRAWL_COMPLETE in STAGE_TRANSITIONS[s]] == [Stage.RUNNING]
    order = (
        Stage.INIT, Stage.CHECK_LOCK, Stage.START_APPENDER, Stage.START_NODES, Stage.RUNNING, Stage.CRAWL_COMPLETE,
        Stage.STOPPING_NODES_GRACEFUL, Stage.STOPPING_APPENDER_GRACEFUL, Stage.RELEASING_LOCK, Stage.SHUTDOWN_COMPLETE,
    )  # fmt: skip
    for before, after in pairwise(order):
        assert after in STAGE_TRANSITIONS[before]
