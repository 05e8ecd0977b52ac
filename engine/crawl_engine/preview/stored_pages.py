"""Extracts stored pages with edited defs and compares the rows; fetches and commits nothing."""

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from crawl_engine.defs.builders.table_settings import complete_tables
from crawl_engine.errors import PageUnavailable, UsageError
from crawl_engine.extract.page.context import Context
from crawl_engine.model.definition import Definitions
from crawl_engine.model.link import Carried
from crawl_engine.model.record import Rejection
from crawl_engine.preview.extraction_client import ExtractionClient, TrialDocument
from crawl_engine.preview.page_trial import PageTrial, find_data_def, groups_using
from crawl_engine.preview.row_changes import RowChange, compare_rows
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import connect, is_immutable
from crawl_engine.store.db.data_dir import has_store
from crawl_engine.store.db.file_header import CRAWL
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.read import worked_pages
from crawl_engine.store.read.worked_pages import WorkedPage
from crawl_engine.store.tables.run import runs
from crawl_engine.store.tables.run.runs import Run

DEFAULT_PAGES = 20
_KEEPS_NONE_REMEDY = "Pass a URL instead; the next crawl fetches its pages again."


class PagePreview(Struct, frozen=True, kw_only=True):
    """The result on one stored page: its rows in order, vanished rows last, links and rejected records."""

    job: int
    url: str
    changes: tuple[RowChange, ...]
    links: int
    rejected: tuple[Rejection, ...]
    rows: tuple[str, ...] = ()
    """The rows after, as JSON: a later preview may be compared with them."""
    problem: str = ""
    """Why the page could not be extracted."""


class Preview(Struct, frozen=True, kw_only=True):
    """The result of an edited dataDef on stored pages."""

    data_def: str
    columns: tuple[str, ...]
    pages: tuple[PagePreview, ...]
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        """Rows by kind: `added`, `changed`, `vanished`, `same`."""
        counts = Counter(change.kind for page in self.pages for change in page.changes)
        return {kind: counts[kind] for kind in ("added", "changed", "vanished", "same")}

    @property
    def emptied(self) -> dict[str, int]:
        """By field: the number of rows in which it lost its value."""
        return dict(Counter(name for page in self.pages for change in page.changes for name in change.emptied))


def preview_stored_pages(
    folder: Path, definitions: Definitions, data_def: str, *, pages: int = DEFAULT_PAGES, job: int | None = None,
    before: Mapping[int, Sequence[str]] | None = None, client: ExtractionClient | None = None,
) -> Preview:  # fmt: skip
    """Extract the newest `pages` stored pages of the latest run, or the page of one `job`, and compare their rows.

    `before`: rows by job to compare with, whose jobs are then the pages, so that two previews show the same ones; None:
    the committed rows. `client`: None for one with the default settings. Raises UsageError on an unknown dataDef or
    job, or if nothing was crawled; StorageError.
    """
    started_at = time.monotonic()
    client_settings = client.settings if client is not None else Settings()
    definitions = complete_tables(definitions, client_settings)
    target = find_data_def(definitions, data_def)
    if not has_store(folder):
        raise UsageError(f"{folder}: nothing was crawled here", "Run `crawl-console run` first, or give --data.")
    with contextlib.ExitStack() as stack:
        db = stack.enter_context(
            contextlib.closing(
                connect(folder / CRAWL, read_only=True, immutable=is_immutable(folder / CRAWL), busy_seconds=2)
            )
        )
        bodies = stack.enter_context(contextlib.closing(PageStore.open_read_only(folder)))
        trial = PageTrial(definitions, target, client or stack.enter_context(ExtractionClient(client_settings)))
        run = runs.latest(db)
        if run is None:
            raise UsageError(f"{folder}: no run yet", "Run `crawl-console run` first.")
        if before:
            selected = [_require_page(worked_pages.get_by_job(db, id_), id_) for id_ in before]
        elif job is None:
            groups = groups_using(definitions, data_def)
            selected = worked_pages.list_newest(db, run.seq, [group.name for group in groups], pages)
            if not selected and (empty := [group.name for group in groups if not group.documents]):
                raise PageUnavailable(
                    f"no stored page of {data_def}: {keeps_none_message(empty[0])}", _KEEPS_NONE_REMEDY
                )
        else:
            selected = [_require_page(worked_pages.get_by_job(db, job), job)]
        rows_before = before or {}
        previews = [
            _preview_page(
                rows_before[page.job] if page.job in rows_before else worked_pages.list_rows(db, page.job, data_def),
                bodies,
                run,
                page,
                trial,
                target.key,
            )
            for page in selected
        ]
    return Preview(
        data_def=data_def, columns=target.columns, pages=tuple(previews), seconds=time.monotonic() - started_at
    )


def stored_document(bodies: PageStore, page: WorkedPage) -> TrialDocument:
    """The document of a job's page. Raises PageUnavailable if none is stored."""
    if page.pruned:
        raise PageUnavailable(f"job {page.job}: {keeps_none_message(page.group)}", _KEEPS_NONE_REMEDY)
    stored = page.stored
    content = None if stored is None else bodies.read_tagged(stored.page)
    if stored is None or content is None:
        raise PageUnavailable(
            f"job {page.job}: no page is stored ({page.state} {page.url})",
            "Choose a job that is DONE, or pass the URL.",
        )
    return TrialDocument(
        body=content.body.read(),
        headers=stored.headers or content.headers,
        content_type=stored.content_type,
        url=stored.url,
        status=stored.status,
        fetched_at=stored.fetched_at,
        origin=f"job {page.job}",
    )


def keeps_none_message(group: str) -> str:
    """Why the pages of a group cannot be used once their run has ended."""
    return f"the documents of the group {group} were deleted (`documents: false`, or `pages prune`)"


def page_origin(page: WorkedPage, run: Run) -> Context:
    """How the run reached the page."""
    return Context(
        group=page.group,
        locator=page.locator,
        locator_url=page.locator_url,
        depth=page.depth,
        run=run.id,
        run_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.created_at)),
        carried=Carried.from_json(page.carried).values,
    )


def _require_page(page: WorkedPage | None, job: int) -> WorkedPage:
    if page is None:
        raise UsageError(f"no page has job id {job}", "Use the id of a job in this data directory.")
    return page


def _preview_page(
    before: Sequence[str], bodies: PageStore, run: Run, worked: WorkedPage, trial: PageTrial, key: Sequence[str]
) -> PagePreview:
    try:
        document = stored_document(bodies, worked)
        result = trial.run(document, page_origin(worked, run))
    except PageUnavailable as error:
        return PagePreview(job=worked.job, url=worked.url, changes=(), links=0, rejected=(), problem=error.message)
    return PagePreview(
        job=worked.job,
        url=document.url,
        changes=tuple(compare_rows(before, result.rows, key)),
        rows=tuple(result.rows),
        links=len(result.links),
        rejected=result.page.rejected,
    )
