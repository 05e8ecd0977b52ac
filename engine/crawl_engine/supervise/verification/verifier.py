"""Verifies a run: its differences from its commits, and the commands that mend them. Changes nothing.

The sums of a group are compared once all of its steps are complete. There is no long transaction: a crawl may be
writing, and a group that changed meanwhile counts as unfinished.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field

from crawl_engine.model.job import JobKind
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.read import content
from crawl_engine.store.read.job_range import find_ids
from crawl_engine.store.tables.row import content_sums
from crawl_engine.store.tables.row.content_sums import ContentSum
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.store.tables.run.checkpoints import Checkpoint, join_key
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.supervise.checkpoints.step_graph import LOADER, PARSER, list_task_steps
from crawl_engine.supervise.checkpoints.tracker import read_checkpoints
from crawl_engine.supervise.verification.content_check import (
    DamagedFile,
    GroupFindings,
    check_documents,
    check_rows,
    list_damaged_files,
)
from crawl_engine.supervise.verification.output_check import OutputChecks, OutputResult

_BATCH_ROWS, _FIRST_ROWS, _MIN_ROWS = 1_000, 100, 4
_BATCH_BYTES = 8_000_000
"""Batches of large rows are smaller, so that memory stays flat."""
_MAX_URLS = 20
"""For more pages of a group, one command fetches the whole group again."""

GroupStatus = Literal["valid", "invalid", "unfinished"]


class GroupResult(Struct, frozen=True, kw_only=True):
    """The result of one group."""

    group: str
    status: GroupStatus
    reason: str | None = None
    """Why it is not valid, in one line."""
    steps: Mapping[str, str] = field(default_factory=dict)
    """By STEP, or TASK/STEP: the difference, or why its entry is invalid."""
    rows: int | None = None
    documents: int | None = None
    pruned: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The object in `state --verify --json`."""
        return {
            "group": self.group, "status": self.status, "reason": self.reason, "steps": dict(self.steps),
            "rows": self.rows, "documents": self.documents, "pruned": self.pruned,
        }  # fmt: skip


class Verification(Struct, frozen=True, kw_only=True):
    """The result of a run."""

    groups: tuple[GroupResult, ...]
    outputs: tuple[OutputResult, ...]
    files: tuple[DamagedFile, ...]
    """Downloaded files that differ."""
    commands: tuple[str, ...]
    """Commands that mend the differences, in this order. Rows and pages of an earlier run cannot be mended."""

    @property
    def is_valid(self) -> bool:
        """Whether nothing is invalid."""
        statuses = [result.status for result in self.groups], [result.status for result in self.outputs]
        return not self.files and not any("invalid" in listed for listed in statuses)


class _Task(NamedTuple):
    """A task of a group, and the key of the step that its rows concern."""

    data_def: str
    parser: str


class _Mending:
    """Collects the commands that mend the differences."""

    def __init__(self) -> None:
        self._retries: list[str] = []
        self._extracts: list[str] = []

    def add_group(self, group: str, findings: GroupFindings, recorded: ContentSum, tasks: Sequence[_Task]) -> None:
        """The commands for a group that differs."""
        rows, is_unknown = findings.explain_rows(recorded)
        documents, pages = findings.explain_documents(recorded), findings.list_pages_to_fetch(recorded)
        if len(pages) > _MAX_URLS:
            self._retries += [
                _kind_filter(kind, f"group:{_quote(group)}") for kind in dict.fromkeys(page.kind for page in pages)
            ]
        else:
            self._retries += [_kind_filter(page.kind, _url_pattern(page.requested_url)) for page in pages]
        # one dataDef is enough: its pages are extracted again with all of their dataDefs
        data_defs = [task.data_def for task in tasks if is_unknown or task.data_def in findings.damaged_rows]
        if rows or (documents and not pages):
            self._extracts += (data_defs or [task.data_def for task in tasks])[:1]

    def list_commands(self, run: Run, outputs: Iterable[OutputResult], files: Iterable[DamagedFile]) -> tuple[str, ...]:
        """All commands, in the order in which they must be run."""
        retries = [*self._retries, *(_kind_filter(JobKind.FILE, _url_pattern(file.url)) for file in files)]
        extracts = dict.fromkeys(self._extracts)
        exports = [
            ("export", output.data_def, "--run", run.id, "-o", output.path)
            for output in outputs
            if output.status == "invalid" and output.data_def not in extracts
        ]
        commands: list[tuple[str, ...]] = [
            *(("retry", "--state", "done", "--match", match) for match in dict.fromkeys(retries)),
            # before the run, which may write files again: a damaged row may not be JSON
            *(("extract", data_def) for data_def in extracts),
            *([("run",)] if retries else []),
            *exports,
        ]
        return tuple(shlex.join(("crawl-console", *command)) for command in commands)


def verify(db: Database, folder: Path, run: Run, pages: PageStore | None) -> Verification:
    """Verify a run. `folder`: the data dir; `pages`: None if the file with the bodies is missing.

    Raises DatabaseBusy, StorageError.
    """
    entries = read_checkpoints(db, run.seq)
    by_group: dict[str, list[Checkpoint]] = {}
    for entry in entries.values():
        by_group.setdefault(entry.group, []).append(entry)
    findings = {group: GroupFindings() for group, steps in by_group.items() if all(e.completed for e in steps)}
    recorded = _list_recorded(db, run.seq, findings)
    outputs = _read_content(db, folder, run, pages, findings)
    again, now = read_checkpoints(db, run.seq), _list_recorded(db, run.seq, findings)
    tasks = _list_tasks(db, run)
    latest = runs.latest(db)
    is_latest = latest is not None and latest.seq == run.seq
    mending, groups = _Mending(), []
    for group, steps in by_group.items():
        of_group = findings.get(group)
        if of_group is None:
            groups.append(_create_result(group, "unfinished", steps, {}))
        elif now[group] != recorded[group] or any(again.get(entry.key) != entry for entry in steps):
            reason = "it changed while it was read"
            groups.append(GroupResult(group=group, status="unfinished", reason=reason))
        else:
            of_tasks = tasks.get(group, [])
            groups.append(
                _create_result(group, "valid", steps, _explain(of_group, recorded[group], of_tasks), of_group)
            )
            if is_latest:
                mending.add_group(group, of_group, recorded[group], of_tasks)
    files = list_damaged_files(db, folder, run)
    return Verification(
        groups=tuple(groups),
        outputs=tuple(outputs),
        files=tuple(files),
        commands=mending.list_commands(run, outputs, files if is_latest else ()),
    )


def _read_content(
    db: Database, folder: Path, run: Run, pages: PageStore | None, findings: Mapping[str, GroupFindings]
) -> list[OutputResult]:
    """Read all rows and documents of a run; the results of its outputs."""
    with closing(OutputChecks(db, folder, run)) as checks:
        last, limit = find_ids(db, run.seq, "rows").first - 1, _FIRST_ROWS
        while batch := content.list_rows(db, run.seq, last, limit):
            checks.check(batch, check_rows(batch, findings))
            last = batch[-1].id
            size = sum(len(row.data) for row in batch)
            limit = max(_MIN_ROWS, min(_BATCH_ROWS, len(batch) * _BATCH_BYTES // max(1, size)))
        check_documents(db, run.seq, pages, findings)
        return checks.finish()


def _explain(findings: GroupFindings, recorded: ContentSum, tasks: Sequence[_Task]) -> dict[str, str]:
    """By STEP, or TASK/STEP: the differences of a group. Rows that cannot be told apart concern all tasks."""
    reasons = {}
    if documents := findings.explain_documents(recorded):
        reasons[LOADER] = f"documents: {documents}"
    rows, is_unknown = findings.explain_rows(recorded)
    if rows:
        concerned = [task for task in tasks if is_unknown or task.data_def in findings.damaged_rows]
        reasons |= dict.fromkeys((task.parser for task in concerned or tasks), f"rows: {rows}")
    return reasons


def _list_recorded(db: Database, run: int, groups: Iterable[str]) -> dict[str, ContentSum]:
    sums = content_sums.list_sums(db, run)
    return {group: sums.get(group, ContentSum()) for group in groups}


def _list_tasks(db: Database, run: Run) -> dict[str, list[_Task]]:
    """By group: the tasks of the run's defs."""
    if run.defs_version is None:
        return {}
    return {
        group.name: [
            _Task(task.data_def, join_key(group.name, task.name, part.step.name).removeprefix(f"{group.name}/"))
            for task in group.tasks
            for part in list_task_steps(task)
            if part.role == PARSER
        ]
        for group in versions.read(db, run.defs_version).task_groups
    }


def _create_result(
    group: str, status: GroupStatus, steps: Sequence[Checkpoint], reasons: Mapping[str, str],
    findings: GroupFindings | None = None,
) -> GroupResult:  # fmt: skip
    """The result of a group. `reasons`: differences by step; already invalid entries are added."""
    invalid = {e.key.removeprefix(f"{group}/"): e.reason or "invalid" for e in steps if e.status == "invalid"}
    by_step = {**invalid, **reasons}
    return GroupResult(
        group=group,
        status="invalid" if by_step else status,
        reason="; ".join(dict.fromkeys(by_step.values())) or None,
        steps=by_step,
        rows=findings.present.rows if findings else None,
        documents=findings.present.documents if findings else None,
        pruned=findings.pruned if findings else 0,
    )


def _kind_filter(kind: str, match: str) -> str:
    """The filter, which selects pages if it names no kind."""
    return match if kind == JobKind.PAGE else f"kind:{kind} {match}"


def _url_pattern(url: str) -> str:
    return f"^{re.escape(url)}$"


def _quote(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else f'"{name}"'
