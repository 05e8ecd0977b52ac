"""Reads the page that `try`, `test` and `shell` work on: a URL, file or stored page; formats rows."""

import contextlib
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from crawl_console.cli.output import show_wait, write_stderr
from crawl_engine import urls
from crawl_engine.errors import PageUnavailable, UsageError
from crawl_engine.model.definition import Definitions
from crawl_engine.preview.extraction_client import ExtractionClient, TrialDocument
from crawl_engine.preview.golden_tests import CONTENT_TYPES
from crawl_engine.settings import Settings

if TYPE_CHECKING:
    from crawl_engine.extract.page.context import Context
    from crawl_engine.preview.page_trial import PageTrial, TrialResult
    from crawl_engine.preview.rendering import Rendering, Window

_UNSAFE = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class FoundPage(Struct, frozen=True, kw_only=True):
    """A page, and how a crawl reaches it."""

    document: TrialDocument
    origin: "Context"
    source: str | None = None
    """The URL or FILE that was asked for; None: a stored page."""

    def extract(self, trial: "PageTrial", definitions: Definitions, client: ExtractionClient) -> "TrialResult":
        """The rows and links. Raises PageUnavailable, also if a login is missing."""
        from crawl_engine.preview.page_trial import check_login, login_of

        result = trial.run(self.document, self.origin)
        rule = None if self.source is None else login_of(self.source, definitions)
        if rule is not None and self.source is not None:
            check_login(rule, self.source, self.document, result.page.page_kind, client)
            write_stderr("the host of this page has a `login`; `try` and `test` do not log in")
        return result


def find_page(
    source: str, url: str | None, data_def: str, definitions: Definitions, settings: Settings, *, browser: bool = False
) -> FoundPage:
    """The page of a URL or FILE, as a locator of the first group that uses the dataDef. `browser`: as of read_source.

    Raises PageUnavailable, UsageError.
    """
    from crawl_engine.preview.page_trial import groups_using, locator_origin

    groups = groups_using(definitions, data_def)
    group = groups[0].name if groups else None
    document = read_source(source, url, definitions, settings, group, browser=browser)
    _require_ok(document)
    write_stderr(*document.notes)
    origin = locator_origin(definitions, data_def, document.url, settings)
    return FoundPage(document=document, origin=origin, source=source)


def find_stored_page(data: Path, job: int) -> FoundPage:
    """The stored page of a job. Raises PageUnavailable, UsageError, StorageError."""
    from crawl_console.client import require_database_path
    from crawl_engine.preview.stored_pages import page_origin, stored_document
    from crawl_engine.store.db.connector import connect, is_immutable
    from crawl_engine.store.pages.page_store import PageStore
    from crawl_engine.store.read import worked_pages
    from crawl_engine.store.tables.run import runs

    path = require_database_path(data)
    with (
        contextlib.closing(connect(path, read_only=True, immutable=is_immutable(path))) as db,
        contextlib.closing(PageStore.open_read_only(data)) as pages,
    ):
        page = worked_pages.get_by_job(db, job)
        run = runs.latest(db) if page is None else runs.get(db, page.run)
        if page is None or run is None:
            raise UsageError(f"{data}: no page job {job}", "Give the id of a page job of this data directory.")
        document = stored_document(pages, page)
        _require_ok(document)
        return FoundPage(document=document, origin=page_origin(page, run))


def _require_ok(document: TrialDocument) -> None:
    from crawl_engine.model.retry_policy import classify_status

    problem = document.refusal and f"blocked: {document.refusal}"
    if classify_status(document.status) != "ok":
        problem = f"HTTP {document.status}"
    if problem:
        raise PageUnavailable(f"{document.url}: {problem}", "A crawl extracts nothing from such a page.")


def read_source(
    source: str, url: str | None, definitions: Definitions, settings: Settings, group: str | None = None, *,
    browser: bool = False, window: "Window | None" = None,
) -> TrialDocument:  # fmt: skip
    """Fetch a URL, or read a file or stdin (`-`) with `url` as its address. Raises PageUnavailable, UsageError.

    A fetched page may have any status. `group`: the group whose loader fetches it; None: that of the URL's locator.
    `browser`: whether a browser renders it, whatever the group says. `window`: where it is shown.
    """
    if urls.is_http_url(source):
        if url is not None:
            raise UsageError("--url is the address of a FILE", "Give the URL alone.")
        from crawl_engine.preview.visit import (
            fetch_page,  # a file does not need the HTTP client, which is slow to import
        )

        with _shown_rendering(always=browser, window=window) as rendering:
            return fetch_page(source, definitions, settings, group, rendering)
    if browser:
        raise UsageError(f"--browser loads a URL{urls.scheme_hint(source)}", "A FILE is used as it is.")
    body, address = _read_file(source, settings.max_body)
    if url is not None:
        address = urls.without_credentials(urls.normalize(url) or "")
        if not address:
            raise UsageError(
                f"--url {urls.without_credentials(url)}: not an http or https URL", "Write the whole URL: https://…"
            )
    kind = CONTENT_TYPES.get(Path(source).suffix.lower(), "")
    return TrialDocument(body=body, content_type=kind, url=address, fetched_at=time.time(), origin="file")


def read_link(
    url: str, start_url: str, definitions: Definitions, settings: Settings, *, browser: bool,
    window: "Window | None" = None,
) -> TrialDocument:  # fmt: skip
    """Fetch a page to which a link leads, as `fetch_linked_page` does."""
    from crawl_engine.preview.visit import fetch_linked_page  # slow to import

    with _shown_rendering(always=browser, window=window) as rendering:
        return fetch_linked_page(url, start_url, definitions, settings, rendering)


@contextlib.contextmanager
def _shown_rendering(*, always: bool, window: "Window | None") -> Iterator["Rendering"]:
    """How pages are loaded; a terminal shows that a browser starts, which takes a second."""
    from crawl_engine.preview.rendering import Rendering

    with show_wait() as show:
        yield Rendering(always=always, window=window, on_start=lambda program: show(f"rendering by {program} …"))


def find_start_url(source: str, document: TrialDocument) -> str:
    """The URL that the operator wrote, without credentials; redirects may have led elsewhere."""
    return urls.without_credentials(urls.normalize(source) or "") if urls.is_http_url(source) else document.url


def row_lines(rows: Iterable[str], *, terminal: bool) -> Iterator[str]:
    """Rows as lines of JSON; for a terminal, unsafe characters become JSON escapes."""
    for row in rows:
        line = row.replace("\n", " ").replace("\r", " ")
        yield _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", line) if terminal else line


def _read_file(source: str, limit: int) -> tuple[bytes, str]:
    """A file's bytes and its address. A pipe is read to its end, so `<(command)` of a shell works."""
    path, shown = Path(source), urls.without_credentials(source)  # it may be a mistyped URL
    try:
        if source == "-":
            body, address = sys.stdin.buffer.read(limit + 1), "file:///dev/stdin"
        elif path.is_dir() or not path.exists():
            problem = "a directory" if path.is_dir() else "no such file"
            raise UsageError(
                f"{shown}: {problem}{urls.scheme_hint(shown)}", "Give a file, or an http:// or https:// URL."
            )
        else:
            with path.open("rb") as file:
                body, address = file.read(limit + 1), path.absolute().as_uri()
    except (OSError, ValueError) as error:
        raise UsageError(f"{shown}: {getattr(error, 'strerror', None) or error}", "Give another file.") from error
    if len(body) > limit:
        raise PageUnavailable(f"{shown}: larger than {limit:,} bytes", "Raise it with --set max_body=N.")
    return body, address
