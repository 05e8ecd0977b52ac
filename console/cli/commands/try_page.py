"""The command `try`: the rows and links one page gives, by the code of a crawl. Rows on stdout, the rest on stderr.

Queues nothing, and writes nothing to the data directory.
"""

import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import orjson

from console.client import is_immutable, require_database_path
from console.sanitize import clean
from engine import urls
from engine.defs.loader import load
from engine.errors import PageUnavailable, UsageError
from engine.extract.context import format_utc
from engine.fetch.politeness import classify_status
from engine.model.definition import Definitions
from engine.preview.page_trial import (
    PageOrigin,
    PageTrial,
    TrialDocument,
    TrialResult,
    find_data_def,
    locator_origin,
    parse_document,
)
from engine.preview.stored_pages import page_origin, stored_document
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.db.schema import PAGES
from engine.store.pages.documents import PageStore
from engine.store.read import worked_pages
from engine.store.tables import runs

_CONTENT_TYPES = {".json": "application/json", ".xml": "application/xml", ".html": "text/html", ".htm": "text/html"}
_UNSAFE = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def try_(
    defs: Path, data: Path, settings: Settings, name: str, source: str | None, *, job: int | None, url: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Show what the dataDef makes of a page; returns 0. Raises UsageError, DefsError, or NoPage (exit code 1)."""
    if (source is None) == (job is None):
        raise UsageError("which page is meant?", "Give a URL, a FILE, or --job ID: one of them.")
    loaded = load(defs)
    definitions = loaded.definitions
    for warning in loaded.warnings:
        _write_stderr(str(warning))
    trier = PageTrial(definitions, find_data_def(definitions, name))
    if job is not None:
        document, way = _read_stored(data, job)
    else:
        document = read_source(str(source), url, definitions, settings)
        way = locator_origin(definitions, name, document.url, settings)
    if classify_status(document.status) != "ok":
        raise PageUnavailable(
            f"{document.url}: HTTP {document.status}", "A crawl extracts nothing from such an answer."
        )
    page = parse_document(document)
    trial = trier.run(page, way)
    if as_json:
        click.echo(orjson.dumps(_trial_as_dict(document, page.kind, trial)))
        return 0
    _print_rows(trial.rows)
    for line in _summary_lines(document, page.kind, trial):
        _write_stderr(line)
    if document.url.startswith("file:") and _needs_address(definitions, name) and not trial.links:
        _write_stderr("links and URLs of a file mean nothing without its address: give it by --url")
    return 0


def read_source(source: str, url: str | None, definitions: Definitions, settings: Settings) -> TrialDocument:
    """The page behind a URL (fetched), a file, or `-` for stdin; `url` is a file's address. Raises NoPage, UsageError.

    A fetch ends at whatever status it ends.
    """
    if urls.is_http_url(source):
        if url is not None:
            raise UsageError("--url is the address of a FILE", "Give the URL alone.")
        from engine.preview.visit import (
            fetch_page,  # the HTTP client takes a while to import, which a file need not wait for
        )

        answer = fetch_page(source, definitions, settings)
        return TrialDocument(
            body=answer.body,
            content_type=answer.content_type,
            url=answer.url,
            status=answer.status,
            fetched_at=time.time(),
            origin=f"fetched in {answer.elapsed * 1000:.0f} ms",
        )
    body, address = _read_file(source, settings.max_body)
    if url is not None:
        address = urls.normalize(url) or ""
        if not address:
            raise UsageError(f"--url {url}: not an http or https URL", "Write all of it: https://…")
    kind = _CONTENT_TYPES.get(Path(source).suffix.lower(), "")
    return TrialDocument(body=body, content_type=kind, url=address, fetched_at=time.time(), origin="file")


def row_lines(rows: Iterable[str], *, terminal: bool) -> Iterator[str]:
    """Rows as lines of JSON; for a terminal, what could steer it is written as escapes, which mean the same."""
    for row in rows:
        line = row.replace("\n", " ").replace("\r", " ")
        yield _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", line) if terminal else line


def pluralize(count: int, word: str) -> str:
    """`1 match`, `2 matches`."""
    plural = f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"{count} {word if count == 1 else plural}"


def _read_file(source: str, limit: int) -> tuple[bytes, str]:
    """A file's bytes and its address. Pipes are read to their end, so a shell's `<(command)` will do."""
    path = Path(source)
    try:
        if source == "-":
            body, address = sys.stdin.buffer.read(limit + 1), "file:///dev/stdin"
        elif path.is_dir() or not path.exists():
            what = "a directory" if path.is_dir() else "no such file"
            raise UsageError(f"{source}: {what}", "Give a file, a URL that begins with http:// or https://, or --job.")
        else:
            with path.open("rb") as file:
                body, address = file.read(limit + 1), path.absolute().as_uri()
    except (OSError, ValueError) as error:
        raise UsageError(f"{source}: {getattr(error, 'strerror', None) or error}", "Give another file.") from error
    if len(body) > limit:
        raise PageUnavailable(f"{source}: larger than {limit:,} bytes", "Raise it with --set max_body=N.")
    return body, address


def _read_stored(data: Path, job: int) -> tuple[TrialDocument, PageOrigin]:
    path = require_database_path(data)
    db = Database.open(path, read_only=True, immutable=is_immutable(path))
    pages = PageStore(data, read_only=True, immutable=is_immutable(data / PAGES))
    try:
        at = worked_pages.get_by_job(db, job)
        run = runs.latest(db) if at is None else runs.get(db, at.run)
        if at is None or run is None:
            raise UsageError(f"{data}: no job {job} of a page", "Name the id of a job of this data directory.")
        return stored_document(pages, at), page_origin(at, run)
    finally:
        pages.close()
        db.close()


def _needs_address(definitions: Definitions, name: str) -> bool:
    data_def = definitions.data_def(name)
    return data_def is not None and bool(data_def.links)


def _trial_as_dict(document: TrialDocument, kind: str, trial: TrialResult) -> dict[str, Any]:
    return {
        "rows": [orjson.Fragment(row) for row in trial.rows],
        "links": [{"url": x.url, "group": x.group, "priority": x.priority} for x in trial.links],
        "rejected": [
            {"data_def": r.data_def, "field": r.field, "reason": r.reason, "place": r.place} for r in trial.rejected
        ],
        "filtered": trial.filtered,
        "document": {
            "url": document.url, "status": document.status, "content_type": document.content_type, "kind": kind,
            "bytes": len(document.body), "fetched_at": format_utc(document.fetched_at), "origin": document.origin,
        },
    }  # fmt: skip


def _print_rows(rows: Iterable[str]) -> None:
    for line in row_lines(rows, terminal=sys.stdout.isatty()):
        sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
    sys.stdout.flush()


def _summary_lines(document: TrialDocument, kind: str, trial: TrialResult) -> Iterator[str]:
    for link in trial.links:
        priority = f" (priority {link.priority})" if link.priority else ""
        yield f"link to {link.group}: {link.url}{priority}"
    for rejection in trial.rejected:
        field = f".{rejection.field}" if rejection.field else ""
        yield f"{rejection.place}: rejected {rejection.data_def}{field}: {rejection.reason}"
    yield (
        f"{document.url}: {document.status} {kind}, {len(document.body):,} bytes, {document.origin}:"
        f" {pluralize(len(trial.rows), 'row')}, {pluralize(len(trial.links), 'link')}, {len(trial.rejected)} rejected,"
        f" {trial.filtered} filtered"
    )


def _write_stderr(line: str) -> None:
    click.echo(clean(line), err=True)
