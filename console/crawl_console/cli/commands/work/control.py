"""Commands that a running supervisor executes, from `cancel` and `kill` to `host` and `reload`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawl_console.cli.options import Nodes, Number, Seconds, common_options, complete_names, object_option
from crawl_console.cli.output import write_json
from crawl_engine.errors import UsageError
from crawl_engine.model import bounds

if TYPE_CHECKING:
    from crawl_engine.model.node import NodeRange


def _send_and_print(data: Path, name: str, as_json: bool, **arguments: Any) -> int:
    """Send a command and print the answer; returns 0, or 2 if the supervisor refused it."""
    from crawl_console.client import send_command

    done, answer = send_command(data, name, {key: value for key, value in arguments.items() if value is not None})
    if as_json:
        write_json({"ok": done, "text": answer})
    else:
        click.echo(answer, err=not done)
    return 0 if done else 2


@click.command()
@object_option
@common_options("data")
def cancel(as_json: bool, data: Path) -> int:
    """Stop the run gracefully: running jobs may finish."""
    return _send_and_print(data, "cancel", as_json)


@click.command()
@click.argument("node", required=False, shell_complete=complete_names("node"))
@object_option
@common_options("data")
def kill(node: str | None, as_json: bool, data: Path) -> int:
    """Kill the run at once, or one NODE (such as n2), which is then replaced."""
    return _send_and_print(data, "kill", as_json, node=node)


@click.command()
@click.argument("node", shell_complete=complete_names("node"))
@object_option
@common_options("data")
def drain(node: str, as_json: bool, data: Path) -> int:
    """Let one NODE finish its jobs, then retire it."""
    return _send_and_print(data, "drain", as_json, node=node)


@click.command()
@click.argument("node", shell_complete=complete_names("node"))
@object_option
@common_options("data")
def restart(node: str, as_json: bool, data: Path) -> int:
    """Let one NODE finish its jobs, then start another in its place."""
    return _send_and_print(data, "restart", as_json, node=node)


@click.command()
@click.argument("nodes", metavar="N", type=Nodes())
@object_option
@common_options("data")
def scale(nodes: "NodeRange", as_json: bool, data: Path) -> int:
    """Set the number of runner nodes to N, or to a range such as 1-4."""
    return _send_and_print(data, "scale", as_json, count=nodes.least, most=nodes.most if nodes.is_elastic else None)


@click.command()
@click.argument("sequence", metavar="[SEQ]", required=False, shell_complete=complete_names("sequence"))
@object_option
@common_options("data")
def pause(sequence: str | None, as_json: bool, data: Path) -> int:
    """Start no new jobs of the run, or of SEQ: an id, GROUP or GROUP@HOST:PORT. Running jobs finish."""
    return _send_and_print(data, "pause", as_json, sequence=sequence)


@click.command()
@click.argument("sequence", metavar="[SEQ]", required=False, shell_complete=complete_names("sequence"))
@object_option
@common_options("data")
def resume(sequence: str | None, as_json: bool, data: Path) -> int:
    """Start jobs again after `pause`."""
    return _send_and_print(data, "resume", as_json, sequence=sequence)


@click.command()
@click.argument("sequence", metavar="SEQ", shell_complete=complete_names("sequence"))
@object_option
@common_options("data")
def stop(sequence: str, as_json: bool, data: Path) -> int:
    """Skip the waiting jobs of SEQ, and those found later: an id, GROUP or GROUP@HOST:PORT. `resume SEQ` lifts it."""
    return _send_and_print(data, "stop", as_json, sequence=sequence)


@click.command()
@object_option
@common_options("data")
def reload(as_json: bool, data: Path) -> int:
    """Reload the defs from disk: publish them, or report their problems."""
    return _send_and_print(data, "reload", as_json)


@click.command()
@click.argument("host", shell_complete=complete_names("host"))
@click.option("--delay", type=Seconds(bounds.DELAY), metavar="S", help="Seconds between two requests.")
@click.option("--concurrency", type=Number(bounds.CONCURRENCY), metavar="N", help="Concurrent requests.")
@click.option("--pause", "paused", is_flag=True, help="Start no new jobs; running jobs finish.")
@click.option("--resume", "resumed", is_flag=True, help="Start jobs again.")
@click.option("--reset", is_flag=True, help="Return to the values of the defs, not paused.")
@object_option
@common_options("data")
def host(
    host: str,
    delay: float | None,
    concurrency: int | None,
    paused: bool,
    resumed: bool,
    reset: bool,
    as_json: bool,
    data: Path,
) -> int:
    """Change the limits of HOST, a name or NAME:PORT; kept over reloads and resumes, never under its Crawl-delay."""
    if paused and resumed:
        raise UsageError("host: --pause and --resume exclude each other", "Give one of them.")
    changes = {"delay": delay, "concurrency": concurrency, "reset": reset or None}
    if paused or resumed:
        changes["paused"] = paused
    if all(value is None for value in changes.values()):
        raise UsageError("host: nothing to change", "Give --delay, --concurrency, --pause, --resume or --reset.")
    return _send_and_print(data, "host", as_json, host=host, **changes)
