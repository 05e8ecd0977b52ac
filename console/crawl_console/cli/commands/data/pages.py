"""The command `pages`: lists, shows and prunes the stored documents of a data dir."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawl_console.cli.options import LIMIT_NAMES, common_options, limit_options, lines_option, run_option
from crawl_console.cli.output import confirm, open_stdout, show_count, write_json, write_lines, write_stderr
from crawl_console.format import format_date_time, format_size, plural
from crawl_engine.errors import UsageError
from crawl_engine.urls import normalize, without_credentials

if TYPE_CHECKING:
    from crawl_engine.model.run import Limits
    from crawl_engine.store.db.connector import Database
    from crawl_engine.store.read.stored_documents import StoredDocument

_HEADING = f"{'ID':>8}  {'FETCHED':<19}  {'STATUS':>6}  {'SIZE':>6}  {'TYPE':<24}  URL"


@click.command()
@click.argument("what", type=click.Choice(["list", "show", "prune"]), default="list")
@click.argument("page", metavar="[URL|ID]", required=False)
@click.option("--body", is_flag=True, help="show: write the body as it was received.")
@click.option("--match", metavar="RE", help="list: only URLs that this regular expression matches.")
@limit_options
@lines_option
@run_option
@common_options("data")
def pages(
    what: str, page: str | None, body: bool, match: str | None, limits: "Limits", yes: bool, as_json: bool,
    run_id: str | None, data: Path,
) -> int:  # fmt: skip
    """List the stored pages, newest first; show one; or delete old ones, but for the newest of each URL."""
    _check_usage(what, page, limits, body=body, listing=match is not None or run_id is not None, yes=yes)
    match what:
        case "list":
            return _list(data, match, run_id, as_json=as_json)
        case "show":
            assert page is not None
            return _show(data, page, body=body, as_json=as_json)
        case _:
            return _prune(data, limits, yes=yes, as_json=as_json)


def _check_usage(what: str, page: str | None, limits: "Limits", *, body: bool, listing: bool, yes: bool) -> None:
    """Raise UsageError for an option that another use of the command has."""
    if what != "list" and listing:
        raise UsageError(f"pages {what}: --match and --run have no effect", "Use them with `pages list`.")
    if what != "show" and body:
        raise UsageError(f"pages {what}: --body has no effect", "Write `crawl-console pages show URL --body`.")
    if what != "show" and page is not None:
        raise UsageError(f"pages {what} {page}: `{what}` takes no URL", f"Write `crawl-console pages show {page}`.")
    if what == "show" and page is None:
        raise UsageError("pages show: no URL", "Give the URL of a page, or its ID from `crawl-console pages list`.")
    if what != "prune" and (yes or not limits.is_empty):
        raise UsageError(f"pages {what}: limits and --yes have no effect", "Use them with `pages prune`.")
    if what == "prune" and limits.is_empty:
        raise UsageError("pages prune: no limit", f"Give {LIMIT_NAMES}.")


def _list(data: Path, match: str | None, run_id: str | None, *, as_json: bool) -> int:
    from crawl_console.client import find_run, open_database
    from crawl_console.filter_syntax import TextSearch
    from crawl_engine.store.read import stored_documents
    from crawl_engine.store.transactions.unused import list_used_by

    search = None if match is None else TextSearch(match)
    db = open_database(data)
    if db is None:
        write_stderr(f"{data}: no run yet; start one with `crawl-console run`")
        return 0
    with contextlib.closing(db):
        used = None if run_id is None else list_used_by(db, [find_run(db, run_id).seq])
        count = 0
        for document in stored_documents.iterate(db):
            if (used is None or document.id in used) and (search is None or search.accepts(document.url)):
                if as_json:
                    write_json(_as_dict(document))
                else:
                    write_lines(*([] if count else [_HEADING]), _line(document))
                count += 1
    if not count and not as_json:
        write_stderr(f"{data}: no such page is stored")
    return 0


def _line(document: "StoredDocument") -> str:
    return (
        f"{document.id:>8}  {format_date_time(document.fetched_at):<19}  {document.status:>6}"
        f"  {format_size(document.size):>6}  {document.content_type:<24}  {without_credentials(document.url)}"
    )


def _as_dict(document: "StoredDocument") -> dict[str, Any]:
    from crawl_engine.extract.page.context import format_utc

    return {
        "id": document.id, "url": without_credentials(document.url), "status": document.status,
        "content_type": document.content_type, "size": document.size, "fetched_at": format_utc(document.fetched_at),
        "checked_at": None if document.checked_at is None else format_utc(document.checked_at),
        "run": document.run or None,
    }  # fmt: skip


def _show(data: Path, page: str, *, body: bool, as_json: bool) -> int:
    from crawl_console.client import open_latest_run
    from crawl_engine.store.pages import documents
    from crawl_engine.store.pages.page_store import PageStore

    if body and as_json:
        raise UsageError("--body and --json exclude each other", "Use one of them.")
    with open_latest_run(data) as (db, _):
        document = _find(db, data, page)
        changed = documents.get_changed_headers(db, document.id)
    with contextlib.closing(PageStore.open_read_only(data)) as stored:
        headers = changed or stored.list_headers([document.id]).get(document.id, ())
        content = stored.read(document.id) if body else None
    if body and content is None:
        raise UsageError(f"{data}: the body of page {document.id} is missing", "The next run fetches the page again.")
    if content is not None:
        open_stdout().write(content)
        sys.stdout.flush()
    elif as_json:
        write_json({**_as_dict(document), "headers": dict(headers)})
    else:
        write_lines(*_details(document, headers))
    return 0


def _find(db: "Database", data: Path, page: str) -> "StoredDocument":
    """The document of an id or URL. Raises UsageError."""
    from crawl_engine.store.read import stored_documents

    if page.isdecimal():
        document = stored_documents.get(db, int(page)) if len(page) < 19 else None
    else:
        url = normalize(page)
        if url is None:
            raise UsageError(f"{page}: neither an ID nor a full URL", "Write https://… or an ID of `pages list`.")
        document = stored_documents.find(db, without_credentials(url))
    if document is None:
        shown = without_credentials(page)
        raise UsageError(f"{data}: no page {shown} is stored", "`crawl-console pages list --match TEXT` finds pages.")
    if document.is_pruned:
        raise UsageError(
            f"{data}: the body of page {document.id} was deleted ({without_credentials(document.url)})",
            "`pages prune` or `documents: false` did so. The next run fetches it again.",
        )
    return document


def _details(document: "StoredDocument", headers: tuple[tuple[str, str], ...]) -> Iterator[str]:
    run, checked_run = (
        f"run {id_}" if id_ else "a run that was deleted" for id_ in (document.run, document.checked_run)
    )
    yield f"page {document.id}  {without_credentials(document.url)}"
    yield f"  {document.status} {document.content_type}, {document.size:,} bytes; --body writes them"
    yield f"  fetched {format_date_time(document.fetched_at)} by {run}"
    if document.checked_at is not None:
        yield f"  unchanged {format_date_time(document.checked_at)}, by {checked_run}"
    for name, value in headers:
        yield f"    {name}: {value}"


def _prune(data: Path, limits: "Limits", *, yes: bool, as_json: bool) -> int:
    from crawl_console.client import open_alone
    from crawl_engine.store.pages.page_store import PageStore
    from crawl_engine.store.transactions.prune import choose_documents, prune_documents

    with open_alone(data, "pages prune") as db, contextlib.closing(PageStore(data)) as stored:
        choice = choose_documents(db, stored, limits)
        count = len(choice.ids)
        size, left = f"{format_size(choice.bytes)}B", f"{format_size(choice.left)}B"
        text = f"{data}: {plural(count, 'page')} will be deleted, {size}; pages of {left} stay"
        if not confirm("pages prune", [text] if count else [], yes=yes):
            return 130
        with show_count("pages deleted", shown=not as_json) as on_batch:
            for deleted in prune_documents(db, stored, choice):
                on_batch(deleted)
    if as_json:
        write_json({"pruned": count, "bytes": choice.bytes, "left": choice.left})
    else:
        write_lines(f"{plural(count, 'page')} deleted, {size}; pages of {left} stay")
    return 0
