"""The commands for those who write defs: each looks at one page, or writes files to begin with; none starts a crawl."""

from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.options import common_options, load_settings, validate_assignments

_PATH = click.Path(path_type=Path)
_defs_option = click.option("--defs", type=_PATH, default=Path("defs"), show_default=True, help="Defs directory.")
_url_option = click.option("--url", metavar="U", help="The address of FILE: what its links resolve against.")


@click.command("try")
@click.argument("data_def")
@click.argument("source", metavar="URL|FILE", required=False)
@click.option("--job", type=click.IntRange(1), metavar="ID", help="A stored page of the data directory instead.")
@_url_option
@_defs_option
@click.option("--json", "as_json", is_flag=True, help="Print rows, links and rejections as one JSON object.")
@common_options
def try_(
    data_def: str, source: str | None, job: int | None, url: str | None, defs: Path, as_json: bool, data: Path,
    assign: Sequence[str],
) -> int:  # fmt: skip
    """Show the rows and links one page gives; nothing is queued or stored."""
    from console.cli.commands.try_page import try_ as try_page

    return try_page(defs, data, load_settings(assign), data_def, source, job=job, url=url, as_json=as_json)


@click.command()
@click.argument("source", metavar="URL|FILE")
@_url_option
@_defs_option
@common_options
def shell(source: str, url: str | None, defs: Path, data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Type selectors at a page, and see what they match."""
    from console.cli.commands.shell import shell as open_shell

    return open_shell(defs, load_settings(assign), source, url)


@click.command()
@click.argument("folder", metavar="DIR", type=_PATH)
@common_options
def init(folder: Path, data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Write the beginnings of a project into a new or empty folder."""
    from console.cli.commands.starting import init as begin

    validate_assignments(assign)
    return begin(folder)


@click.command()
@common_options
def schema(data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Print the JSON Schema of the defs, for editors."""
    from console.cli.commands.starting import show_schema

    validate_assignments(assign)
    return show_schema()


AUTHORING_COMMANDS = (try_, shell, init, schema)
