"""Loads and validates settings. Precedence: flag, CRAWL_* environment variable, crawl.toml, default."""

import json
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from engine import __version__
from engine.errors import UsageError, suggest

_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", re.ASCII)
_CONTACT = re.compile(r"https?://[!-'*-~]+|[!-'*-?A-~]+@[!-'*-?A-~]+")
"""A URL or a mail address, without blanks and brackets, which would break the header it becomes part of."""


def duration_seconds(text: str) -> float:
    """Seconds of an ISO 8601 duration such as `PT15M` or `P1D`, at most 300 years.

    Raises UsageError; years and months have no fixed length, and each number needs its unit.
    """
    if text == "PT0S":
        return 0.0
    invalid = UsageError(
        f"'{text}' is not an ISO 8601 duration", "Write P1D for a day, PT12H for 12 hours, PT90S for 90 seconds."
    )
    if text[-1:].isdigit() or "-" in text:
        raise invalid
    from isoduration import parse_duration

    try:
        duration = parse_duration(text)
        date, time = duration.date, duration.time
        days = date.weeks * 7 + date.days
        seconds = float(((days * 24 + time.hours) * 60 + time.minutes) * 60 + time.seconds)
    except Exception as error:  # the parser also raises errors of its number reader
        raise invalid from error
    if date.years or date.months:
        raise UsageError(f"'{text}' has years or months, which vary in length", "Write it in days, such as P30D.")
    if not 0 <= seconds <= 1e10:
        raise UsageError(f"'{text}' must be between 0 seconds and 300 years", "Write for example P30D.")
    return seconds


def default_nodes() -> int:
    """One node for each usable CPU, at least 2, at most 4."""
    return min(4, max(2, usable_cpus()))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting, by its stable name. Times are in seconds, sizes in bytes, unless stated."""

    nodes: int = 0
    """0: `default_nodes()`."""
    backups: int = 0
    concurrency: int = 32
    batch: int = 32
    grace: float = 25.0
    deadline: float = 30.0
    max_attempts: int = 4
    max_body: int = 10_000_000
    max_redirects: int = 10
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
    on_end: tuple[str, ...] | None = None
    """A command and its arguments."""
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

    def to_json(self) -> str:
        """The form in which child processes receive the settings."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """The settings of a text from `to_json`."""
        values = json.loads(text)
        if values.get("on_end") is not None:
            values["on_end"] = tuple(values["on_end"])
        return cls(**values)


_TIMES = frozenset({"delay", "deadline", "grace", "max_time", "parse_limit"})
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_MINIMUMS: Mapping[str, float] = {
    "nodes": 1, "backups": 0, "concurrency": 1, "batch": 1, "grace": 0, "deadline": 0.1, "max_attempts": 1,
    "max_body": 1, "max_redirects": 0, "max_failed": 0, "min_rows": 0, "delay": 0, "host_concurrency": 1,
    "refresh": 0.1, "max_pages": 1, "max_time": 0.1, "min_free": 0, "parse_limit": 0.1, "parse_memory": 100_000_000,
    "max_links": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """One value and its origin: `flag`, `env CRAWL_X`, `crawl.toml`, `default`."""

    name: str
    value: Any
    origin: str


def parse_seconds(value: Any) -> float:
    """Seconds of a number, of a number with one of the units ms, s, m, h, d, or of an ISO 8601 duration.

    Raises ValueError.
    """
    text = str(value).strip()
    match = _TIME.fullmatch(text)
    if match is not None:
        return float(match[1]) * _UNITS[match[2] or "s"]
    if text.startswith("P"):
        try:
            return duration_seconds(text)
        except UsageError as error:
            raise ValueError(text) from error
    return float(text)


def parse_share(text: str) -> float:
    """The share that a percentage such as `2.5%` stands for: 0 to 1. Raises ValueError."""
    match = _PERCENTAGE.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        raise ValueError(text)
    return float(match[1]) / 100


def load_settings(
    flags: Mapping[str, Any], *, environment: Mapping[str, str] | None = None, folder: Path = Path()
) -> Settings:
    """The settings in force. `flags` holds the values of the command line; None: not given.

    Raises UsageError on an unknown name or an invalid value, naming its origin.
    """
    return Settings(**{s.name: s.value for s in resolve_settings(flags, environment=environment, folder=folder)})


def resolve_settings(
    flags: Mapping[str, Any], *, environment: Mapping[str, str] | None = None, folder: Path = Path()
) -> list[Setting]:
    """Every setting with its origin, in order of declaration. Raises as `load_settings` does."""
    environment = os.environ if environment is None else environment
    written = _read_toml(folder / "crawl.toml")
    given = {name: value for name, value in flags.items() if value is not None}
    for origin, names in (("--set", given), ("crawl.toml", written)):
        for name in names:
            _check_name(name, origin)
    settings = []
    for field in fields(Settings):
        name, variable = field.name, f"CRAWL_{field.name.upper()}"
        if name in given:
            value, origin = given[name], "flag"
        elif variable in environment:
            value, origin = environment[variable], f"env {variable}"
        elif name in written:
            value, origin = written[name], "crawl.toml"
        else:
            settings.append(Setting(name, default_nodes() if name == "nodes" else field.default, "default"))
            continue
        settings.append(Setting(name, _parse_value(name, value, origin), origin))
    return settings


def parse_assignment(text: str) -> tuple[str, str]:
    """Split the `NAME=VALUE` of `--set`. Raises UsageError."""
    name, sign, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not sign:
        raise UsageError(f"--set {text}: not of the form NAME=VALUE", "Write for example --set delay=0.5")
    _check_name(name, "--set")
    return name, value.strip()


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}", "Fix the file, or delete it: every setting has a default.") from error


def _check_name(name: str, origin: str) -> None:
    names = [f.name for f in fields(Settings)]
    if name not in names:
        raise UsageError(f"{origin}: unknown setting '{name}'{suggest(name, names)}", "See `docs/settings.md`.")


def _parse_value(name: str, value: Any, origin: str) -> Any:
    hint = get_type_hints(Settings)[name]
    where = f"--set {name}" if origin == "flag" else origin
    try:
        parsed: Any = parse_seconds(value) if name in _TIMES and value not in ("", "none") else _coerce(hint, value)
    except (ValueError, TypeError):
        raise UsageError(f"{where}: {name} cannot be {value!r}", f"Use {_describe_expected(name, hint)}.") from None
    if isinstance(parsed, float | int) and not (math.isfinite(parsed) and parsed >= _MINIMUMS.get(name, parsed)):
        raise UsageError(f"{where}: {name} cannot be {value!r}", f"Use {_describe_expected(name, hint)}.")
    if name == "live":
        duration_seconds(parsed)
    if name == "max_rejected" and parsed is not None:
        try:
            parse_share(parsed)
        except ValueError:
            raise UsageError(f"{where}: max_rejected cannot be {value!r}", "Use a percentage, such as 5%.") from None
    if name == "contact" and parsed is not None and not _CONTACT.fullmatch(parsed):
        raise UsageError(
            f"{where}: contact cannot be {value!r}", "Use a URL (https://acme.example/bot) or a mail address."
        )
    return parsed


def _describe_expected(name: str, hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(get_args(hint))
    text = str(hint)
    if "tuple" in text:
        return 'a list of strings, as JSON: ["mail", "-s", "crawled", "me@acme.example"]'
    kinds = {"bool": "true or false", "int": "an integer", "float": "a number"}
    kind = next((words for part, words in kinds.items() if part in text), "a text")
    if name in _TIMES:
        return f"seconds, {_MINIMUMS[name]:g} or more, or a time such as 90s, 5m, 2h"
    return f"{kind} of {_MINIMUMS[name]:g} or more" if name in _MINIMUMS else kind


def _coerce(type_hint: Any, value: Any) -> Any:
    if get_origin(type_hint) is Literal:
        if value not in get_args(type_hint):
            raise ValueError(value)
        return value
    hint = str(type_hint)
    if "None" in hint and value in ("", "none"):
        return None
    if "tuple" in hint:
        return _parse_strings(value)
    if "bool" in hint:
        if isinstance(value, bool):
            return value
        booleans = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if str(value).lower() not in booleans:
            raise ValueError(value)
        return booleans[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError(value)
    if "int" in hint:
        return int(str(value).replace("_", ""))
    if "float" in hint:
        return float(value)
    return str(value)


def _parse_strings(value: Any) -> tuple[str, ...]:
    """A list of strings, or the JSON of one; the first must not be blank."""
    strings = json.loads(value) if isinstance(value, str) else value
    if not isinstance(strings, list) or not strings or not all(isinstance(item, str) for item in strings):
        raise ValueError(value)
    if not strings[0].strip() or any("\0" in item for item in strings):
        raise ValueError(value)
    return tuple(strings)
