"""Checkpoints of a run: written before the work, complete when nothing is left of it, invalid when the defs change.

A step is complete only by what the tables say in the transaction that writes it, and never once the run is to stop.
How the work goes is none of this room's affair.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from engine.store.db.connector import Database
from engine.store.tables import checkpoints, outputs, rows, runs, sequences
from engine.store.tables.checkpoints import Checkpoint
from engine.store.tables.sequences import GroupCounts
from engine.supervise.checkpoints.state_file import StateFile
from engine.supervise.checkpoints.step_graph import (
    APPENDER,
    LOADER,
    PAGE_STEPS,
    SEEDER,
    STEP_INPUTS,
    StepGraph,
    StepSpec,
)

CheckpointMap = Mapping[str, Checkpoint]
"""Checkpoints by GROUP/STEP."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How the work of a run stands at one moment."""

    groups: Mapping[str, GroupCounts]
    seeded: bool
    """All locators of the current defs are jobs."""
    outputs_written: Mapping[str, bool]
    """By group: its rows are in all its files."""

    def for_group(self, group: str) -> GroupCounts:
        """Of one group; one without a job has nothing open."""
        return self.groups.get(group, GroupCounts())


class CheckpointTracker:
    """Keeps the checkpoints of one run in step with its work."""

    def __init__(self, db: Database, run: int, graph: StepGraph, file: StateFile) -> None:
        self._db = db
        self._state_file = file
        self._run = run
        self._graph = graph
        self._last_rows: dict[str, int] = {}

    def apply_graph(self, graph: StepGraph, version: int, *, reextract: bool = False) -> None:
        """A def version was published: what it changes is invalid. To be called inside the publishing transaction."""
        publish_steps(self._db, self._run, graph, version, reextract=reextract)
        self._graph = graph

    def update(self, stopped: Callable[[], bool]) -> bool:
        """Complete what is done, reopen what is not; whether an entry changed. Writes none once `stopped()`."""
        changed = self._completion_changes()
        if changed:
            with self._db.transaction():
                changed = [] if stopped() else self._completion_changes()
                checkpoints.write(self._db, self._run, changed)
        self.write_state_file()
        return bool(changed)

    def write_state_file(self) -> None:
        """Bring `state.jsonl` up to date."""
        self._state_file.refresh()

    def close(self, *, done: bool, reason: str | None) -> None:
        """The end of the run, inside the transaction that ends it: `done`, or cut off for a reason."""
        known = read_checkpoints(self._db, self._run)
        changed = (
            self._completion_changes()
            if done
            else interruption_changes(known, self._graph, self._read_progress(known), reason or "stopped")
        )
        checkpoints.write(self._db, self._run, changed)

    def _completion_changes(self) -> list[Checkpoint]:
        known = read_checkpoints(self._db, self._run)
        return completion_changes(known, self._graph, self._read_progress(known), time.time())

    def _read_progress(self, known: CheckpointMap) -> RunProgress:
        run = runs.get(self._db, self._run)
        groups = sequences.count_by_group(self._db, self._run)
        seeded = run.seeded_version is not None and run.seeded_version == run.defs_version
        seeded = seeded and not runs.is_reextracting(self._db, self._run)  # stale pages are still being looked for
        now = RunProgress(groups, seeded, {})
        return replace(now, outputs_written=self._outputs_written(known, now))

    def _outputs_written(self, known: CheckpointMap, now: RunProgress) -> dict[str, bool]:
        """Whether the files hold all that a group had given when its work was over: others write on meanwhile."""
        reached, last = outputs.get_progress(self._db, self._run), rows.last_id(self._db, self._run)
        found = {}
        for group, data_defs in self._graph.data_defs.items():
            entry = known.get(f"{group}/{APPENDER}")
            wanted = 0
            if entry is None or not entry.completed:
                if not _is_drained(group, known, self._graph, now):
                    self._last_rows.pop(group, None)
                    continue
                wanted = self._last_rows.setdefault(group, last)
            files = [reached[name] for name in data_defs if name in reached]
            found[group] = all(cursor >= wanted and not dirty for cursor, dirty in files)
        return found


def read_checkpoints(db: Database, run: int) -> dict[str, Checkpoint]:
    """The checkpoints of a run by GROUP/STEP."""
    return {c.key: c for c in checkpoints.list_checkpoints(db, run)}


def publish_steps(db: Database, run: int, steps: StepGraph, version: int, *, reextract: bool = False) -> None:
    """Write down every step of the defs; what they changed is invalid. Inside the publishing transaction.

    `renews`: pages that are done are worked anew with these defs, as far as that needs no fetch.
    """
    changed = diff_checkpoints(
        read_checkpoints(db, run), steps, sequences.count_by_group(db, run), version, reextract=reextract
    )
    checkpoints.write(db, run, changed)


def diff_checkpoints(
    known: CheckpointMap, steps: StepGraph, groups: Mapping[str, GroupCounts], version: int, *, reextract: bool = False
) -> list[Checkpoint]:
    """The entries to write when these defs come into force; one that is complete, and still right, is left alone."""
    wanted = {step.key: step for step in steps.steps}
    changed = {
        key: f"{STEP_INPUTS.get(step.name, 'it')} changed with defs v{version}"
        for key, step in wanted.items()
        if key in known and known[key].content_hash != step.content_hash
    }
    reasons = changed | _dependent_reasons(changed, steps, version)
    written = []
    for key, step in wanted.items():
        old = known.get(key)
        if old is not None and old.completed and key not in reasons and old.dependencies == step.dependencies:
            continue
        kept = old.kept if old else 0
        if reextract and step.name != LOADER:
            kept = 0
        elif key in changed and step.name in PAGE_STEPS:
            kept = groups.get(step.group, GroupCounts()).done
        cause = reasons.get(key) or (_invalid_reason(old) if old and old.status == "invalid" else None)
        fresh = Checkpoint(
            step=step.name, group=step.group, content_hash=step.content_hash, dependencies=step.dependencies, kept=kept,
            status="invalid" if cause else "provisional", reason=cause,
        )  # fmt: skip
        if old is not None and old.completed and not cause:  # it rests on others now, and is what it was
            fresh = replace(fresh, completed_at=old.completed_at, status=old.status, reason=old.reason)
        written.append(fresh)
    return written + [
        replace(old, completed_at=None, status="invalid", reason=f"not in defs v{version}")
        for key, old in known.items()
        if key not in wanted and (old.completed or old.status != "invalid")
    ]


def completion_changes(known: CheckpointMap, steps: StepGraph, now: RunProgress, at: float) -> list[Checkpoint]:
    """The entries to write so that each is complete exactly where nothing of it is left. `at`: seconds since 1970.

    The seeder's are the seeding's to complete.
    """
    changed = []
    for step in steps.steps:
        old = known.get(step.key)
        if old is None or step.name == SEEDER:
            continue
        mine = now.for_group(step.group)
        if not old.completed and _is_complete(step, known, steps, now):
            notes = []
            if mine.failed and step.name != APPENDER:
                notes.append(f"{mine.failed} {'job' if mine.failed == 1 else 'jobs'} failed")
            if old.kept:
                notes.append(f"{old.kept} pages done before a change of the defs keep what they gave")
            reason = "; ".join(notes) or None
            changed.append(replace(old, completed_at=at, status="provisional" if old.kept else "valid", reason=reason))
        elif old.completed and _has_new_work(step, steps, now):
            changed.append(replace(old, completed_at=None, status="provisional", reason=checkpoints.REOPENED_REASON))
    return changed


def interruption_changes(known: CheckpointMap, steps: StepGraph, now: RunProgress, why: str) -> list[Checkpoint]:
    """The entries to write when a run is stopped: each that is not complete says why, and how much is left."""
    changed = []
    for step in steps.steps:
        old = known.get(step.key)
        if old is None or old.completed:
            continue
        left = now.for_group(step.group).open
        if step.name == SEEDER:
            told = f"{why}: not all locators are jobs"
        elif not left and any(now.for_group(group).open for group in steps.upstream[step.group]):
            told = f"{why}: 0 jobs left, but pages that lead here are"
        else:
            told = f"{why}: {left} {'job' if left == 1 else 'jobs'} left"
        cause = _invalid_reason(old) if old.status == "invalid" else None
        changed.append(replace(old, reason=f"{cause}; {told}" if cause else told))
    return changed


def _is_complete(step: StepSpec, known: CheckpointMap, steps: StepGraph, now: RunProgress) -> bool:
    written = step.name != APPENDER or now.outputs_written.get(step.group, False)
    return written and _is_drained(step.group, known, steps, now)


def _has_new_work(step: StepSpec, steps: StepGraph, now: RunProgress) -> bool:
    """Whether a step that was complete has work again: in its group, or where pages are fetched that lead there."""
    mine = now.for_group(step.group)
    if step.name == APPENDER and not now.outputs_written.get(step.group, False):
        return True
    here = mine.loading if step.name == LOADER else mine.open
    return bool(here or any(now.for_group(name).loading for name in steps.upstream[step.group]))


def _is_drained(group: str, known: CheckpointMap, steps: StepGraph, now: RunProgress) -> bool:
    """Whether a group has no job left, and none can come."""
    whole = {group, *steps.upstream[group]}
    unseeded = any(c.step == SEEDER and c.group in whole and not c.completed for c in known.values())
    return now.seeded and not unseeded and not any(now.for_group(name).open for name in whole)


def _dependent_reasons(changed: Iterable[str], steps: StepGraph, version: int) -> dict[str, str]:
    """Every step that rests on a changed one, through whatever others, with the reason."""
    followers: dict[str, list[str]] = defaultdict(list)
    for step in steps.steps:
        for name in step.dependencies:
            followers[name if "/" in name else f"{step.group}/{name}"].append(step.key)
    found: dict[str, str] = {}
    todo = [(key, key) for key in changed]
    while todo:
        key, cause = todo.pop(0)
        for follower in followers[key]:
            if follower not in found and follower not in changed:
                found[follower] = f"rests on {cause}, which changed with defs v{version}"
                todo.append((follower, cause))
    return found


def _invalid_reason(entry: Checkpoint) -> str | None:
    """Why an entry became invalid, without what was added when a run was stopped."""
    return entry.reason.partition("; ")[0] if entry.reason else None
