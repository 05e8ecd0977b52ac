"""What the commands of the command line share: the flags all take, and what `--set` says."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from engine.errors import UsageError


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags every command takes."""
    data = click.option(
        "--data",
        type=click.Path(path_type=Path, readable=False),
        callback=_validate_path,
        default=Path("data"),
        show_default=True,
        help="The data directory.",
    )
    assign = click.option("--set", "assign", multiple=True, metavar="NAME=VALUE", help="Any setting; may be repeated.")
    return data(assign(command))


def _validate_path(_context: click.Context, _option: click.Parameter, data: Path) -> Path:
    """Raises UsageError on a path that SQLite could not be told."""
    try:
        str(data.absolute()).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{data}: a path that is no UTF-8", "Use another --data, or another folder.") from None
    return data


def load_settings(assign: Sequence[str], **flags: Any) -> Any:
    """The settings in force, with those of `--set` and of a command's own flags."""
    from engine.settings import load_settings, parse_assignment

    return load_settings(
        {**dict(parse_assignment(text) for text in assign), **{k: v for k, v in flags.items() if v is not None}}
    )


def validate_assignments(assign: Sequence[str]) -> None:
    """For commands that use no setting: the names are checked, and a damaged crawl.toml keeps nobody from a cancel."""
    from engine.settings import parse_assignment

    for text in assign:
        parse_assignment(text)
