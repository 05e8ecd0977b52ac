"""The lines of `status --all`: the latest run of several data dirs, one line each."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crawl_console.cli.output import write_json, write_lines
from crawl_console.format import align_columns
from crawl_console.words.crawl_table import CRAWL_HEADINGS, crawl_cells
from crawl_engine.errors import CrawlError


def print_data_dirs(folders: Sequence[Path], *, as_json: bool) -> int:
    """Print a line for each data dir; returns 3 if one cannot be read, else 0."""
    lines = [_read_line(folder) for folder in folders]
    if as_json:
        write_json(*lines)
    else:
        write_lines(*_table(lines))
    return 3 if any(line["error"] for line in lines) else 0


def _read_line(folder: Path) -> dict[str, Any]:
    """The object of `status --all --json`."""
    from crawl_console.crawl.status import describe_unreadable, empty_line

    try:
        return _read_run(folder)
    except (CrawlError, OSError) as error:
        return empty_line(folder, describe_unreadable(folder, error))


def _read_run(folder: Path) -> dict[str, Any]:
    from crawl_console.client import end_orphans, open_database, supervisor_alarm, supervisor_pid
    from crawl_console.crawl.status import empty_line, line_of, require_folder
    from crawl_engine.store.read import snapshot
    from crawl_engine.store.tables.run import runs

    require_folder(folder)
    db = open_database(folder)
    if db is None:
        return empty_line(folder)
    try:
        view = snapshot.read(db)
        ended = runs.get_ended_at(db, view.run.seq) if view.run is not None else None
    finally:
        db.close()
    if supervisor_pid(view) is None:
        view = end_orphans(view)
    return line_of(folder, view, ended, supervisor_alarm(folder, view))


def _table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Aligned lines; the error of a data dir that cannot be read stands behind its name."""
    shown = align_columns([CRAWL_HEADINGS, *([line["data"], *crawl_cells(line)] for line in lines)])
    width = max(len(line["data"]) for line in lines)
    yield shown[0]
    for line, text in zip(lines, shown[1:], strict=True):
        yield f"{line['data']:<{width}}  error: {line['error']}" if line["error"] else text
