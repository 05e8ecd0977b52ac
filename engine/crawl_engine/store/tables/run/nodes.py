"""Writes the tables `nodes` and `appenders`: insert before spawn, register, heartbeats, end."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import json

from crawl_engine.errors import Fenced
from crawl_engine.model.node import (
    ALIVE_STATES,
    HEARTBEAT_TRANSITIONS,
    NODE_TRANSITIONS,
    ROLE_TRANSITIONS,
    HeartbeatState,
    NodeState,
    Role,
)
from crawl_engine.runtime.beat_file import Beat
from crawl_engine.store.db.connector import Database, source_states

ALIVE = "(" + ", ".join(f"'{s}'" for s in sorted(ALIVE_STATES)) + ")"
_INSERT = """
INSERT INTO nodes (run, supervisor, number, role, replaces, started_at)
VALUES (:run, :supervisor, (SELECT coalesce(max(number), 0) + 1 FROM nodes WHERE run = :run), :role, :replaces, :now)
RETURNING epoch, number
"""
_REGISTER = f"""
UPDATE nodes SET state = CASE WHEN role = 'BACKUP_RUNNER' THEN ? ELSE 'DONE' END, pid = ?, identity = ?
WHERE epoch = ? AND state IN ('STARTING', 'STANDBY')
    AND state IN {source_states(NODE_TRANSITIONS, NodeState.DONE)}
    AND EXISTS (SELECT 1 FROM supervisors s WHERE s.epoch = nodes.supervisor AND s.ended_at IS NULL)
"""
_SET_STATE = {
    state: f"UPDATE nodes SET state = '{state}' WHERE epoch = ? AND state IN {source_states(NODE_TRANSITIONS, state)}"
    for state in NodeState
}
_SET_HEART = {
    heart: f"UPDATE nodes SET heart = '{heart}' "
    f"WHERE epoch = ? AND heart IN {source_states(HEARTBEAT_TRANSITIONS, heart)}"
    for heart in HeartbeatState
}
_SET_ROLE = {
    role: f"UPDATE nodes SET role = '{role}' WHERE epoch = ? AND role IN {source_states(ROLE_TRANSITIONS, role)}"
    for role in Role
}
_RECORD_BEATS = """
WITH b (epoch, state, beat_age, in_flight, done, failed, rss, lag, now, now_age, now_limit, browsers) AS ({values})
UPDATE nodes SET state = CASE WHEN nodes.state IN ('STARTING','READY','DONE') AND b.state IN ('READY','DONE')
        THEN b.state ELSE nodes.state END,
    beat_age = b.beat_age, in_flight = b.in_flight, done = b.done, failed = b.failed, rss = b.rss, lag = b.lag,
    now = b.now, now_age = b.now_age, now_limit = b.now_limit, browsers = b.browsers
FROM b WHERE nodes.epoch = b.epoch AND nodes.state NOT IN ('TERMINATED', 'DEAD', 'FAILED')
"""
_LEFT_OVER = f"""
SELECT run, epoch, number, identity FROM nodes
WHERE (state IN {ALIVE} OR (state = 'SHUTDOWN' AND ended_at IS NULL)) AND supervisor = coalesce(?, supervisor)
"""
_DONE = "SELECT number, done FROM nodes WHERE run = ?"
_OWNERS = f"""
SELECT number, supervisor FROM nodes
WHERE run = ? AND (state IN {ALIVE} OR (state = 'SHUTDOWN' AND ended_at IS NULL)) ORDER BY number
"""
LIVE_ROLE = f"""
SELECT n.role FROM nodes n JOIN supervisors s ON s.epoch = n.supervisor
WHERE n.epoch = ? AND n.state IN {ALIVE} AND s.ended_at IS NULL
"""
_HAS_LIVE = f"""
SELECT EXISTS (SELECT 1 FROM nodes n JOIN supervisors s ON s.epoch = n.supervisor
    WHERE (n.state IN {ALIVE} OR (n.state = 'SHUTDOWN' AND n.ended_at IS NULL)) AND s.ended_at IS NULL)
"""

_LEFT_OVER_APPENDERS = f"""
SELECT epoch, identity FROM appenders WHERE state IN {ALIVE} AND supervisor = coalesce(?, supervisor)
"""
_APPENDER_INSERT = "INSERT INTO appenders (run, supervisor, started_at) VALUES (?, ?, ?) RETURNING epoch"
_APPENDER_REGISTER = """
UPDATE appenders SET state = 'READY', pid = ?, identity = ? WHERE epoch = ? AND state = 'STARTING'
    AND EXISTS (SELECT 1 FROM supervisors s WHERE s.epoch = appenders.supervisor AND s.ended_at IS NULL)
"""
_APPENDER_ALIVE = f"""
SELECT 1 FROM appenders a JOIN supervisors s ON s.epoch = a.supervisor
WHERE a.epoch = ? AND a.state IN {ALIVE} AND s.ended_at IS NULL
"""
_APPENDER_BEAT = "UPDATE appenders SET beat_age = ?, flush_ms = coalesce(?, flush_ms) WHERE epoch = ?"


def insert(db: Database, run: int, supervisor: int, role: Role, replaces: int | None, now: float) -> tuple[int, int]:
    """Insert the row of a node before its process is spawned; returns its epoch and number."""
    row = db.one(_INSERT, {"run": run, "supervisor": supervisor, "role": role, "replaces": replaces, "now": now})
    assert row is not None
    return int(row[0]), int(row[1])


def register(db: Database, epoch: int, state: Literal["DONE", "STANDBY"], pid: int, identity: str) -> bool:
    """Register the node's process; False: its epoch is over and it must exit.

    A backup that became a runner meanwhile does not return to STANDBY.
    """
    return bool(db.execute(_REGISTER, (state, pid, identity, epoch)).rowcount)


def record_spawn(
    db: Database, epoch: int, pid: int, identity: str | None, *, table: Literal["nodes", "appenders"] = "nodes"
) -> None:
    db.execute(f"UPDATE {table} SET pid = ?, identity = ? WHERE epoch = ?", (pid, identity, epoch))


def get_live_role(db: Database, epoch: int) -> Role | None:
    """The role of a node that may still write; None: it is fenced."""
    row = db.one(LIVE_ROLE, (epoch,))
    return None if row is None else Role(str(row[0]))


def has_live(db: Database) -> bool:
    """Whether any node has not ended, of a supervisor that has not; one that was replaced may leave a row behind."""
    return bool(db.value(_HAS_LIVE))


def check_live(db: Database, epoch: int) -> None:
    """Raise Fenced if a node may not write any more."""
    if get_live_role(db, epoch) is None:
        raise fenced(epoch)


def fenced(epoch: int) -> Fenced:
    """The error of a node that may not write any more."""
    return Fenced(f"node epoch {epoch} is over", "Another process took its place; this one ends.")


def get_state_and_role(db: Database, epoch: int) -> tuple[NodeState, Role]:
    row = db.one("SELECT state, role FROM nodes WHERE epoch = ?", (epoch,))
    assert row is not None
    return NodeState(str(row[0])), Role(str(row[1]))


def set_state(db: Database, epoch: int, state: NodeState) -> bool:
    """Change a node's state if the transition is allowed."""
    return bool(db.execute(_SET_STATE[state], (epoch,)).rowcount)


def set_heart(db: Database, epoch: int, heart: HeartbeatState) -> bool:
    """Change a node's heartbeat state if the transition is allowed."""
    return bool(db.execute(_SET_HEART[heart], (epoch,)).rowcount)


def set_role(db: Database, epoch: int, role: Role) -> bool:
    """Change a node's role if the transition is allowed."""
    return bool(db.execute(_SET_ROLE[role], (epoch,)).rowcount)


def end(db: Database, epoch: int, reason: str, now: float) -> None:
    db.execute("UPDATE nodes SET ended_at = ?, reason = ? WHERE epoch = ?", (now, reason, epoch))


def record_beats(db: Database, beats: Sequence[tuple[int, float, Beat]]) -> None:
    """Write the last beats of nodes: each epoch, the age of its beat in seconds, and the beat."""
    rows = [
        (
            epoch, beat.state, age, beat.in_flight, beat.done, beat.failed, beat.rss, beat.lag, beat.now,
            beat.now_age, beat.now_limit, beat.browsers and json.encode(beat.browsers).decode(),
        )
        for epoch, age, beat in beats
    ]  # fmt: skip
    db.execute_values(_RECORD_BEATS, rows)


def forget_processes(db: Database) -> None:
    """Forget the processes of nodes and appenders: in a copy of the database they are those of another crawl."""
    db.execute("UPDATE nodes SET identity = NULL, pid = NULL")
    db.execute("UPDATE appenders SET identity = NULL, pid = NULL")


class LeftOver(NamedTuple):
    run: int
    epoch: int
    number: int
    identity: str | None


def list_left_over(db: Database, supervisor: int | None = None) -> list[LeftOver]:
    """The nodes that a supervisor (None: any) left behind."""
    return db.rows(LeftOver, _LEFT_OVER, (supervisor,))


def list_owners(db: Database, run: int) -> dict[int, int]:
    """By number: the supervisor of each node that has not ended."""
    return dict(db.all(_OWNERS, (run,)))


def count_runners(db: Database, run: int) -> int:
    return int(db.value(f"SELECT count(*) FROM nodes WHERE run = ? AND role = 'RUNNER' AND state IN {ALIVE}", (run,)))


def insert_appender(db: Database, run: int, supervisor: int, now: float) -> int:
    """Insert the row of an appender before its process is spawned; returns its epoch."""
    return int(db.value(_APPENDER_INSERT, (run, supervisor, now)))


def register_appender(db: Database, epoch: int, pid: int, identity: str) -> bool:
    """Register the appender's process; False: its epoch is over and it must exit."""
    return bool(db.execute(_APPENDER_REGISTER, (pid, identity, epoch)).rowcount)


def is_appender_alive(db: Database, epoch: int) -> bool:
    return db.one(_APPENDER_ALIVE, (epoch,)) is not None


def record_appender_beat(db: Database, epoch: int, age: float, flush_ms: float | None) -> None:
    db.execute(_APPENDER_BEAT, (age, flush_ms, epoch))


def end_appender(db: Database, epoch: int, state: NodeState, now: float) -> None:
    db.execute("UPDATE appenders SET state = ?, ended_at = ? WHERE epoch = ?", (state, now, epoch))


def list_left_over_appenders(db: Database, supervisor: int | None = None) -> list[tuple[int, str | None]]:
    """Epoch and identity of appenders that a supervisor (None: any) left behind."""
    return db.all(_LEFT_OVER_APPENDERS, (supervisor,))


def count_done(db: Database, run: int) -> dict[str, int]:
    """The jobs that each node of a run has done, by its last heartbeat."""
    return {f"n{number}": int(done) for number, done in db.all(_DONE, (run,))}
