"""Writes the table `checkpoints`: which steps are complete, and their dependencies."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct

from crawl_engine.model.content_digest import sum_to_bytes
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.job.sequences import GroupCounts
from crawl_engine.store.tables.row.content_sums import ContentSum

Status = Literal["valid", "provisional", "invalid"]

_WRITE = """
INSERT INTO checkpoints (run, grp, task, step_name, position, completed, completed_at, validation_status, reason,
    content_hash, dependencies, kept) {values}
ON CONFLICT (run, grp, task, step_name) DO UPDATE SET position = excluded.position, completed = excluded.completed,
    completed_at = excluded.completed_at, validation_status = excluded.validation_status, reason = excluded.reason,
    content_hash = excluded.content_hash, dependencies = excluded.dependencies, kept = excluded.kept
"""
_IS_COMPLETE = """
SELECT completed FROM checkpoints WHERE run = ? AND grp = ? AND task = '' AND step_name = ? AND content_hash = ?
"""
_LIST = """
SELECT grp AS "group", task, step_name AS step, position, completed_at, validation_status AS status, reason,
    content_hash, dependencies, kept
FROM checkpoints WHERE run = ? ORDER BY 1, 2, position, step_name
"""
_DELETE = """
DELETE FROM checkpoints WHERE run = ? AND (grp, task, step_name) IN
    (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?) texts)
"""
_REOPEN = """
UPDATE checkpoints SET completed = 0, completed_at = NULL, validation_status = 'provisional', reason = ?
WHERE run = ? AND completed = 1 AND NOT (task = '' AND step_name = 'seeder') AND grp IN (
    SELECT grp FROM sequences WHERE run = checkpoints.run AND ready + delayed + taken + incomplete > 0)
"""
_CLOSE_AGAIN = """
UPDATE checkpoints SET completed = 1, completed_at = (SELECT ended_at FROM runs WHERE seq = checkpoints.run),
    validation_status = CASE WHEN kept > 0 THEN 'provisional' ELSE 'valid' END, reason = NULL
WHERE run = ? AND completed = 0 AND reason = ?
"""

REOPENED_REASON = "there is work again"
GROUP_STEPS = frozenset({"seeder", "loader"})
"""Steps that serve all tasks of a group."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The state of one step: of a locator group, which all its tasks share, or of one task."""

    step: str
    group: str
    task: str = ""
    """Empty: a step of the group."""
    position: int = 0
    """In the chain of its task."""
    completed_at: float | None = None
    """Seconds since 1970; None: not complete."""
    status: Status = "provisional"
    """`valid`: complete under the current defs. `invalid`: its content changed and it must run again. `provisional`:
    neither; a complete step is provisional if part of it was made under earlier defs."""
    reason: str | None = None
    content_hash: str
    dependencies: tuple[str, ...] = ()
    """Steps it depends on: by name in its own task, else in its group; as GROUP/STEP in another one."""
    kept: int = 0
    """Pages done before its content changed, which are not processed again."""

    @property
    def completed(self) -> bool:
        return self.completed_at is not None

    @property
    def key(self) -> str:
        """GROUP/STEP, or GROUP/TASK/STEP."""
        return join_key(self.group, self.task, self.step)

    @property
    def dependency_keys(self) -> tuple[str, ...]:
        return tuple(resolve_dependency(self.group, self.task, name) for name in self.dependencies)


def join_key(group: str, task: str, step: str) -> str:
    """The key of a step: GROUP/STEP, or GROUP/TASK/STEP. Only the group's name keeps a `/` of its own."""
    if not task:
        return f"{group}/{step}"
    if "/" in task or "/" in step:
        task, step = task.replace("/", "%2F"), step.replace("/", "%2F")
    return f"{group}/{task}/{step}"


def resolve_dependency(group: str, task: str, name: str) -> str:
    if "/" in name:
        return name
    return join_key(group, "" if name in GROUP_STEPS else task, name)


def write(db: Database, run: int, changed: Iterable[Checkpoint]) -> None:
    """Store checkpoints. Raises StorageError for an impossible one, such as complete and invalid."""
    rows = [
        (
            run, c.group, c.task, c.step, c.position, int(c.completed), c.completed_at, c.status, c.reason,
            c.content_hash, orjson.dumps(c.dependencies).decode(), c.kept,
        )
        for c in changed
    ]  # fmt: skip
    db.execute_values(_WRITE, rows)


def delete(db: Database, run: int, removed: Sequence[Checkpoint]) -> None:
    if removed:
        db.execute(_DELETE, (run, orjson.dumps([(c.group, c.task, c.step) for c in removed]).decode()))


def reopen(db: Database, run: int) -> None:
    """After a retry without a supervisor: the steps of groups with open jobs are no longer complete."""
    db.execute(_REOPEN, (REOPENED_REASON, run))


def close_again(db: Database, run: int) -> None:
    """The work of a retry is taken back: what `reopen` reopened is complete as it was when the run ended."""
    db.execute(_CLOSE_AGAIN, (run, REOPENED_REASON))


def is_complete(db: Database, run: int, step: str, group: str, content_hash: str) -> bool | None:
    """Whether a step of a group was completed with that content; None: it is not recorded with it."""
    completed = db.value(_IS_COMPLETE, (run, group, step, content_hash))
    return None if completed is None else bool(completed)


def list_checkpoints(db: Database, run: int) -> list[Checkpoint]:
    """Every checkpoint of a run, group by group and task by task, in the order of the steps."""
    return db.rows(Checkpoint, _LIST, (run,))


def to_state_record(
    checkpoint: Checkpoint, run: str, jobs: GroupCounts | None = None, content: ContentSum | None = None
) -> dict[str, Any]:
    """A checkpoint as an object for `state.jsonl` and the command `state`. `run`: the run's id.

    `jobs` and `content` are those of its group now.
    """
    c, counts, finished = checkpoint, jobs or GroupCounts(), content if checkpoint.completed else None
    return {
        "run": run, "group": c.group, "task": c.task or None, "step_name": c.step, "completed": c.completed,
        "completed_at": c.completed_at, "validation_status": c.status, "reason": c.reason,
        "content_hash": c.content_hash, "dependencies": list(c.dependencies), "done": counts.done,
        "failed": counts.failed, "open": counts.open, "rows": content.rows if content else None,
        "document_sum": sum_to_bytes(finished.document_sum).hex() if finished else None,
        "row_sum": sum_to_bytes(finished.row_sum).hex() if finished else None,
    }  # fmt: skip
