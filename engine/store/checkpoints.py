"""Checkpoints: which step of which group is complete, and on what it rests. Alone in writing `checkpoints`."""

from dataclasses import dataclass

import orjson

from engine.store.connector import Database

_WRITE = """
INSERT INTO checkpoints (run, step_name, grp, completed, completed_at, validation_status, reason, content_hash,
    dependencies)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step_name, grp) DO UPDATE SET completed = excluded.completed, completed_at = excluded.completed_at,
    validation_status = excluded.validation_status, reason = excluded.reason, content_hash = excluded.content_hash,
    dependencies = excluded.dependencies
"""
_COMPLETE = "SELECT 1 FROM checkpoints WHERE run = ? AND step_name = ? AND grp = ? AND content_hash = ? AND completed"
_LIST = """
SELECT step_name, grp, completed, completed_at, validation_status, reason, content_hash, dependencies
FROM checkpoints WHERE run = ? ORDER BY grp, step_name
"""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The standing of one step of one locator group."""

    step: str
    group: str
    completed: bool
    completed_at: float | None
    status: str
    """`valid`, `provisional` or `invalid`."""
    reason: str | None
    content_hash: str
    dependencies: tuple[str, ...]


def write(db: Database, run: int, checkpoint: Checkpoint) -> None:
    """Record where a step stands."""
    c = checkpoint
    told = orjson.dumps(c.dependencies).decode()
    db.execute(
        _WRITE,
        (run, c.step, c.group, int(c.completed), c.completed_at, c.status, c.reason, c.content_hash, told),
    )


def complete(db: Database, run: int, step: str, group: str, content_hash: str) -> bool:
    """Whether a step was finished on that very content."""
    return db.one(_COMPLETE, (run, step, group, content_hash)) is not None


def listed(db: Database, run: int) -> list[Checkpoint]:
    """Every checkpoint of a run."""
    return [
        Checkpoint(step, group, bool(done), at, status, reason, content, tuple(orjson.loads(needs)))
        for step, group, done, at, status, reason, content, needs in db.all(_LIST, (run,))
    ]
