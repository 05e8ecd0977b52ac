"""Writes the table `checkpoints`: which steps of a group are complete, and their dependencies."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from engine.model.content_digest import sum_to_bytes
from engine.store.db.connector import Database
from engine.store.tables.content_sums import ContentSum
from engine.store.tables.sequences import GroupCounts

Status = Literal["valid", "provisional", "invalid"]

_WRITE = """
INSERT INTO checkpoints (run, step_name, grp, completed, completed_at, validation_status, reason, content_hash,
    dependencies, kept)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step_name, grp) DO UPDATE SET completed = excluded.completed, completed_at = excluded.completed_at,
    validation_status = excluded.validation_status, reason = excluded.reason, content_hash = excluded.content_hash,
    dependencies = excluded.dependencies, kept = excluded.kept
"""
_COMPLETE = "SELECT 1 FROM checkpoints WHERE run = ? AND step_name = ? AND grp = ? AND content_hash = ? AND completed"
_EXISTS = "SELECT 1 FROM checkpoints WHERE run = ? AND step_name = ? AND grp = ? AND content_hash = ?"
_LIST = """
SELECT step_name, grp, completed_at, validation_status, reason, content_hash, dependencies, kept
FROM checkpoints WHERE run = ? ORDER BY grp, CASE step_name WHEN 'seeder' THEN 1 WHEN 'loader' THEN 2
    WHEN 'parser' THEN 3 WHEN 'filter' THEN 4 WHEN 'converter' THEN 5 WHEN 'appender' THEN 7 ELSE 6 END, step_name
"""

_REOPEN = """
UPDATE checkpoints SET completed = 0, completed_at = NULL, validation_status = 'provisional', reason = ?
WHERE run = ? AND completed AND step_name <> 'seeder' AND grp IN (
    SELECT grp FROM sequences WHERE run = checkpoints.run AND ready + delayed + taken + incomplete > 0)
"""

REOPENED_REASON = "there is work again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of one step of one locator group."""

    step: str
    group: str
    completed_at: float | None = None
    """Seconds since 1970; None: not complete."""
    status: Status = "provisional"
    """`valid`: complete under the current defs. `invalid`: its content changed and it must run again. `provisional`:
    neither; a complete step is provisional if part of it was made under earlier defs."""
    reason: str | None = None
    content_hash: str
    dependencies: tuple[str, ...] = ()
    """Steps it depends on: by name in its own group, as GROUP/STEP in another one."""
    kept: int = 0
    """Pages done before its content changed, which are not processed again."""

    @property
    def completed(self) -> bool:
        """Whether the step is complete."""
        return self.completed_at is not None

    @property
    def key(self) -> str:
        """GROUP/STEP."""
        return f"{self.group}/{self.step}"

    @property
    def dependency_keys(self) -> tuple[str, ...]:
        """The dependencies, each as GROUP/STEP."""
        return tuple(name if "/" in name else f"{self.group}/{name}" for name in self.dependencies)


def write(db: Database, run: int, changed: Iterable[Checkpoint]) -> None:
    """Store checkpoints. Raises StorageError for an impossible one, such as complete and invalid."""
    for c in changed:
        dependencies = orjson.dumps(c.dependencies).decode()
        db.execute(
            _WRITE,
            (
                run,
                c.step,
                c.group,
                int(c.completed),
                c.completed_at,
                c.status,
                c.reason,
                c.content_hash,
                dependencies,
                c.kept,
            ),
        )


def reopen(db: Database, run: int) -> None:
    """After a retry without a supervisor: the steps of groups with open jobs are no longer complete."""
    db.execute(_REOPEN, (REOPENED_REASON, run))


def invalidate(checkpoint: Checkpoint, reason: str) -> Checkpoint:
    """The checkpoint as incomplete, because its content is not what it was."""
    return replace(checkpoint, completed_at=None, status="invalid", reason=reason)


def is_complete(db: Database, run: int, step: str, group: str, content_hash: str) -> bool:
    """Whether a step was completed with that content."""
    return db.one(_COMPLETE, (run, step, group, content_hash)) is not None


def exists(db: Database, run: int, step: str, group: str, content_hash: str) -> bool:
    """Whether a step is recorded with that content, complete or not."""
    return db.one(_EXISTS, (run, step, group, content_hash)) is not None


def list_checkpoints(db: Database, run: int) -> list[Checkpoint]:
    """Every checkpoint of a run, group by group, in the order of the steps."""
    return [
        Checkpoint(
            step=step, group=group, completed_at=at, status=status, reason=reason, content_hash=content,
            dependencies=tuple(orjson.loads(dependencies)), kept=kept,
        )
        for step, group, at, status, reason, content, dependencies, kept in db.all(_LIST, (run,))
    ]  # fmt: skip


def to_state_record(
    checkpoint: Checkpoint, run: str, jobs: GroupCounts | None = None, content: ContentSum | None = None
) -> dict[str, Any]:
    """A checkpoint as an object for `state.jsonl` and the command `state`. `run`: the run's id.

    `jobs` and `content` are those of its group now; `content` is None where sums are not recorded.
    """
    c, counts, finished = checkpoint, jobs or GroupCounts(), content if checkpoint.completed else None
    return {
        "run": run, "group": c.group, "step_name": c.step, "completed": c.completed, "completed_at": c.completed_at,
        "validation_status": c.status, "reason": c.reason, "content_hash": c.content_hash,
        "dependencies": list(c.dependencies), "done": counts.done, "failed": counts.failed, "open": counts.open,
        "rows": content.rows if content else None,
        "document_sum": sum_to_bytes(finished.document_sum).hex() if finished else None,
        "row_sum": sum_to_bytes(finished.row_sum).hex() if finished else None,
    }  # fmt: skip
