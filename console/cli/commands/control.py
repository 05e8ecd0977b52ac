"""Commands to a running supervisor, from `cancel` and `kill` to `stop` and `reload`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.cli.options import Nodes, common_options, validate_assignments

if TYPE_CHECKING:
    from engine.model.node import NodeRange


def send_and_print(data: Path, assign: Sequence[str], name: str, **arguments: Any) -> int:
    """Send a command and print its answer; 0, or 2 where the supervisor refused it."""
    from console.client import send_command

    validate_assignments(assign)
    done, answer = send_command(data, name, {key: value for key, value in arguments.items() if value is not None})
    click.echo(answer, err=not done)
    return 0 if done else 2


@click.command()
@common_options
def cancel(data: Path, assign: Sequence[str]) -> int:
    """Stop the run gracefully: running jobs may finish."""
    return send_and_print(data, assign, "cancel")


@click.command()
@click.argument("node", required=False)
@common_options
def kill(node: str | None, data: Path, assign: Sequence[str]) -> int:
    """Kill the run at once, or one NODE (such as n2), which is then replaced."""
    return send_and_print(data, assign, "kill", node=node)


@click.command()
@click.argument("node")
@common_options
def drain(node: str, data: Path, assign: Sequence[str]) -> int:
    """Let one NODE finish its jobs, then retire it."""
    return send_and_print(data, assign, "drain", node=node)


@click.command()
@click.argument("node")
@common_options
def restart(node: str, data: Path, assign: Sequence[str]) -> int:
    """Let one NODE finish its jobs, then start another in its place."""
    return send_and_print(data, assign, "restart", node=node)


@click.command()
@click.argument("nodes", metavar="N", type=Nodes())
@common_options
def scale(nodes: "NodeRange", data: Path, assign: Sequence[str]) -> int:
    """Set the number of runner nodes to N, or to a range such as 1-4."""
    most = nodes.most if nodes.is_elastic else None
    return send_and_print(data, assign, "scale", count=nodes.least, most=most)


@click.command()
@click.argument("sequence", metavar="[SEQ]", required=False)
@common_options
def pause(sequence: str | None, data: Path, assign: Sequence[str]) -> int:
    """Start no new jobs of the run, or of SEQ: an id, GROUP or GROUP@HOST:PORT. Running jobs finish."""
    return send_and_print(data, assign, "pause", sequence=sequence)


@click.command()
@click.argument("sequence", metavar="[SEQ]", required=False)
@common_options
def resume(sequence: str | None, data: Path, assign: Sequence[str]) -> int:
    """Start jobs again after `pause`."""
    return send_and_print(data, assign, "resume", sequence=sequence)


@click.command()
@click.argument("sequence", metavar="SEQ")
@common_options
def stop(sequence: str, data: Path, assign: Sequence[str]) -> int:
    """Skip the waiting jobs of SEQ, and those found later: an id, GROUP or GROUP@HOST:PORT. `resume SEQ` lifts it."""
    return send_and_print(data, assign, "stop", sequence=sequence)


@click.command()
@common_options
def reload(data: Path, assign: Sequence[str]) -> int:
    """Reload the defs from disk: publish them, or report their problems."""
    return send_and_print(data, assign, "reload")
