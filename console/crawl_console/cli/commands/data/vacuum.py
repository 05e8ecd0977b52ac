"""The command `vacuum`: returns the free space of the databases to the disk."""

from pathlib import Path

import click

from crawl_console.cli.options import common_options, object_option
from crawl_console.cli.output import write_json, write_lines
from crawl_engine.errors import UsageError, megabytes


@click.command()
@object_option
@common_options("data")
def vacuum(as_json: bool, data: Path) -> int:
    """Return the free space of the databases to the disk, while no crawl runs."""
    from crawl_console.client import open_alone
    from crawl_engine.store.db.location import read_location
    from crawl_engine.store.db.schema import CRAWL, PAGES
    from crawl_engine.store.db.vacuum import vacuum
    from crawl_engine.supervise.retention.deletion import delete_left

    if read_location(data) is not None:
        raise UsageError(
            f"{data}: its store is in PostgreSQL, which uses free space again by itself",
            "VACUUM FULL in psql returns it to the disk; it locks each table meanwhile.",
        )
    with open_alone(data, "vacuum") as db:
        for _ in delete_left(db, data, with_documents=True, with_orphans=True):
            pass
        shrunk = {name: vacuum(data / name) for name in (CRAWL, PAGES) if (data / name).exists()}
    if as_json:
        write_json({name: sizes._asdict() for name, sizes in shrunk.items()})
    else:
        write_lines(
            *(f"{name}  {megabytes(sizes.before)} → {megabytes(sizes.after)}" for name, sizes in shrunk.items())
        )
    return 0
