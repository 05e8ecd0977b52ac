"""Verifies a run: recomputes the sums of its finished groups, and compares its files with its rows. Changes nothing.

A group is finished when all of its steps are complete. There is no long transaction: a crawl may be writing, and what
changed meanwhile is not judged.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from engine.store.db.connector import Database
from engine.store.pages.documents import PageStore
from engine.store.read import content
from engine.store.tables.row import content_sums
from engine.store.tables.row.content_sums import ContentSum
from engine.store.tables.run import versions
from engine.store.tables.run.checkpoints import Checkpoint, join_key
from engine.store.tables.run.runs import Run
from engine.supervise.checkpoints.step_graph import APPENDER, LOADER, PARSER, StepRole, find_dependents, list_task_steps
from engine.supervise.checkpoints.tracker import read_checkpoints
from engine.supervise.verification.document_check import check_documents, conclude_documents
from engine.supervise.verification.findings import GroupFindings, GroupResult, GroupStatus, OutputResult, Verification
from engine.supervise.verification.output_check import OutputChecks
from engine.supervise.verification.row_check import check_rows, conclude_rows
from engine.supervise.verification.stored_files import list_damaged_files

_BATCH_ROWS, _FIRST_ROWS, _MIN_ROWS = 1_000, 100, 4
_BATCH_BYTES = 8_000_000
"""Batches of large rows are smaller, so that memory stays flat."""
_CHANGED = "it changed while it was read"


class _TaskKeys(NamedTuple):
    """A task, and the keys of its entries that damage concerns."""

    data_def: str
    steps: Mapping[StepRole, str]


def verify(db: Database, folder: Path, run: Run, pages: PageStore | None) -> Verification:
    """Verify a run. `folder`: the data dir; `pages`: None if the file with the bodies is missing.

    Raises DatabaseBusy, StorageError.
    """
    entries = read_checkpoints(db, run.seq)
    by_group: dict[str, list[Checkpoint]] = {}
    for entry in entries.values():
        by_group.setdefault(entry.group, []).append(entry)
    finished = [group for group, steps in by_group.items() if _status(steps, "valid") == "valid"]
    recorded = _list_recorded(db, run.seq, finished)
    findings = {group: GroupFindings() for group in finished}
    tasks = _list_tasks(db, run)
    output_results, reasons = _read_content(db, folder, run, pages, findings, recorded, tasks)
    again, now = read_checkpoints(db, run.seq), _list_recorded(db, run.seq, finished)
    changed = {
        group
        for group, steps in by_group.items()
        if group in findings
        and (now[group] != recorded[group] or any(again.get(entry.key) != entry for entry in steps))
    }
    damaged: dict[str, str] = {}
    for group in finished:
        if group not in changed:
            of_outputs = {data_def: texts for (of_group, data_def), texts in reasons.items() if of_group == group}
            damaged |= _conclude(
                db, run.seq, group, tasks.get(group, []), findings[group], recorded[group], of_outputs, entries
            )
    dependents = {
        key: f"depends on {cause}, which is damaged"
        for key, cause in find_dependents(damaged, {key: e.dependency_keys for key, e in entries.items()}).items()
        if key in entries and entries[key].completed
    }
    invalid = {**dependents, **damaged}
    return Verification(
        groups=tuple(
            GroupResult(group=group, status="unfinished", reason=_CHANGED)
            if group in changed
            else _result(group, _status(steps, "valid"), steps, invalid, findings.get(group))
            for group, steps in by_group.items()
        ),
        outputs=tuple(output_results),
        files=tuple(list_damaged_files(db, folder, run)),
        findings={
            group: of_group
            for group, of_group in findings.items()
            if any(entry.key in damaged for entry in by_group[group])
        },
        recorded=recorded,
        damaged=damaged,
        dependents=dependents,
    )


def _read_content(
    db: Database,
    folder: Path,
    run: Run,
    pages: PageStore | None,
    findings: Mapping[str, GroupFindings],
    recorded: Mapping[str, ContentSum],
    tasks: Mapping[str, list[_TaskKeys]],
) -> tuple[list[OutputResult], dict[tuple[str, str], list[str]]]:
    """Read all rows and documents of a run; the results of its outputs, and the reasons by group and dataDef."""
    with closing(OutputChecks(db, folder, run)) as checks:
        last, limit = content.first_row_id(db, run.seq) - 1, _FIRST_ROWS
        while batch := content.list_rows(db, run.seq, last, limit):
            checks.check(batch, check_rows(batch, findings))
            last = batch[-1].id
            size = sum(len(row.data) for row in batch)
            limit = max(_MIN_ROWS, min(_BATCH_ROWS, len(batch) * _BATCH_BYTES // max(1, size)))
        check_documents(db, run.seq, pages, findings)
        lacking = {group for group, of_group in findings.items() if of_group.present.rows < recorded[group].rows}
        return checks.finish(_groups_by_data_def(tasks), lacking)


def _conclude(
    db: Database,
    run: int,
    group: str,
    tasks: Sequence[_TaskKeys],
    findings: GroupFindings,
    recorded: ContentSum,
    output_reasons: Mapping[str, list[str]],
    entries: Mapping[str, Checkpoint],
) -> dict[str, str]:
    """By key: what differs in a group."""
    documents = conclude_documents(db, run, group, findings, recorded)
    rows = conclude_rows(db, run, group, findings, recorded, {task.data_def for task in tasks})
    reasons = {join_key(group, "", LOADER): [documents]} if documents else {}
    by_role: dict[StepRole, Mapping[str, list[str]]] = {
        PARSER: {data_def: [text] for data_def, text in rows.items()},
        APPENDER: output_reasons,
    }
    for role, by_data_def in by_role.items():
        for data_def, texts in by_data_def.items():
            of_data_def = [task for task in tasks if task.data_def == data_def]
            for task in of_data_def or tasks:  # else of a task that the defs no longer have
                reasons.setdefault(task.steps[role], []).extend(texts)
    return {key: ", ".join(dict.fromkeys(texts)) for key, texts in reasons.items() if key in entries}


def _list_recorded(db: Database, run: int, groups: list[str]) -> dict[str, ContentSum]:
    sums = content_sums.list_sums(db, run)
    return {group: sums.get(group, ContentSum()) for group in groups}


def _list_tasks(db: Database, run: Run) -> dict[str, list[_TaskKeys]]:
    """By group: the tasks of the run's defs."""
    if run.defs_version is None:
        return {}
    return {
        group.name: [
            _TaskKeys(
                task.data_def,
                {part.role: join_key(group.name, task.name, part.step.name) for part in list_task_steps(task)},
            )
            for task in group.tasks
        ]
        for group in versions.read(db, run.defs_version).task_groups
    }


def _groups_by_data_def(tasks: Mapping[str, list[_TaskKeys]]) -> dict[str, set[str]]:
    groups: dict[str, set[str]] = {}
    for group, of_group in tasks.items():
        for task in of_group:
            groups.setdefault(task.data_def, set()).add(group)
    return groups


def _status(steps: Sequence[Checkpoint], complete: GroupStatus) -> GroupStatus:
    """The status of a group by its entries; `complete`: if they are all complete."""
    if any(entry.status == "invalid" for entry in steps):
        return "invalid"
    return complete if all(entry.completed for entry in steps) else "unfinished"


def _result(
    group: str,
    status: GroupStatus,
    steps: Sequence[Checkpoint],
    invalid: Mapping[str, str] | None = None,
    findings: GroupFindings | None = None,
) -> GroupResult:
    """The result of a group; `invalid`: by key, what makes entries invalid."""
    reasons = {
        entry.key.removeprefix(f"{group}/"): (invalid or {}).get(entry.key) or _invalid_reason(entry) for entry in steps
    }
    reasons_by_step = {step: reason for step, reason in reasons.items() if reason}
    read = findings or GroupFindings()
    return GroupResult(
        group=group,
        status="invalid" if reasons_by_step else status,
        reason=next(iter(_most_direct(reasons_by_step)), None),
        steps=reasons_by_step,
        rows=read.present.rows if findings else None,
        documents=read.documents if findings else None,
        pruned=read.pruned,
    )


def _invalid_reason(entry: Checkpoint) -> str | None:
    return (entry.reason or "invalid") if entry.status == "invalid" else None


def _most_direct(reasons: Mapping[str, str]) -> list[str]:
    """The reasons of steps in one line, without those that only depend on others where there is another."""
    direct = [reason for reason in reasons.values() if not reason.startswith("depends on ")]
    return ["; ".join(dict.fromkeys(direct or [*reasons.values()][:1]))] if reasons else []
