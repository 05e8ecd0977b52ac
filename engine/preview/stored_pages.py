"""Stored pages extracted with defs that are not in force, beside the rows they gave: no network, nothing committed.

Rows of a page are paired by their dataDef's `key`; without one, equal rows first, and what is left in its order.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.append.row_json import decode_as_text, split_fields
from engine.errors import PageUnavailable, UsageError
from engine.extract.page import Page
from engine.model.definition import Definitions
from engine.model.record import Rejection
from engine.model.text_value import to_text
from engine.preview.page_trial import PageOrigin, PageTrial, TrialDocument, find_data_def, groups_using, parse_document
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL
from engine.store.pages.documents import PageStore
from engine.store.read import worked_pages
from engine.store.read.worked_pages import WorkedPage
from engine.store.tables import runs
from engine.store.tables.runs import Run

DEFAULT_PAGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One row before and after. Values are texts, as CSV would show them; None: there was, or is, no such row."""

    before: Mapping[str, str] | None
    after: Mapping[str, str] | None
    fields: tuple[str, ...] = ()
    """Those that differ."""
    emptied: tuple[str, ...] = ()
    """Those that had a value and have none now."""

    @property
    def kind(self) -> str:
        """`added`, `vanished`, `changed` or `same`."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "vanished"
        return "changed" if self.fields else "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePreview:
    """One stored page: its rows in order, vanished ones last, and what else the dataDef made of it."""

    job: int
    url: str
    changes: tuple[RowChange, ...]
    links: int
    rejected: tuple[Rejection, ...]
    rows: tuple[str, ...] = ()
    """Those it gives now, as JSON: what a later preview may be compared with."""
    problem: str = ""
    """Why the page could not be worked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a dataDef, as it is written now, would make of stored pages."""

    data_def: str
    columns: tuple[str, ...]
    pages: tuple[PagePreview, ...]
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        """Rows by kind: `added`, `changed`, `vanished`, `same`."""
        counted = Counter(change.kind for page in self.pages for change in page.changes)
        return {kind: counted[kind] for kind in ("added", "changed", "vanished", "same")}

    @property
    def emptied(self) -> dict[str, int]:
        """By field: in how many rows it had a value and has none now."""
        return dict(Counter(name for page in self.pages for change in page.changes for name in change.emptied))


def preview_stored_pages(
    folder: Path, definitions: Definitions, data_def: str, *, pages: int = DEFAULT_PAGES, job: int | None = None,
    before: Mapping[int, Sequence[str]] | None = None,
) -> Preview:  # fmt: skip
    """Extract the newest `pages` stored pages of the latest run (or the page of one `job`), and compare their rows.

    They are compared with `before`, rows by job; where that has none, with the rows that are committed.
    With `before` the pages are its own, so that two previews show the same.

    Raises UsageError on an unknown dataDef or job, and where nothing was crawled; StorageError.
    """
    began = time.monotonic()
    target = find_data_def(definitions, data_def)
    trier = PageTrial(definitions, target)
    if not (folder / CRAWL).exists():
        raise UsageError(f"{folder}: nothing was crawled here", "Run `crawl-console run` first, or give --data.")
    db = Database.open(folder / CRAWL, read_only=True, busy_seconds=2)
    bodies = PageStore(folder, read_only=True)
    try:
        run = runs.latest(db)
        if run is None:
            raise UsageError(f"{folder}: no run yet", "Run `crawl-console run` first.")
        if before:
            found = [_require_page(worked_pages.get_by_job(db, told), told) for told in before]
        elif job is None:
            groups = [group.name for group in groups_using(definitions, data_def)]
            found = worked_pages.list_newest(db, run.seq, groups, pages)
        else:
            found = [_require_page(worked_pages.get_by_job(db, job), job)]
        known = before or {}
        shown = [
            _preview_page(
                known[at.job] if at.job in known else worked_pages.list_rows(db, at.job, data_def),
                bodies,
                run,
                at,
                trier,
                target.key,
            )
            for at in found
        ]
    finally:
        bodies.close()
        db.close()
    return Preview(
        data_def=data_def, columns=target.columns, pages=tuple(shown), seconds=time.monotonic() - began
    )  # fmt: skip


def stored_document(bodies: PageStore, at: WorkedPage) -> TrialDocument:
    """The document a job used. Raises NoPage where none is stored."""
    stored = at.stored
    body = None if stored is None else bodies.read(stored.page)
    if stored is None or body is None:
        raise PageUnavailable(
            f"job {at.job}: no page is stored ({at.state} {at.url})",
            "Name a job that is DONE, or give the URL.",
        )
    return TrialDocument(
        body=body,
        content_type=stored.content_type,
        url=stored.url,
        status=stored.status,
        fetched_at=stored.fetched_at,
        origin=f"job {at.job}",
    )


def page_origin(at: WorkedPage, run: Run) -> PageOrigin:
    """How the run came by the page."""
    return PageOrigin(
        group=at.group,
        locator=at.locator,
        locator_url=at.locator_url,
        depth=at.depth,
        run=run.id,
        run_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.created_at)),
    )


def _require_page(at: WorkedPage | None, job: int) -> WorkedPage:
    if at is None:
        raise UsageError(f"there is no job {job} of a page", "Name the id of a job of this data directory.")
    return at


def _preview_page(
    before: Sequence[str], bodies: PageStore, run: Run, at: WorkedPage, trier: PageTrial, key: Sequence[str]
) -> PagePreview:
    try:
        page: Page = parse_document(stored_document(bodies, at))
        trial = trier.run(page, page_origin(at, run))
    except PageUnavailable as problem:
        return PagePreview(job=at.job, url=at.url, changes=(), links=0, rejected=(), problem=problem.message)
    return PagePreview(
        job=at.job,
        url=page.url,
        changes=tuple(compare_rows(before, trial.rows, key)),
        rows=tuple(trial.rows),
        links=len(trial.links),
        rejected=trial.rejected,
    )


def compare_rows(before: Sequence[str], after: Sequence[str], key: Sequence[str]) -> list[RowChange]:
    """What became of the rows of one page: each new row with the old one it stands for, vanished ones last."""
    old: list[int | None] = [None] * len(after)
    left = list(range(len(before)))
    _pair_rows(old, left, list(before), list(after))
    if key:
        _pair_rows(old, left, [_key_values(row, key) for row in before], [_key_values(row, key) for row in after])
    else:
        for new in range(len(after)):
            if old[new] is None and left:
                old[new] = left.pop(0)
    changes = [_row_change(None if at is None else before[at], row) for at, row in zip(old, after, strict=True)]
    return changes + [RowChange(before=_csv_texts(before[at]), after=None) for at in left]


def _pair_rows(old: list[int | None], left: list[int], before: Sequence[object], after: Sequence[object]) -> None:
    """Give each new row that has none yet the first old one left that looks the same."""
    places: dict[object, list[int]] = {}
    for at in left:
        places.setdefault(before[at], []).append(at)
    for new, looks in enumerate(after):
        if old[new] is None and places.get(looks):
            old[new] = places[looks].pop(0)
    taken = {at for at in old if at is not None}
    left[:] = [at for at in left if at not in taken]


def _row_change(before: str | None, after: str) -> RowChange:
    shown = _csv_texts(after)
    if before is None:
        return RowChange(before=None, after=shown)
    if before == after:
        return RowChange(before=shown, after=shown)
    was, told, now = _csv_texts(before), split_fields(before), split_fields(after)
    names = dict.fromkeys((*now, *told))
    return RowChange(
        before=was,
        after=shown,
        fields=tuple(name for name in names if told.get(name) != now.get(name)),
        emptied=tuple(name for name in names if was.get(name) and not shown.get(name)),
    )


def _csv_texts(row: str) -> dict[str, str]:
    return {name: to_text(value) for name, value in decode_as_text(row).items()}


def _key_values(row: str, key: Sequence[str]) -> tuple[str | None, ...]:
    told = split_fields(row)
    return tuple(told.get(name) for name in key)
