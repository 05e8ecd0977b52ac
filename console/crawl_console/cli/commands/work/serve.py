"""The command `serve`: watches crawls, and steers them, over HTTP."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import click

from crawl_console.cli.options import FilePath, claim_data_dir, parse_assignments, validate_paths
from crawl_console.cli.output import write_lines, write_stderr


@click.command()
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8787, show_default=True, help="Its port; 0: any.")
@click.option("--socket", "local", type=FilePath(), help="Also listen on this Unix socket, for its owner alone.")
@click.option("--control", is_flag=True, help="Allow commands: POST /commands/NAME.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name of this server; may be repeated."
)
@click.option("--root-path", default="", metavar="PATH", help="The path of a proxy below which it is served: /crawls.")
@click.option(
    "--forwarded-prefix", "reads_prefix", is_flag=True, help="Take that path from the proxy's X-Forwarded-Prefix."
)
@click.option("--token-file", type=FilePath(), help="The file with the token; default: serve.token in the data.")
@click.option(
    "--data", "folders", type=FilePath(readable=False), multiple=True, default=(Path("data"),), show_default="data",
    callback=validate_paths, help="Data directory; may be repeated.",
)  # fmt: skip
@click.option(
    "--name", "names", multiple=True, metavar="NAME",
    help="The name of a data directory in metrics and addresses, one for each --data; default: from its path.",
)  # fmt: skip
@click.option(
    "--set", "assigned", multiple=True, callback=parse_assignments, metavar="NAME=VALUE",
    help="Any setting; may be repeated.",
)  # fmt: skip
def serve(
    bind: str,
    port: int,
    local: Path | None,
    control: bool,
    hosts: Sequence[str],
    root_path: str,
    reads_prefix: bool,
    token_file: Path | None,
    folders: Sequence[Path],
    names: Sequence[str],
    assigned: dict[str, str],
) -> int:
    """Serve the status of crawls to browsers, scripts and Prometheus."""
    from crawl_engine.runtime.extras import require_extra

    require_extra("serve", "the command serve")
    from crawl_console.web.server import ServeOptions, is_loopback, run
    from crawl_console.web.token_file import load_token
    from crawl_engine.supervise.lock import check_private

    for folder in folders:
        with contextlib.suppress(OSError):  # it may come later, and whoever reads it says what is wrong
            check_private(folder)
        claim_data_dir(folder, assigned)
    token = load_token(token_file, folders, write_stderr)
    if token.current():
        write_stderr(f"token: {token.path}")
    if not is_loopback(bind):
        write_stderr(
            f"{bind} is reached from other machines, and answers are not encrypted: put a proxy with TLS in front of it"
        )
    options = ServeOptions(bind, port, local, control, hosts, names, root_path, reads_prefix)
    run(folders, token.current, options, write_lines)
    return 0
