"""Updates the checkpoints of a run: complete when no work is left, invalid when the defs change.

A step is recorded as complete only by what the tables say in the same transaction, and never once the run is stopping.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.errors import plural
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.job.sequences import GroupCounts
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import checkpoints, runs
from crawl_engine.store.tables.run.checkpoints import Checkpoint
from crawl_engine.supervise.checkpoints.state_file import StateFile
from crawl_engine.supervise.checkpoints.step_graph import (
    APPENDER,
    LOADER,
    PAGE_STEPS,
    SEEDER,
    STEP_INPUTS,
    StepGraph,
    StepSpec,
    find_dependents,
)
from crawl_engine.supervise.run_context import RunContext

CheckpointMap = Mapping[str, Checkpoint]
"""Checkpoints by key."""


class RunProgress(Struct, frozen=True):
    """The progress of a run at one moment."""

    groups: Mapping[str, GroupCounts]
    seeded: bool
    """Whether all locators of the current defs are jobs."""
    outputs_written: Mapping[str, bool]
    """By the key of an appender: whether the rows of its task are in all their files."""

    def for_group(self, group: str) -> GroupCounts:
        """The counts of one group; a group without jobs has nothing open."""
        return self.groups.get(group, GroupCounts())


class CheckpointTracker(Struct):
    """Updates the checkpoints of one run."""

    run: RunContext
    graph: StepGraph
    """The steps of the defs in force."""
    state_file: StateFile
    _last_rows: dict[str, int] = {}

    def update(self, stopped: Callable[[], bool]) -> bool:
        """Complete finished steps, reopen those with new work, unless `stopped()`. True if any changed."""
        entries: CheckpointMap | None = read_checkpoints(self.run.db, self.run.seq)
        changed = self._completion_changes(entries)
        if changed:
            entries = None
            with self.run.db.transaction():
                changed = [] if stopped() else self._completion_changes()
                checkpoints.write(self.run.db, self.run.seq, changed)
        self.state_file.refresh(list(entries.values()) if entries else None, at_once=False)
        return bool(changed)

    def close(self, *, done: bool, reason: str | None) -> None:
        """Record the end of the run in the transaction that ends it: `done`, or interrupted for a reason."""
        entries = read_checkpoints(self.run.db, self.run.seq)
        changed = (
            self._completion_changes(entries)
            if done
            else interruption_changes(entries, self.graph, self._read_progress(entries), reason or "stopped")
        )
        checkpoints.write(self.run.db, self.run.seq, changed)

    def _completion_changes(self, entries: CheckpointMap | None = None) -> list[Checkpoint]:
        if entries is None:
            entries = read_checkpoints(self.run.db, self.run.seq)
        return completion_changes(entries, self.graph, self._read_progress(entries), time.time())

    def _read_progress(self, entries: CheckpointMap) -> RunProgress:
        run = runs.get(self.run.db, self.run.seq)
        groups = sequences.count_by_group(self.run.db, self.run.seq)
        seeded = run.seeded_version is not None and run.seeded_version == run.defs_version
        # during a re-extraction the scan for stale pages is still running
        seeded = seeded and not runs.is_reextracting(self.run.db, self.run.seq)
        now = RunProgress(groups, seeded, {})
        return replace(now, outputs_written=self._outputs_written(entries, now))

    def _outputs_written(self, entries: CheckpointMap, now: RunProgress) -> dict[str, bool]:
        """By appender: whether its files hold all rows up to the end of its work; other groups may still add rows."""
        reached, last = outputs.get_progress(self.run.db, self.run.seq), rows.last_id(self.run.db, self.run.seq)
        written, drained = dict[str, bool](), dict[str, bool]()
        for step in self.graph.steps:
            if step.role != APPENDER:
                continue
            entry = entries.get(step.key)
            last_row = 0
            if entry is None or not entry.completed:
                if step.group not in drained:
                    drained[step.group] = _is_drained(step.group, entries, self.graph, now)
                if not drained[step.group]:
                    self._last_rows.pop(step.key, None)
                    continue
                last_row = self._last_rows.setdefault(step.key, last)
            cursor, dirty = reached.get(step.output, (last_row, False))
            written[step.key] = cursor >= last_row and not dirty
        return written


def read_checkpoints(db: Database, run: int) -> dict[str, Checkpoint]:
    return {c.key: c for c in checkpoints.list_checkpoints(db, run)}


def publish_steps(db: Database, run: int, steps: StepGraph, version: int, *, reextract: bool = False) -> None:
    """Record every step of the defs, in the publishing transaction; changed steps become invalid.

    `reextract`: done pages are re-extracted with these defs, as far as that needs no fetch. The run still has the old
    version.
    """
    entries = read_checkpoints(db, run)
    changed = diff_checkpoints(entries, steps, sequences.count_by_group(db, run), version, reextract=reextract)
    removed = removed_entries(entries, steps)
    checkpoints.write(db, run, changed)
    checkpoints.delete(db, run, removed)


def diff_checkpoints(
    entries: CheckpointMap,
    steps: StepGraph,
    groups: Mapping[str, GroupCounts],
    version: int,
    *,
    reextract: bool = False,
) -> list[Checkpoint]:
    """The entries to write when these defs become current; complete entries that stay valid are left out."""
    specs = {step.key: step for step in steps.steps}
    removed = {entry.key: entry for entry in removed_entries(entries, steps)}
    renamed = _find_renamed(entries, removed.values(), steps)
    changed = {
        key: f"{changed_input} changed with defs v{version}"
        for key, step in specs.items()
        if key in entries and (changed_input := _changed_input(entries[key], step)) is not None
    }
    reasons = changed | _dependent_reasons(changed, steps, version)
    written = []
    for key, step in specs.items():
        old = entries.get(key)
        is_same = old is not None and (old.dependencies, old.position) == (step.dependencies, step.position)
        if old is not None and old.completed and key not in reasons and is_same:
            continue
        before = old or renamed.get(key)
        kept = before.kept if before else 0
        is_new = before is None and step.task != ""
        if reextract and step.role != LOADER:
            kept = 0
        elif (key in changed or is_new) and step.role in PAGE_STEPS:
            kept = groups.get(step.group, GroupCounts()).done
        cause = reasons.get(key) or (_invalid_reason(old) if old and old.status == "invalid" else None)
        fresh = Checkpoint(
            step=step.name, group=step.group, task=step.task, position=step.position, content_hash=step.content_hash,
            dependencies=step.dependencies, kept=kept, status="invalid" if cause else "provisional", reason=cause,
        )  # fmt: skip
        if old is not None and old.completed and not cause:  # only its dependencies or its position changed
            fresh = replace(fresh, completed_at=old.completed_at, status=old.status, reason=old.reason)
        written.append(fresh)
    return written + [
        replace(old, completed_at=None, status="invalid", reason=f"not in defs v{version}")
        for key, old in entries.items()
        if key not in specs and key not in removed and (old.completed or old.status != "invalid")
    ]


def removed_entries(entries: CheckpointMap, steps: StepGraph) -> list[Checkpoint]:
    """The entries to delete: tasks and steps that these defs no longer have, in groups that still exist.

    Entries of a removed group stay, as invalid: no step works its pages any more.
    """
    keys = {step.key for step in steps.steps}
    groups = {step.group for step in steps.steps}
    return [entry for key, entry in entries.items() if entry.task and entry.group in groups and key not in keys]


def completion_changes(entries: CheckpointMap, steps: StepGraph, now: RunProgress, at: float) -> list[Checkpoint]:
    """The entries to write so that a step is complete exactly if it has no work left. `at`: seconds since 1970.

    Seeder entries are left alone: the `Seeder` writes them.
    """
    changed = []
    for step in steps.steps:
        old = entries.get(step.key)
        if old is None or step.role == SEEDER:
            continue
        counts = now.for_group(step.group)
        if not old.completed and _is_complete(step, entries, steps, now):
            notes = []
            if counts.failed and step.role != APPENDER:
                notes.append(f"{plural(counts.failed, 'job')} failed")
            if old.kept:
                keep = "keeps its" if old.kept == 1 else "keep their"
                notes.append(f"{plural(old.kept, 'page')} done before a change of the defs {keep} results")
            reason = "; ".join(notes) or None
            changed.append(replace(old, completed_at=at, status="provisional" if old.kept else "valid", reason=reason))
        elif old.completed and _has_new_work(step, steps, now):
            changed.append(replace(old, completed_at=None, status="provisional", reason=checkpoints.REOPENED_REASON))
    return changed


def interruption_changes(entries: CheckpointMap, steps: StepGraph, now: RunProgress, why: str) -> list[Checkpoint]:
    """The entries to write when a run is stopped: incomplete ones get the reason and the number of jobs left."""
    changed = []
    for step in steps.steps:
        old = entries.get(step.key)
        if old is None or old.completed:
            continue
        left = now.for_group(step.group).open
        if step.role == SEEDER:
            note = f"{why}: not all locators are jobs"
        elif not left and any(now.for_group(group).open for group in steps.upstream[step.group]):
            note = f"{why}: 0 jobs left, but open pages of other groups may link here"
        else:
            note = f"{why}: {plural(left, 'job')} left"
        cause = _invalid_reason(old) if old.status == "invalid" else None
        changed.append(replace(old, reason=f"{cause}; {note}" if cause else note))
    return changed


def _is_complete(step: StepSpec, entries: CheckpointMap, steps: StepGraph, now: RunProgress) -> bool:
    written = step.role != APPENDER or now.outputs_written.get(step.key, False)
    return written and _is_drained(step.group, entries, steps, now)


def _has_new_work(step: StepSpec, steps: StepGraph, now: RunProgress) -> bool:
    """Whether a complete step has work again: in its group, or in a group whose pages link to it."""
    counts = now.for_group(step.group)
    if step.role == APPENDER and not now.outputs_written.get(step.key, False):
        return True
    here = counts.loading if step.role == LOADER else counts.open
    return bool(here or any(now.for_group(name).loading for name in steps.upstream[step.group]))


def _is_drained(group: str, entries: CheckpointMap, steps: StepGraph, now: RunProgress) -> bool:
    """Whether a group has no open job, and no seeder or upstream page can add one."""
    if not now.seeded:
        return False
    groups = (group, *steps.upstream[group])
    seeders = (entries.get(f"{name}/{SEEDER}") for name in groups)
    return not any(now.for_group(name).open for name in groups) and all(s is None or s.completed for s in seeders)


def _find_renamed(entries: CheckpointMap, removed: Iterable[Checkpoint], steps: StepGraph) -> dict[str, Checkpoint]:
    """By the key of a new task's step: the entry of a removed task that had the same steps with the same content."""
    old_tasks: dict[tuple[str, str], dict[str, Checkpoint]] = {}
    for entry in removed:
        if entry.task:
            old_tasks.setdefault((entry.group, entry.task), {})[entry.step] = entry
    new_tasks: dict[tuple[str, str], list[StepSpec]] = {}
    for step in steps.steps:
        if old_tasks and step.task and step.key not in entries:
            new_tasks.setdefault((step.group, step.task), []).append(step)
    contents = {
        (group, *sorted((entry.step, entry.content_hash) for entry in by_step.values())): by_step
        for (group, _), by_step in old_tasks.items()
    }
    return {
        step.key: by_step[step.name]
        for (group, _), of_task in new_tasks.items()
        if (by_step := contents.get((group, *sorted((step.name, step.content_hash) for step in of_task)))) is not None
        for step in of_task
    }


def _changed_input(entry: Checkpoint, step: StepSpec) -> str | None:
    """The change of a step's inputs, or None."""
    if entry.content_hash != step.content_hash:
        return STEP_INPUTS[step.role]
    return "the step before it" if step.task and entry.dependencies != step.dependencies else None


def _dependent_reasons(changed: Iterable[str], steps: StepGraph, version: int) -> dict[str, str]:
    """Every step that depends on a changed one, directly or through others, with the reason."""
    dependencies = {step.key: step.dependency_keys for step in steps.steps}
    return {
        key: f"depends on {cause}, which changed with defs v{version}"
        for key, cause in find_dependents(changed, dependencies).items()
    }


def _invalid_reason(entry: Checkpoint) -> str | None:
    """Why an entry became invalid, without the note of an interruption."""
    return entry.reason.partition("; ")[0] if entry.reason else None
