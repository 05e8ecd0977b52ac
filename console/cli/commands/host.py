"""The command `host`: pauses a host, or changes its delay and concurrency, while the run goes on."""

from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.commands.control import send_and_print
from console.cli.options import Number, Seconds, common_options
from engine.errors import UsageError
from engine.model import bounds


@click.command()
@click.argument("host")
@click.option("--delay", type=Seconds(bounds.DELAY), metavar="S", help="Seconds between two requests.")
@click.option("--concurrency", type=Number(bounds.CONCURRENCY), metavar="N", help="Concurrent requests.")
@click.option("--pause", is_flag=True, help="Start no jobs; those that nodes hold go on.")
@click.option("--resume", is_flag=True, help="Start jobs again.")
@click.option("--reset", is_flag=True, help="Go back to the values of the defs, not paused.")
@common_options
def host(
    host: str, delay: float | None, concurrency: int | None, pause: bool, resume: bool, reset: bool, data: Path,
    assign: Sequence[str],
) -> int:  # fmt: skip
    """Change what applies to HOST, a name or NAME:PORT; kept over reloads and resumes, never under its Crawl-delay."""
    if pause and resume:
        raise UsageError("host: --pause and --resume exclude each other", "Give one of them.")
    changes = {"delay": delay, "concurrency": concurrency, "reset": reset or None}
    if pause or resume:
        changes["paused"] = pause
    if all(value is None for value in changes.values()):
        raise UsageError("host: nothing to change", "Give --delay, --concurrency, --pause, --resume or --reset.")
    return send_and_print(data, assign, "host", host=host, **changes)
