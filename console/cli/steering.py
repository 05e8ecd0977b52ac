"""The commands that steer a running supervisor: each is an order it carries out and answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from console.cli.options import common_options, validate_assignments


def _run_control_command(data: Path, assign: Sequence[str], name: str, **arguments: Any) -> int:
    from console.cli.commands.control import send_and_print

    validate_assignments(assign)
    return send_and_print(data, name, {key: value for key, value in arguments.items() if value is not None})


@click.command()
@common_options
def cancel(data: Path, assign: Sequence[str]) -> int:
    """Stop the run in order: what is under way may finish."""
    return _run_control_command(data, assign, "cancel")


@click.command()
@click.argument("node", required=False)
@common_options
def kill(node: str | None, data: Path, assign: Sequence[str]) -> int:
    """Kill the run at once, or one NODE (such as n2), which is then replaced."""
    return _run_control_command(data, assign, "kill", node=node)


@click.command()
@click.argument("node")
@common_options
def drain(node: str, data: Path, assign: Sequence[str]) -> int:
    """Let one NODE finish what it holds, and retire it."""
    return _run_control_command(data, assign, "drain", node=node)


@click.command()
@click.argument("node")
@common_options
def restart(node: str, data: Path, assign: Sequence[str]) -> int:
    """Let one NODE finish what it holds, and start another in its place."""
    return _run_control_command(data, assign, "restart", node=node)


@click.command()
@click.argument("count", metavar="N", type=click.IntRange(1))
@common_options
def scale(count: int, data: Path, assign: Sequence[str]) -> int:
    """Crawl with N runners from now on."""
    return _run_control_command(data, assign, "scale", count=count)


@click.command()
@click.argument("sequence", metavar="[SEQ]", required=False)
@common_options
def pause(sequence: str | None, data: Path, assign: Sequence[str]) -> int:
    """Take no new jobs, of the run or of SEQ: an id, GROUP or GROUP@HOST:PORT. What is under way finishes."""
    return _run_control_command(data, assign, "pause", sequence=sequence)


@click.command()
@click.argument("sequence", metavar="[SEQ]", required=False)
@common_options
def resume(sequence: str | None, data: Path, assign: Sequence[str]) -> int:
    """Take jobs again after `pause`."""
    return _run_control_command(data, assign, "resume", sequence=sequence)


@click.command()
@common_options
def reload(data: Path, assign: Sequence[str]) -> int:
    """Look at the defs on disk now: publish them, or tell what is wrong."""
    return _run_control_command(data, assign, "reload")


CONTROL_COMMANDS = (cancel, reload, kill, drain, restart, scale, pause, resume)
