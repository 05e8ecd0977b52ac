"""The command `backup`: copies a data dir, also while a crawl writes it."""

from pathlib import Path

import click
from msgspec.structs import asdict

from crawl_console.cli.options import FilePath, common_options, object_option
from crawl_console.cli.output import show_count, write_json, write_lines
from crawl_console.format import format_size, plural
from crawl_engine.errors import StorageError


@click.command()
@click.argument("folder", metavar="DIR", type=FilePath())
@object_option
@common_options("data")
def backup(folder: Path, as_json: bool, data: Path) -> int:
    """Copy the data directory to DIR, also while a crawl runs; a crawl of the copy resumes."""
    from crawl_console.client import open_latest_run
    from crawl_engine.supervise.backup import back_up

    with open_latest_run(data) as (db, _), show_count("files copied", shown=not as_json) as on_file:
        try:
            result = back_up(db, folder, on_file)
        except OSError as error:
            problem = f"{error.filename or folder}: {error.strerror}; no backup was made"
            raise StorageError(problem, "Fix that, or name another DIR.") from error
    if as_json:
        write_json({"path": str(folder), **asdict(result)})
    else:
        size = f"{format_size(result.bytes)}B"
        write_lines(f"{folder}: {plural(result.files, 'file')}, {size}; run {result.run} is {result.state} in it")
    return 0
