"""The command `store`: copies the store of a crawl between SQLite files and PostgreSQL."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawl_console.cli.options import FilePath, common_options, object_option
from crawl_console.cli.output import show_count, write_json, write_lines, write_stderr
from crawl_engine.errors import StorageError, UsageError

if TYPE_CHECKING:
    from crawl_engine.store.db.location import Location

_URL_STARTS = ("postgresql://", "postgres://")
_PLACE = FilePath(url_starts=_URL_STARTS)


@click.command()
@click.argument("what", type=click.Choice(["copy"]))
@click.argument("source", metavar="FROM", type=_PLACE)
@click.argument("target", metavar="TO", type=_PLACE)
@click.option("--project", metavar="NAME", help="Name of the crawl in the database of a URL.")
@object_option
@common_options()
def store(what: str, source: Path | str, target: Path | str, project: str | None, as_json: bool) -> int:
    """Copy a crawl from a data directory into PostgreSQL, or back; each is a directory or a URL."""
    from crawl_console.client import open_alone
    from crawl_engine.store.db.copying import copy_store
    from crawl_engine.store.db.location import read_location
    from crawl_engine.supervise.lock import Lock

    places = [_read_place(place, project) for place in (source, target)]
    from_, to = places
    if not any(isinstance(one, Path) for one in places):
        raise UsageError("store copy: two URLs", "One of them must be a data directory.")
    if project is not None and all(isinstance(one, Path) for one in places):
        raise UsageError("--project is of a URL", "Leave it out: a data directory knows its project.")
    if all(isinstance(one, Path) and read_location(one) is None for one in places):
        raise UsageError("store copy: both are SQLite files", "Use `crawl-console backup` for a copy of those.")
    with contextlib.ExitStack() as stack:
        if isinstance(from_, Path):
            stack.enter_context(open_alone(from_, f"store {what}"))
        else:
            _check_alone(from_)
        if isinstance(to, Path):
            stack.callback(Lock.acquire(to).release)
        with show_count("rows copied", shown=not as_json) as on_rows:
            try:
                rows = copy_store(from_, to, on_rows)
            except OSError as error:
                raise StorageError(f"{error.filename or to}: {error.strerror}", "Nothing was copied.") from error
    write_stderr(f"{_show(to)} has the cookies and secrets of the crawl now: let nobody else read it")
    if as_json:
        write_json({"from": _show(from_), "to": _show(to), "rows": rows})
    else:
        write_lines(f"{rows:,} rows copied from {_show(from_)} to {_show(to)}")
    return 0


def _read_place(place: Path | str, project: str | None) -> "Path | Location":
    """A data dir, or a database. Raises UsageError on an invalid URL or project."""
    if isinstance(place, Path):
        return place
    from crawl_engine.settings import resolve_settings
    from crawl_engine.store.db.location import Location

    if project is None:
        raise UsageError("store copy: a URL, and no project", "Name the crawl with --project.")
    names = ("store", "project")
    url, name = (one.value for one in resolve_settings({}, flags={"store": place, "project": project}, names=names))
    return Location(url, name)


def _check_alone(location: "Location") -> None:
    """Raise UsageError if the database has no crawl, or machines work on it."""
    from crawl_engine.store.db.connector import connect_postgres
    from crawl_engine.store.db.file_header import CRAWL
    from crawl_engine.store.tables.run import machines

    with contextlib.closing(connect_postgres(location, Path(CRAWL))) as db:
        if not db.has_tables():
            raise UsageError(f"{_show(location)}: no crawl", "Check the URL and the project.")
        machines.check_alone(db)


def _show(place: "Path | Location") -> str:
    from crawl_engine.urls import without_passwords

    return str(place) if isinstance(place, Path) else f"{without_passwords(place.url)} ({place.project})"
