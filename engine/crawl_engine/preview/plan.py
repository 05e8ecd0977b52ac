"""Plans a change of the defs: the effect of publishing it on the rows of a run. Commits nothing."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from crawl_engine.defs.builders.table_settings import complete_tables
from crawl_engine.errors import PageUnavailable, UsageError
from crawl_engine.model.definition import Definitions
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.preview.extraction_client import ExtractionClient
from crawl_engine.preview.page_trial import PageTrial
from crawl_engine.preview.row_changes import RowChange, compare_rows
from crawl_engine.preview.stored_pages import page_origin, stored_document
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.read import worked_pages
from crawl_engine.store.read.worked_pages import WorkedPage
from crawl_engine.store.tables.run import versions
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.supervise.reload.diff import count_locators, describe_changes, find_stale_groups
from crawl_engine.supervise.reload.publish import count_stale_pages

SAMPLE_SIZE = 20
"""Pages of a group that are compared without `full`."""
_MAX_SAMPLE = 400
_MAX_EXAMPLES = 50


class RowCounts(Struct):
    """How many rows of a dataDef differ."""

    added: int = 0
    changed: int = 0
    removed: int = 0


class ExamplePage(Struct, frozen=True):
    """A page whose rows of one dataDef differ."""

    url: str
    data_def: str
    changes: tuple[RowChange, ...]


class PlannedChanges(Struct, kw_only=True):
    """The effect of publishing the defs on disk for a run."""

    version: int
    """The version in force."""
    hash: str
    """Of the defs that would be published."""
    differs: bool
    """Whether the defs differ in meaning from that version."""
    text: str
    """A sentence for the operator."""
    pages: int
    """Pages to re-extract, by the counters of the run."""
    locators_added: int
    locators_removed: int
    rows: dict[str, RowCounts]
    """By dataDef, of the compared pages."""
    keeps_pages: bool = False
    """Whether done pages keep their rows: with the setting `on_reload` at `new_only`."""
    exact: bool = False
    """Whether all of these pages were compared, not only a sample."""
    compared: int = 0
    unreadable: int = 0
    """Pages that could not be extracted, and so keep their rows."""
    pruned: Counter[str] = field(default_factory=Counter)
    """By group: unreadable pages whose documents were deleted, since the group keeps none."""
    emptied: dict[str, Counter[str]] = field(default_factory=dict)
    """By dataDef and field: rows in which it lost its value."""
    examples: list[ExamplePage] = field(default_factory=list)
    """The first pages with a difference."""

    def add(self, page: str, data_def: str, columns: Iterable[str], changes: Iterable[RowChange]) -> None:
        """Count the changes of one page. `columns`: the fields that the new dataDef still has."""
        different = tuple(change for change in changes if change.kind != "same")
        counts, fields = self.rows[data_def], set(columns)
        for change in different:
            counts.added += change.kind == "added"
            counts.changed += change.kind == "changed"
            counts.removed += change.kind == "vanished"
            emptied = [name for name in change.emptied if name in fields]
            if emptied:
                self.emptied.setdefault(data_def, Counter()).update(emptied)
        if different and len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(ExamplePage(page, data_def, different))


def plan_defs(
    db: Database, folder: Path, run: Run, definitions: Definitions, client: ExtractionClient, *,
    full: bool = False, on_page: Callable[[], None] = lambda: None,
) -> PlannedChanges:  # fmt: skip
    """Extract stored pages that these defs would make stale, and compare their rows with the committed ones.

    Without `full`, a sample of each group's pages. `folder`: the data dir of `db`. `on_page` is called after each page.
    Raises UsageError if the run has no defs yet, and StorageError.
    """
    if run.defs_version is None:
        raise UsageError(f"{folder}: no run yet", "Start one with `crawl-console run`.")
    settings = replace(client.settings, base_url=client.settings.base_url or run.base_url)
    definitions = complete_tables(definitions, settings)
    current = PreparedDefs.from_definitions(versions.read(db, run.defs_version))
    with contextlib.closing(PageStore.open_read_only(folder)) as bodies:
        new = PreparedDefs.from_definitions(definitions)
        return _compare(db, bodies, run, current, new, client, full=full, on_page=on_page)


def _compare(
    db: Database, bodies: PageStore, run: Run, current: PreparedDefs, new: PreparedDefs, client: ExtractionClient, *,
    full: bool, on_page: Callable[[], None],
) -> PlannedChanges:  # fmt: skip
    stale = find_stale_groups(current, new)
    pages = count_stale_pages(db, run.seq, current, new, client.settings)
    added, removed = count_locators(current.definitions, new.definitions)
    differs = current.hash != new.hash
    plan = PlannedChanges(
        version=run.defs_version or 0, hash=new.hash, differs=differs, pages=pages,
        text=describe_changes(current, new, pages) if differs else "no difference",
        locators_added=added, locators_removed=removed, keeps_pages=client.settings.on_reload == "new_only",
        rows={name: RowCounts() for name in dict.fromkeys([*new.data_defs, *current.data_defs])},
    )  # fmt: skip
    comparison = _Comparison(db, bodies, run, new.definitions, _changed_tasks(current, new, stale), client)
    for page in _select_pages(db, run.seq, comparison.groups, full=full):
        try:
            for name, columns, changes in comparison.compare(page):
                plan.add(page.url, name, columns, changes)
            plan.compared += 1
        except PageUnavailable:
            plan.unreadable += 1
            if page.pruned:
                plan.pruned[page.group] += 1
        on_page()
    plan.exact = full or plan.compared + plan.unreadable >= pages
    return plan


def _changed_tasks(current: PreparedDefs, new: PreparedDefs, stale: Iterable[str]) -> dict[str, list[str]]:
    """By stale group: the dataDefs whose rows are extracted again, or vanish."""
    before = {group.group: group.hashes_by_data_def() for group in current.groups}
    after = {group.group: group.hashes_by_data_def() for group in new.groups}
    changed = {
        group: [
            name
            for name in dict.fromkeys([*after[group], *before[group]])
            if before[group].get(name) != after[group].get(name)
        ]
        for group in stale
    }
    return {group: names for group, names in changed.items() if names}


def _select_pages(db: Database, run: int, groups: list[str], *, full: bool) -> Iterable[WorkedPage]:
    if not groups:
        return ()
    if full:
        return worked_pages.iterate_done(db, run, groups)
    return worked_pages.list_spread(db, run, groups, max(1, min(SAMPLE_SIZE, _MAX_SAMPLE // len(groups))))[:_MAX_SAMPLE]


class _Comparison:
    """Compares the rows of one page after another."""

    def __init__(
        self, db: Database, bodies: PageStore, run: Run, definitions: Definitions, tasks: dict[str, list[str]],
        client: ExtractionClient,
    ) -> None:  # fmt: skip
        """`tasks`: by group, the dataDefs to compare."""
        self.groups = list(tasks)
        self._db = db
        self._bodies = bodies
        self._run = run
        self._tasks = tasks
        names = dict.fromkeys(name for names in tasks.values() for name in names)
        self._data_defs = {name: definitions.data_def(name) for name in names}
        self._trials = {
            name: PageTrial(definitions, data_def, client)
            for name, data_def in self._data_defs.items()
            if data_def is not None
        }
        self._used = {g.name: {task.data_def for task in g.tasks} for g in definitions.task_groups}

    def compare(self, page: WorkedPage) -> list[tuple[str, tuple[str, ...], list[RowChange]]]:
        """By changed dataDef of the page's group: its name, its columns, its row changes. Raises PageUnavailable."""
        document, origin = stored_document(self._bodies, page), page_origin(page, self._run)
        compared = []
        for name in self._tasks[page.group]:
            data_def = self._data_defs[name]
            after: Sequence[str] = ()
            if data_def is not None and name in self._used[page.group]:
                after = self._trials[name].run(document, origin).rows
            before = worked_pages.list_rows(self._db, page.job, name)
            columns, key = (data_def.columns, data_def.key) if data_def else ((), ())
            compared.append((name, columns, compare_rows(before, after, key)))
        return compared
