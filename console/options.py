"""What the commands of the command line share: the flags all take, and what `--set` says."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from engine.errors import StorageError, UsageError


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags every command takes."""
    data = click.option(
        "--data",
        type=click.Path(path_type=Path, readable=False),
        callback=_reachable,
        default=Path("data"),
        show_default=True,
        help="The data directory.",
    )
    assign = click.option("--set", "assign", multiple=True, metavar="NAME=VALUE", help="Any setting; may be repeated.")
    return data(assign(command))


def _reachable(_context: click.Context, _option: click.Parameter, data: Path) -> Path:
    """Raises StorageError on a folder that is there, or may be there, and that this user may not look into."""
    try:
        str(data.absolute()).encode()
        if not data.is_dir() or os.access(data, os.R_OK | os.X_OK):
            return data
        what = os.strerror(errno.EACCES)
    except UnicodeEncodeError:
        raise UsageError(f"{data}: a path that is no UTF-8", "Use another --data, or another folder.") from None
    except OSError as error:
        what = error.strerror or str(error)
    raise StorageError(f"{data}: {what}", "Mend its permissions, or use another --data.")


def settings_of(assign: Sequence[str], **flags: Any) -> Any:
    """The settings in force, with those of `--set` and of a command's own flags."""
    from engine.settings import assignment, load

    return load({**dict(assignment(text) for text in assign), **{k: v for k, v in flags.items() if v is not None}})


def checked(assign: Sequence[str]) -> None:
    """For commands that use no setting: the names are checked, and a damaged crawl.toml keeps nobody from a cancel."""
    from engine.settings import assignment

    for text in assign:
        assignment(text)
