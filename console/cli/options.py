"""Options that commands share, and the settings they select."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Meta

from engine.errors import UsageError
from engine.model import bounds


class FilePath(click.Path):
    """A path. An empty one, such as that of an unset shell variable, would be the current folder: it is refused."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Raises BadParameter."""
        if value == "":
            self.fail("the path is empty; is a shell variable unset?", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.IntRange):
    """A whole number within bounds."""

    def __init__(self, limits: Meta = bounds.POSITIVE_COUNT) -> None:
        least, most = bounds.limits_of(limits)
        super().__init__(int(least), int(most))


class Seconds(click.FloatRange):
    """A time in seconds, or with a unit: 90, 1.5, 90s, 5m, 2h, 1d, PT15M."""

    name = "seconds"

    def __init__(self, limits: Meta) -> None:
        super().__init__(limits.ge, limits.le)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The seconds. Raises BadParameter."""
        from engine.settings.values import parse_seconds

        try:
            seconds = parse_seconds(value)
        except ValueError:
            self.fail(f"'{value}' is not a time; write seconds, or 90s, 5m, 2h, 1d", param, ctx)
        return super().convert(seconds, param, ctx)


class Nodes(click.ParamType[Any]):
    """A number of nodes, or a range: 4, 1-4."""

    name = "nodes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The NodeRange. Raises BadParameter."""
        from engine.model.node import NodeRange
        from engine.settings.values import parse_nodes

        if isinstance(value, NodeRange):
            return value
        try:
            return parse_nodes(value)
        except ValueError:
            allowed = f"a number of nodes {bounds.describe_bounds(bounds.NODES)}"
            self.fail(f"'{value}' is not {allowed}; write 4, or the least and the most: 1-4", param, ctx)


defs_option = click.option(
    "--defs", type=FilePath(), default=Path("defs"), show_default=True, help="Defs directory or file."
)
summary_option = click.option("--json", "as_json", is_flag=True, help="Print a summary object last on stdout.")
lines_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
run_option = click.option("--run", "run_id", metavar="RUN", help="This run instead of the latest one; see `runs`.")
match_option = click.option(
    "--match", metavar="FILTER", help="Only these: a regular expression for URL and reason, or terms as host:x age>5m."
)


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command takes."""
    data = click.option(
        "--data",
        type=FilePath(readable=False),
        callback=_validate_path,
        default=Path("data"),
        show_default=True,
        help="Data directory.",
    )
    assign = click.option("--set", "assign", multiple=True, metavar="NAME=VALUE", help="Any setting; may be repeated.")
    return data(assign(command))


def empty_without_run(command: Callable[..., int]) -> Callable[..., int]:
    """Have a command that reads answer nothing, with 0, where there is no run yet."""

    @functools.wraps(command)
    def answer(*args: Any, **options: Any) -> int:
        from console.cli.output import write_stderr
        from console.client import NoRun

        try:
            return command(*args, **options)
        except NoRun as error:
            write_stderr(f"{error.message}: start one with `crawl-console run`")
            return 0

    return answer


def choice(words: Sequence[str]) -> click.Choice[str]:
    """An option's value: one of these words, in any letter case."""
    return click.Choice(list(words), case_sensitive=False)


def _validate_path(_context: click.Context, _option: click.Parameter, data: Path) -> Path:
    """Raises UsageError for a path that cannot be passed to SQLite."""
    try:
        str(data.absolute()).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{data}: the path is not UTF-8", "Use another --data, or another folder.") from None
    return data


def load_settings(assign: Sequence[str], **flags: Any) -> Any:
    """The settings in force, including those of `--set` and of a command's own flags."""
    from engine.settings import load_settings, parse_assignment

    return load_settings(dict(parse_assignment(text) for text in assign), flags=flags)


def load_settings_of(defs: Path, assign: Sequence[str], **flags: Any) -> tuple[Any, Sequence[Any]]:
    """The settings in force for these defs, with those of a `scoopi.properties` beside them, and its warnings."""
    from engine.settings import load_settings, parse_assignment
    from engine.settings.scoopi_properties import read_scoopi_properties

    assigned = dict(parse_assignment(text) for text in assign)
    written = read_scoopi_properties(defs)
    return load_settings(assigned, flags=flags, properties=written.values), written.warnings


def hide_base_url(arguments: Sequence[str], base_url: str | None) -> tuple[list[str], dict[str, str]]:
    """The arguments of a new process without a base URL that holds a password, and the environment that gives it.

    Any user may read the command line of a process that runs for hours; its environment is its owner's.
    """
    from engine.urls import without_credentials

    if base_url is None or without_credentials(base_url) == base_url:
        return list(arguments), {}
    kept: list[str] = []
    words = iter(without_option(arguments, "--base-url"))
    for word in words:
        option, equals, value = word.partition("=")
        if option != "--set":
            kept.append(word)
            continue
        value = value if equals else next(words, "")
        if value.partition("=")[0].strip().replace("-", "_") != "base_url":
            kept += ["--set", value]
    return kept, {"CRAWL_BASE_URL": base_url}


def without_option(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments of a new process without an option and its value, which concern this process alone."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == option:
            next(words, None)
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept


def validate_assignments(assign: Sequence[str]) -> None:
    """Check `--set` for a command that uses no setting: it works even where crawl.toml is damaged."""
    from engine.settings import parse_assignment

    for text in assign:
        parse_assignment(text)
