"""Options that commands share, and the settings and defs that they select."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Meta

from crawl_engine.errors import UsageError
from crawl_engine.model import bounds

if TYPE_CHECKING:
    from crawl_engine.errors import Problem
    from crawl_engine.model.definition import Definitions
    from crawl_engine.settings import Settings
    from crawl_engine.store.read.known_names import NameKind

Command = TypeVar("Command", bound=Callable[..., Any])


summary_option = click.option("--json", "as_json", is_flag=True, help="Print a summary object last on stdout.")
lines_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
object_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on one line.")
base_url_option = click.option("--base-url", metavar="U", help="Base URL of relative locators.")
browser_option = click.option("--browser", is_flag=True, help="Have Chromium or Chrome render the page of a URL.")
match_option = click.option(
    "--match", metavar="FILTER", help="Only these: a regular expression for URL and reason, or terms as host:x age>5m."
)
_STORE_NAMES = ("store", "project")
LIMIT_NAMES = "--older-than P30D, --keep N or --max-size BYTES"


class FilePath(click.Path):
    """A path. An empty one, as of an unset shell variable, would mean the current folder and is refused.

    A text that begins with one of `url_starts` is a URL, and stays a text.
    """

    def __init__(self, url_starts: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self._url_starts = url_starts

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty; is a shell variable unset?", param, ctx)
        if isinstance(value, str) and self._url_starts and value.startswith(self._url_starts):
            return value
        if isinstance(value, str) and "://" in value:  # its authority may hold a password
            start = value.partition("://")[0]
            self.fail(f"'{start}://…' is not a local path; the defs name such a target in an appender", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.IntRange):
    """A whole number within bounds."""

    name = "integer"

    def __init__(self, limits: Meta = bounds.POSITIVE_COUNT) -> None:
        least, most = bounds.limits_of(limits)
        super().__init__(int(least), int(most))


class Seconds(click.FloatRange):
    """A time in seconds, or with a unit: 90, 1.5, 90s, 5m, 2h, 1d, PT15M."""

    name = "seconds"

    def __init__(self, limits: Meta) -> None:
        super().__init__(limits.ge, limits.le)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from crawl_engine.settings.values import parse_seconds

        try:
            seconds = parse_seconds(value)
        except ValueError:
            self.fail(f"'{value}' is not a time; write seconds, or 90s, 5m, 2h, 1d", param, ctx)
        return super().convert(seconds, param, ctx)


class Nodes(click.ParamType[Any]):
    """A number of nodes, or a range: 4, 1-4."""

    name = "nodes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from crawl_engine.model.node import NodeRange
        from crawl_engine.settings.values import parse_nodes

        if isinstance(value, NodeRange):
            return value
        try:
            return parse_nodes(value)
        except ValueError:
            allowed = f"a number of nodes {bounds.describe_bounds(bounds.NODES)}"
            self.fail(f"'{value}' is not {allowed}; write 4, or the least and the most: 1-4", param, ctx)


def complete_names(kind: "NameKind") -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes a parameter in a shell with the names of that kind in the data dir."""

    def complete(context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
        from crawl_console.cli.completion import list_names

        return list_names(kind, context.params.get("data") or Path("data"), start)

    return complete


defs_option = click.option(
    "--defs", type=FilePath(), default=Path("defs"), show_default=True, help="Defs directory or file."
)


def _parse_arguments(_context: click.Context, _option: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """The values of `-a` by name. Raises UsageError."""
    if not given:
        return {}
    from crawl_engine.defs.arguments import parse_argument

    return dict(map(parse_argument, given))


arguments_option = click.option(
    "-a", "arguments", multiple=True, callback=_parse_arguments, metavar="NAME=VALUE",
    help="The value of %{arg.NAME} in the defs; may be repeated.",
)  # fmt: skip
run_option = click.option(
    "--run", "run_id", metavar="RUN", shell_complete=complete_names("run"),
    help="This run instead of the latest one; see `runs`.",
)  # fmt: skip


def common_options(*used: str) -> Callable[[Command], Command]:
    """Add `--data` and `--set`, which every command takes. `used`: those the command gets, `data` and `assigned`.

    `folders`: `--data` may be repeated; the command gets all of them, and the first one as `data`.
    """

    def add(command: Command) -> Command:
        claims, several = "data" in used, "folders" in used
        data = click.option(
            "--data", type=FilePath(readable=False), callback=validate_paths if several else validate_path,
            expose_value=claims, multiple=several, default=(Path("data"),) if several else Path("data"),
            show_default="data" if several else True,
            help="Data directory; several open a list." if several else "Data directory.",
        )  # fmt: skip
        assign = click.option(
            "--set", "assigned", multiple=True, callback=parse_assignments, expose_value=claims or "assigned" in used,
            metavar="NAME=VALUE", help="Any setting; may be repeated.",
        )  # fmt: skip
        return data(assign(_claiming(command, takes_assigned="assigned" in used) if claims else command))

    return add


def _claiming(command: Command, *, takes_assigned: bool) -> Command:
    """Have the data dir belong to the store of the settings before the command reads it. `run` and `demo` name one."""

    @functools.wraps(command)
    def claim(*args: Any, data: Path | list[Path], assigned: dict[str, str], **options: Any) -> Any:
        if isinstance(data, list):
            options["folders"], data = data, data[0]
        # without its defs a command fails, and makes no data dir
        if len(options.get("folders", ())) < 2 and os.path.exists(options.get("defs", ".")):  # noqa: PTH110
            claim_data_dir(data, assigned, {n: options.get(n) for n in _STORE_NAMES}, draws="no_ui" in options)
        return command(*args, data=data, **({"assigned": assigned} if takes_assigned else {}), **options)

    return claim  # type: ignore[return-value]


def claim_data_dir(
    data: Path, assigned: Mapping[str, str], flags: Mapping[str, Any] = MappingProxyType({}), *, draws: bool = False
) -> None:
    """Have a data dir belong to the store that the settings name, if they name one. `draws`: the project as well."""
    if not _names_store(assigned, flags):
        return
    from crawl_console.cli.output import write_stderr
    from crawl_engine.settings import resolve_settings
    from crawl_engine.store.db.data_dir import claim_store
    from crawl_engine.urls import without_passwords

    url, project = (one.value for one in resolve_settings(assigned, flags=flags, names=_STORE_NAMES))
    location = claim_store(data, url, project, draws=draws)
    if location is not None:
        write_stderr(f"{data}: belongs to project {location.project} of {without_passwords(location.url)}")


def _names_store(assigned: Mapping[str, str], flags: Mapping[str, Any]) -> bool:
    """Whether a setting may name a store: reading all settings costs more than most commands take."""
    if any(assigned.get(n) or flags.get(n) or f"CRAWL_{n.upper()}" in os.environ for n in _STORE_NAMES):
        return True
    try:
        text = Path("crawl.toml").read_text("utf-8")
    except (OSError, ValueError):
        return False
    return any(name in text for name in _STORE_NAMES)


def limit_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add `--older-than`, `--keep` and `--max-size`, of which one is given at most, as `limits`; and `--yes`."""

    @functools.wraps(command)
    def limited(
        *args: Any, older_than: float | None, keep: int | None, max_size: int | None, **options: Any
    ) -> int:  # fmt: skip
        from crawl_engine.model.run import Limits

        given = {"--older-than": older_than, "--keep": keep, "--max-size": max_size}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} exclude each other", "Use one of them.")
        return command(*args, limits=Limits(older_than=older_than, keep=keep, max_bytes=max_size), **options)

    for option in (
        click.option("--yes", is_flag=True, help="Delete without asking."),
        click.option("--max-size", type=Number(bounds.COUNT), metavar="BYTES", help="Delete the oldest above it."),
        click.option("--keep", type=Number(bounds.COUNT), metavar="N", help="Delete all but the newest N."),
        click.option("--older-than", type=Seconds(bounds.KEEP), metavar="TIME", help="Delete older ones: P30D, 12h."),
    ):
        limited = option(limited)
    return limited


def empty_without_run(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command that reads print nothing and return 0 if the data dir has no run yet."""

    @functools.wraps(command)
    def answer(*args: Any, **options: Any) -> int:
        from crawl_console.cli.output import write_stderr
        from crawl_console.client import NoRun

        try:
            return command(*args, **options)
        except NoRun as error:
            write_stderr(f"{error.message}: start one with `crawl-console run`")
            return 0

    return answer


def choice(words: Sequence[str]) -> click.Choice[str]:
    """One of these words, in any letter case."""
    return click.Choice(list(words), case_sensitive=False)


def validate_path(_context: click.Context, _option: click.Parameter, data: Path) -> Path:
    """Raises UsageError for a path that cannot be passed to SQLite."""
    try:
        str(data.absolute()).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{data}: the path is not UTF-8", "Use another --data, or another folder.") from None
    return data


def validate_paths(context: click.Context, option: click.Parameter, folders: Sequence[Path]) -> list[Path]:
    """The data dirs, each once. Raises UsageError."""
    return list(dict.fromkeys(validate_path(context, option, folder) for folder in folders))


def parse_assignments(_context: click.Context, _option: click.Parameter, assigned: Sequence[str]) -> dict[str, str]:
    """The settings of `--set` by name. Raises UsageError."""
    if not assigned:
        return {}
    from crawl_engine.settings import parse_assignment

    return dict(map(parse_assignment, assigned))


def load_settings_of(
    defs: Path, assigned: Mapping[str, str], **flags: Any
) -> "tuple[Settings, Sequence[Problem]]":  # fmt: skip
    """The settings in force for these defs, and the warnings of a `scoopi.properties` beside them.

    `flags`: settings that a command has as options of its own.
    """
    from crawl_engine.settings import load_settings
    from crawl_engine.settings.scoopi_properties import read_scoopi_properties

    written = read_scoopi_properties(defs)
    return load_settings(assigned, flags=flags, properties=written.values), written.warnings


def load_defs(
    defs: Path,
    assigned: Mapping[str, str],
    arguments: Mapping[str, str],
    data: Path | None = None,
    run_id: str | None = None,
    **flags: Any,
) -> "tuple[Definitions, Settings]":
    """Load defs; writes their warnings to stderr. `flags` as above. Raises DefsError, UsageError.

    `data`: without arguments, those of its latest run count, or of the run `run_id`.
    """
    from crawl_console.cli.output import write_stderr
    from crawl_engine.defs.arguments import require_used
    from crawl_engine.defs.loader import load

    settings, _ = load_settings_of(defs, assigned, **flags)
    values = arguments
    if data is not None and not arguments:
        from crawl_console.client import read_arguments

        values = read_arguments(data, run_id)
    loaded = load(defs, settings.default_steps, keep_documents=settings.documents, arguments=values)
    require_used(arguments, loaded.arguments)
    write_stderr(*map(str, loaded.warnings))
    return loaded.definitions, settings


def hide_passwords(arguments: Sequence[str], urls: Mapping[str, str | None]) -> tuple[list[str], dict[str, str]]:
    """The arguments of a new process without the settings whose URL has a password, and variables with those URLs.

    `urls`: by setting. Any user can read the command line of a process, only its owner its environment.
    """
    from crawl_engine.urls import without_passwords

    kept = list(arguments)
    hidden = {n: url for n, url in urls.items() if url and (n == "notify" or without_passwords(url) != url)}
    for name in hidden:
        words = iter(without_option(kept, f"--{name.replace('_', '-')}"))
        kept = []
        for word in words:
            option, equals, value = word.partition("=")
            if option != "--set":
                kept.append(word)
                continue
            value = value if equals else next(words, "")
            if value.partition("=")[0].strip().replace("-", "_") != name:
                kept += ["--set", value]
    return kept, {f"CRAWL_{name.upper()}": url for name, url in hidden.items()}


def without_option(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments without an option of this process alone, and its value."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == option:
            next(words, None)
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept
