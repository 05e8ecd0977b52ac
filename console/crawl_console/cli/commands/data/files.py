"""The command `files`: deletes downloaded files of old runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawl_console.cli.options import LIMIT_NAMES, common_options, limit_options, object_option
from crawl_console.cli.output import confirm, show_count, write_json, write_lines
from crawl_console.format import format_size, plural
from crawl_engine.errors import StorageError, UsageError

if TYPE_CHECKING:
    from crawl_engine.model.run import Limits


@click.command()
@click.argument("what", type=click.Choice(["prune"]))
@limit_options
@object_option
@common_options("data")
def files(what: str, limits: "Limits", yes: bool, as_json: bool, data: Path) -> int:
    """Delete the downloaded files of old runs that no other run needs."""
    from crawl_console.client import open_alone
    from crawl_engine.files.prune import choose_files, prune_files

    if limits.is_empty:
        raise UsageError(f"files {what}: no limit", f"Give {LIMIT_NAMES}.")
    with open_alone(data, f"files {what}") as db:
        try:
            choice = choose_files(db, data, limits)
            size, left = f"{format_size(choice.bytes)}B", f"{format_size(choice.left)}B"
            names = plural(choice.files, "file")
            lines = [f"{data}: {names} of {plural(len(choice.runs), 'run')} will be deleted, {size}; {left} stay"]
            if not confirm(f"files {what}", lines if choice.files else [], yes=yes):
                return 130
            with show_count("files deleted", shown=not as_json) as on_batch:
                for deleted in prune_files(db, data, choice):
                    on_batch(deleted)
        except OSError as error:
            raise StorageError(
                f"{error.filename}: {error.strerror}", "Fix its permissions, then prune again."
            ) from error
    if as_json:
        ids = [run.id for run in choice.runs]
        write_json({"pruned": choice.files, "bytes": choice.bytes, "left": choice.left, "runs": ids})
    else:
        write_lines(f"{names} deleted, {size}; {left} stay")
    return 0
