"""Loads and validates settings: from flags, CRAWL_* variables, crawl.toml, scoopi.properties, in that order."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from msgspec import Struct, to_builtins
from msgspec.structs import fields, replace

from engine import __version__
from engine.errors import UsageError, suggest
from engine.helper_settings import HelperError, parse_helpers
from engine.model.helper import Helper
from engine.model.node import NodeRange
from engine.setting_values import duration_seconds, parse_run_time, parse_share, parse_value

if TYPE_CHECKING:
    from engine.scoopi_properties import ScoopiValue

_STOP_RESERVE = 3.0
_ONE_NODE = NodeRange(1, 1)


def default_nodes() -> NodeRange:
    """One node for each usable CPU, at least 2, at most 4."""
    count = min(4, max(2, usable_cpus()))
    return NodeRange(count, count)


def usable_cpus() -> int:
    """CPUs this process may use, by its affinity and by the quota of its cgroup."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            count = min(count, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return count


class Settings(Struct, frozen=True, kw_only=True):
    """Every setting, by its stable name. Times are in seconds, sizes in bytes, unless stated."""

    nodes: NodeRange = _ONE_NODE
    """Where no place gives it, `resolve_settings` takes `default_nodes()`."""
    node_wait: float = 5.0
    node_idle: float = 60.0
    backups: int = 0
    concurrency: int = 32
    batch: int = 32
    grace: float = 25.0
    stop_within: float | None = None
    """Seconds in which a stop that was asked for ends; None: 28, or what `grace` needs."""
    node_drain: float = 1800.0
    file_drain: float = 300.0
    send_drain: float = 15.0
    heart_timeout: float = 1.0
    start_timeout: float = 20.0
    deadline: float = 30.0
    max_attempts: int = 4
    max_body: int = 10_000_000
    max_file: int = 1_000_000_000
    """Bytes of a downloaded file, as sent and decoded."""
    max_redirects: int = 10
    seed_retries: int = 3
    """How often a list of URLs that cannot be read is read again."""
    max_failed: int = 0
    min_rows: int | None = None
    """Rows of a complete run below which the exit code is 1."""
    max_rejected: str | None = None
    """The share of records, as `5%`, above which the exit code is 1 if they were rejected."""
    robots: bool = True
    user_agent: str = f"crawl-console/{__version__}"
    contact: str | None = None
    """A URL or mail address for site owners, added to `user_agent` as ` (+CONTACT)`."""
    meta_nofollow: bool = True
    meta_noindex: bool = False
    throttle: Literal["off", "auto"] = "off"
    host_clock: bool = True
    delay: float = 0.0
    host_concurrency: int = 8
    live: str = "PT0S"
    documents: bool = True
    """Whether groups that do not say keep the bodies of their pages beyond the end of the run."""
    on_reload: Literal["reextract", "new_only"] = "reextract"
    on_save: Literal["publish", "ask"] = "publish"
    """`ask`: saved defs wait until an operator publishes them."""
    refresh: float = 2.0
    parse_limit: float = 5.0
    """CPU seconds."""
    parse_memory: int = 400_000_000
    max_links: int = 50_000
    cpu_affinity: Literal["auto", "off"] = "auto"
    """`auto`: keep a node's threads on one CPU while it is not contended."""
    max_pages: int | None = None
    max_time: float | None = None
    min_free: int = 64_000_000
    helpers: tuple[Helper, ...] | None = None
    """Programs that run beside the crawl, in the order in which they start."""
    on_start: tuple[str, ...] | None = None
    """A command and its arguments."""
    on_end: tuple[str, ...] | None = None
    on_alarm: tuple[str, ...] | None = None
    base_url: str | None = None
    allow_file: bool = False
    default_steps: str = "jsoupDefault"
    fact_blank: str = "-"
    fact_not_found: str = "not found"
    date_time_pattern: str | None = None
    run_time: str | None = None

    @property
    def full_user_agent(self) -> str:
        """The User-Agent header: `user_agent`, and `contact` where it is given."""
        return f"{self.user_agent} (+{self.contact})" if self.contact else self.user_agent

    @property
    def live_seconds(self) -> float:
        """`live` in seconds. Raises UsageError where it is not an ISO 8601 duration of fixed length."""
        return duration_seconds(self.live)

    @property
    def max_rejected_share(self) -> float | None:
        """`max_rejected` as a share of 1."""
        return None if self.max_rejected is None else parse_share(self.max_rejected)

    @property
    def stop_seconds(self) -> float:
        """Seconds in which a stop that was asked for ends."""
        return max(28.0, self.grace + _STOP_RESERVE) if self.stop_within is None else self.stop_within

    @property
    def stop_reserve(self) -> float:
        """Seconds at the end of a stop in which no job runs any more: for commits, files and the end of processes."""
        return min(_STOP_RESERVE, self.stop_seconds / 2)

    @property
    def job_grace(self) -> float:
        """`grace`, as far as the whole stop allows it."""
        return min(self.grace, self.stop_seconds - self.stop_reserve)

    def to_json(self) -> str:
        """The form in which child processes receive the settings, without `helpers`, which they do not need."""
        return json.dumps(to_builtins(replace(self, helpers=None)), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """The settings of a text from `to_json`."""
        values = json.loads(text)
        if "nodes" in values:
            values["nodes"] = NodeRange(**values["nodes"])
        for name in ("on_start", "on_end", "on_alarm"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return cls(**values)


class Setting(Struct, frozen=True):
    """One value and its origin: `flag`, `env CRAWL_X`, `crawl.toml`, `scoopi.properties`, `default`."""

    name: str
    value: Any
    origin: str


class _Written(Struct, frozen=True):
    """A value that is not parsed yet. `place`: for messages."""

    value: Any
    origin: str
    place: str


def load_settings(
    assigned: Mapping[str, Any], *, flags: Mapping[str, Any] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None, folder: Path = Path(),
    properties: "Mapping[str, ScoopiValue]" = MappingProxyType({}),
) -> Settings:  # fmt: skip
    """The settings in force. `assigned` holds the values of `--set`, `flags` those of own flags; None: not given.

    `properties`: the values of a scoopi.properties. Raises UsageError on an unknown name or an invalid value, naming
    its place.
    """
    resolved = resolve_settings(assigned, flags=flags, environment=environment, folder=folder, properties=properties)
    return Settings(**{setting.name: setting.value for setting in resolved})


def resolve_settings(
    assigned: Mapping[str, Any], *, flags: Mapping[str, Any] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None, folder: Path = Path(),
    properties: "Mapping[str, ScoopiValue]" = MappingProxyType({}),
) -> list[Setting]:  # fmt: skip
    """Every setting with its origin, in order of declaration. Raises as `load_settings` does."""
    environment = os.environ if environment is None else environment
    path = folder / "crawl.toml"
    text = _read_text(path)
    toml = _parse_toml(path, text) if text else {}
    for name in assigned:
        _check_name(name, "--set")
    for name in toml:
        _check_name(name, _place_in_toml(text, name))
    settings, places, hints = [], {}, get_type_hints(Settings)
    for field in fields(Settings):
        name, variable = field.name, f"CRAWL_{field.name.upper()}"
        if flags.get(name) is not None:
            written = _Written(flags[name], "flag", f"--{name.replace('_', '-')}")
        elif assigned.get(name) is not None:
            written = _Written(assigned[name], "flag", f"--set {name}")
        elif variable in environment:
            written = _Written(environment[variable], f"env {variable}", f"env {variable}")
        elif name in toml:
            written = _Written(toml[name], "crawl.toml", _place_in_toml(text, name))
        elif name in properties:
            written = _Written(properties[name], "scoopi.properties", properties[name].place)
        else:
            settings.append(Setting(name, default_nodes() if name == "nodes" else field.default, "default"))
            continue
        places[name] = written.place
        settings.append(Setting(name, _parse(name, hints[name], written, text), written.origin))
    _check_run_time({setting.name: setting.value for setting in settings}, places)
    return settings


def _parse(name: str, hint: Any, written: _Written, toml: str) -> Any:
    """The value of a setting. `toml`: the text of crawl.toml. Raises UsageError with the place of the value."""
    if written.origin == "scoopi.properties":
        return written.value.parse(name, hint)
    typed, place = written.origin == "crawl.toml", written.place
    try:
        if name == "helpers":
            return parse_helpers(written.value)
        return parse_value(name, hint, written.value, typed=typed)
    except UsageError as error:
        if typed and isinstance(error, HelperError):
            place = _place_in_toml(toml, *error.keys)
        raise UsageError(f"{place}: {error.message}", error.remedy) from None


def _check_run_time(values: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Raise UsageError if `run_time` is no date: its form depends on another setting."""
    if values["run_time"] is not None:
        try:
            parse_run_time(values["run_time"], values["date_time_pattern"])
        except UsageError as error:
            raise UsageError(f"{places['run_time']}: {error.message}", error.remedy) from None


def parse_assignment(text: str) -> tuple[str, str]:
    """Split the `NAME=VALUE` of `--set`. Raises UsageError."""
    name, sign, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not sign:
        raise UsageError(f"--set {text}: not of the form NAME=VALUE", "Write for example --set delay=0.5")
    _check_name(name, "--set")
    return name, value.strip()


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}", "Fix the file, or delete it: every setting has a default.") from error


def _parse_toml(path: Path, text: str) -> dict[str, Any]:
    import tomllib  # 2 ms, which a process that reads no crawl.toml need not pay

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", "Fix the file, or delete it: every setting has a default.") from error


def _place_in_toml(text: str, name: str, *keys: str) -> str:
    """`crawl.toml:3`: where a name stands at the top level, or the last of these keys below it that is written."""
    lines = text.splitlines()
    start = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    number = next((number for number, line in enumerate(lines) if start.match(line)), 0)
    for key in keys:
        below = re.compile(rf"""(?:^|[.\[{{,])\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
        number = next((at for at in range(number, len(lines)) if below.search(lines[at])), number)
    return f"crawl.toml:{number + 1}"


def _check_name(name: str, origin: str) -> None:
    names = list(Settings.__struct_fields__)
    if name not in names:
        raise UsageError(f"{origin}: unknown setting '{name}'{suggest(name, names)}", "See `docs/settings.md`.")
