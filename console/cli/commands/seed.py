"""The command `seed`: adds URLs to a group of the latest run, while it runs or after."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from console.cli.options import FilePath, common_options, load_settings


@click.command()
@click.argument("group")
@click.argument("urls", metavar="[URL]... | -", nargs=-1)
@click.option("--from", "lists", type=FilePath(), multiple=True, help="A file with one URL per line; may be repeated.")
@common_options
def seed(group: str, urls: Sequence[str], lists: Sequence[Path], data: Path, assign: Sequence[str]) -> int:
    """Add URLs to GROUP of the latest run, as if its defs named them; `-` reads them from stdin.

    A DONE run is reopened, and the next `run` works the new jobs.
    """
    from console.cli.output import write_lines, write_stderr
    from console.client import has_supervisor, open_latest_run
    from engine.errors import UsageError
    from engine.supervise.checkpoints.state_file import StateFile
    from engine.supervise.seeding.posted_seeds import SeedPoster

    settings = load_settings(assign)
    if not urls and not lists:
        raise UsageError("no URL is given", "Write `seed GROUP URL…`, `--from FILE`, or `-` for stdin.")
    with open_latest_run(data, write=True) as (db, run):
        poster = SeedPoster(db, run, group, settings)
        result = poster.result
        try:
            poster.post(_read(urls, lists))
        finally:
            if result.created:
                poster.log()
            known = f"; {result.known:,} are known" if result.known else ""
            write_lines([f"{result.created:,} {'job' if result.created == 1 else 'jobs'} added to {group}{known}"])
            for problem in result.problems:
                write_stderr(problem)
            if result.unusable > len(result.problems):
                write_stderr(f"{result.unusable - len(result.problems):,} more give no job")
        if result.created and not has_supervisor(db):
            StateFile(db, data, run).refresh()
            write_stderr("`crawl-console run` works them")
        if result.unusable:
            return 1 if result.created or result.known else 2
    return 0


def _read(given: Sequence[str], lists: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """The URLs, each with the place it stands at. Raises UsageError if a list cannot be read."""
    from engine.defs.url_list import read_urls

    for url in given:
        if url == "-":
            yield from ((f"standard input:{line}", text) for line, text in read_urls("-"))
        else:
            yield "argument", url
    for path in lists:
        yield from ((f"{path}:{line}", text) for line, text in read_urls(str(path)))
