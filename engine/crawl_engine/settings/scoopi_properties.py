"""Reads a `scoopi.properties` beside the defs: settings by Scoopi's names and units."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from crawl_engine.errors import Problem, UsageError, find_similar
from crawl_engine.late_regex import late_regex
from crawl_engine.settings.values import parse_value

FILE_NAME = "scoopi.properties"
_PREFIX = "scoopi."
_SEPARATOR = late_regex(r"[=:\s]")
_LINE_END = late_regex(r"\r\n?|\n")
_FILE_REMEDY = "Save the file again, as text in UTF-8 or ISO 8859-1."
_INTEGER = late_regex(r"-?[0-9]+", re.ASCII)
_MAX_SHOWN = 100
_TRUE = frozenset({"true", "yes", "1"})
_Kind = Literal["value", "milliseconds", "switch", "blank"]

_KEYS: Mapping[str, tuple[str, _Kind]] = {
    "scoopi.defs.defaultSteps": ("default_steps", "value"),
    "scoopi.fact.notFound.replaceWith": ("fact_not_found", "value"),
    "scoopi.fact.blank.replaceWith": ("fact_blank", "value"),
    "scoopi.fact.replaceWith": ("fact_blank", "value"),
    "scoopi.dateTimePattern": ("date_time_pattern", "value"),
    "scoopi.runDateTimeText": ("run_time", "value"),
    "scoopi.seeder.seedRetryTimes": ("seed_retries", "value"),
    "scoopi.loader.fetch.delay": ("delay", "milliseconds"),
    "scoopi.loader.fetchDelay": ("delay", "milliseconds"),
    "scoopi.loader.fetch.parallelism": ("host_concurrency", "value"),
    "scoopi.webClient.timeout": ("deadline", "milliseconds"),
    "scoopi.webClient.userAgent": ("user_agent", "value"),
}
"""By key: the setting, and how its value is written. Of two keys for a setting the first one counts."""

_SWITCHES: Mapping[str, tuple[str, _Kind]] = {
    "scoopi.fact.blank.replace": ("fact_blank", "blank"),
    "scoopi.fact.replaceBlank": ("fact_blank", "blank"),
    "scoopi.datastore.enable": ("documents", "switch"),
    "scoopi.useDatastore": ("documents", "switch"),
    "scoopi.persist.locator": ("documents", "switch"),
}
"""Each of these entries that is not true decides its setting, without regard to the other keys."""

_IGNORED = frozenset({"scoopi.defs.dir"})
"""Keys that are answered by the command line."""

_WITHOUT_MEANING: Mapping[str, str] = {
    "scoopi.persist.data": "the rows of stored pages are extracted again",
    "scoopi.persist.dataDef": "the defs of every run are stored",
    "scoopi.defs.defaultStepsFile": "the default steps are built in; write other ones under `steps` in the defs",
    "scoopi.defs.definedSchema": "`crawl-console schema` prints the schema of the defs",
    "scoopi.defs.effectiveSchema": "`crawl-console schema` prints the schema of the defs",
    "scoopi.poolsize.*": "a page goes through all its steps in one node; set `nodes` and `concurrency`",
    "scoopi.appender.queuesize": "rows wait in the database, not in memory",
    "scoopi.webDriver.*": "`loader: browser` of a task group loads its pages by Chromium; see docs/defs/browser.md",
    "scoopi.highDate": "a stored page has no end date; `live` says how long it is used",
    "scoopi.dateParsePattern": "a converter names the patterns of the dates it reads",
    "scoopi.dateTimeParsePattern": "a converter names the patterns of the dates it reads",
    "scoopi.outputDirTimestampPattern": "the files of a run are in output/RUN of the data directory",
    "scoopi.wait": "a run waits for nothing before it starts or ends",
    "scoopi.fork.*": "set `nodes` for the number of processes",
    "scoopi.cluster.*": "nodes share one data directory",
    "scoopi.job.*": "jobs are leased to nodes, and requeued when a node dies",
    "scoopi.task.*": "jobs are leased to nodes, and requeued when a node dies",
    "scoopi.metrics.*": "the console shows the metrics, and `status --json` has them",
    "scoopi.datastore.*": "pages are stored in the data directory, --data",
    "scoopi.seeder.class": "there is one seeder",
    "scoopi.propertyPattern": "property names are fixed",
    "scoopi.mode": "there is one mode; --set changes single settings",
}
"""By key, or by pattern of keys: the reason."""


class Property(Struct, frozen=True, kw_only=True):
    """One entry. Line and column count from 1; the column is that of the value if it stands beside its key."""

    key: str
    value: str
    line: int
    key_column: int
    column: int


class ScoopiValue(Struct, frozen=True, kw_only=True):
    """The value of a setting as it is written in the file."""

    key: str
    text: str
    kind: _Kind
    place: str

    def parse(self, setting: str, hint: Any) -> Any:
        """The value of a setting; `hint`: its type. Raises UsageError with the place in the file."""
        try:
            match self.kind:
                case "milliseconds":
                    return parse_value(setting, hint, _seconds(self.text), typed=False)
                case "switch" | "blank":
                    enabled = parse_value(setting, bool, self.text, typed=False)
                    return enabled if self.kind == "switch" else ""
                case "value":
                    return parse_value(setting, hint, self.text, typed=False)
        except ValueError:
            remedy = "Use a number of milliseconds, such as 30000."
        except UsageError as error:
            remedy = error.remedy
            if self.kind == "milliseconds":
                limits = error.remedy.removeprefix("Use ").partition(", or a time")[0]
                remedy = f"Use a number of milliseconds, such as 30000. It is the setting {setting}: {limits}."
        raise UsageError(f"{self.place}: {self.key} cannot be {self.text[:_MAX_SHOWN]!r}", remedy)


class ScoopiProperties(Struct, frozen=True, kw_only=True):
    """The contents of a file: values by setting, and warnings of entries without effect."""

    values: Mapping[str, ScoopiValue]
    warnings: tuple[Problem, ...]


def read_scoopi_properties(defs: Path, folder: Path = Path()) -> ScoopiProperties:
    """The file in the directory of the defs, else in `folder` if that is the directory above. `folder` has crawl.toml.

    Raises UsageError on a file that cannot be read. Values are checked when they are used.
    """
    paths = _list_files(defs, folder)
    if not paths:
        return ScoopiProperties(values={}, warnings=())
    path, *others = paths
    warnings = [_warn(other, None, "unread-file", f"not read: {path} is nearer to the defs") for other in others]
    values: dict[str, ScoopiValue] = {}
    entries = [entry for entry in read_properties(path) if entry.key.startswith(_PREFIX)]
    last = {entry.key: entry for entry in entries}
    for entry in entries:
        if last[entry.key] is not entry:
            text = f"`{entry.key}` is written again in line {last[entry.key].line}, which counts"
            warnings.append(_warn(path, entry, "duplicate-key", text))
    chosen, unused = _choose(last)
    for setting, (kind, entry) in chosen.items():
        place = f"{path}:{entry.line}:{entry.column}"
        values[setting] = ScoopiValue(key=entry.key, text=entry.value, kind=kind, place=place)
    warnings += [
        _warn(path, entry, "no-effect", f"`{entry.key}` has no effect: `{other.key}` is given")
        for entry, other in unused
    ]
    warnings += _find_meaningless(path, last.values())
    return ScoopiProperties(values=values, warnings=tuple(sorted(warnings, key=lambda w: (w.file, w.line))))


def _list_files(defs: Path, folder: Path) -> list[Path]:
    # the functions of os.path raise nothing where a directory may not be searched: loading the defs reports that
    beside = defs if os.path.isdir(defs) else defs.parent  # noqa: PTH112
    folders = [beside]
    if os.path.dirname(os.path.realpath(beside)) == os.path.realpath(folder):  # noqa: PTH120
        folders.append(folder)
    return [path for each in folders if os.path.exists(path := each / FILE_NAME)]  # noqa: PTH110


def _choose(
    entries: Mapping[str, Property],
) -> tuple[dict[str, tuple[_Kind, Property]], list[tuple[Property, Property]]]:
    """By setting the entry that decides it; and the entries without effect, each with the one that has it."""
    chosen: dict[str, tuple[_Kind, Property]] = {}
    unused: list[tuple[Property, Property]] = []
    for key, (setting, kind) in _SWITCHES.items():
        entry = entries.get(key)
        if entry is not None and entry.value.lower() not in _TRUE:
            chosen.setdefault(setting, (kind, entry))
    for key, (setting, kind) in _KEYS.items():
        entry = entries.get(key)
        if entry is None:
            continue
        if setting in chosen:
            unused.append((entry, chosen[setting][1]))
        else:
            chosen[setting] = (kind, entry)
    return chosen, unused


def _find_meaningless(path: Path, entries: Iterable[Property]) -> Iterator[Problem]:
    """A warning for each key that has no meaning here, or is unknown."""
    for entry in entries:
        key = entry.key
        if key in _KEYS or key in _SWITCHES or key in _IGNORED:
            continue
        reason = next((reason for name, reason in _WITHOUT_MEANING.items() if fnmatchcase(key, name)), None)
        if reason is not None:
            yield _warn(path, entry, "no-meaning", f"`{key}` has no meaning here: {reason}")
            continue
        names = [name.removeprefix(_PREFIX) for name in (*_KEYS, *_SWITCHES, *_WITHOUT_MEANING) if "*" not in name]
        similar = find_similar(key.removeprefix(_PREFIX), names)
        suggestion = f" (did you mean '{_PREFIX}{similar}'?)" if similar else ""
        yield _warn(path, entry, "unknown-key", f"unknown key {key[:_MAX_SHOWN]!r}{suggestion}")


def _warn(path: Path, entry: Property | None, code: str, message: str) -> Problem:
    line, column = (1, 1) if entry is None else (entry.line, entry.key_column)
    return Problem(file=str(path), line=line, column=column, code=code, message=message, warning=True)


def _seconds(text: str) -> float:
    """Raises ValueError where the text is no number of milliseconds."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    return float(text) / 1000


def read_properties(path: Path) -> list[Property]:
    """The entries of a file in order; empty if it does not exist.

    Raises UsageError on a file that cannot be read or is damaged, such as one that is being saved.
    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "Fix the file, or delete it.") from error
    text = _decode(content)
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UsageError(f"{path}:{line}:1: not text: a NUL byte", _FILE_REMEDY)
    return list(_parse_properties(path, text))


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")  # the encoding of the format; it decodes any bytes


def _parse_properties(path: Path, text: str) -> Iterator[Property]:
    from javaproperties import InvalidUEscapeError, KeyValue, parse  # most commands read no such file

    line = 1
    try:
        for element in parse(text):
            if isinstance(element, KeyValue):
                yield _locate(path, element.key, element.value, element.source, line)
            line += len(_LINE_END.findall(element.source))
    except InvalidUEscapeError as error:
        rest = _LINE_END.split(text)[line - 1 :]
        offset = next((number for number, each in enumerate(rest) if error.escape in each), 0)
        shown = "".join(letter if letter.isprintable() else "?" for letter in error.escape)
        column = max(0, rest[offset].find(error.escape)) + 1
        raise UsageError(
            f"{path}:{line + offset}:{column}: '{shown}' is not a character",
            r"Write \u and four hexadecimal digits, or \\ for a backslash.",
        ) from None


def _locate(path: Path, key: str, value: str, source: str, line: int) -> Property:
    """An entry with its place. Raises UsageError where the file ends or breaks off in it."""
    lines = _LINE_END.split(source)
    key_column = len(lines[0]) - len(lines[0].lstrip(" \t\f")) + 1
    if not value and not _SEPARATOR.search(source.strip()):
        raise UsageError(f"{path}:{line}:{key_column}: {key[:60]!r} has no value", "Write KEY=VALUE, or remove it.")
    if (len(source) - len(source.rstrip("\\"))) % 2:
        raise UsageError(
            f"{path}:{line + len(lines) - 1}:{len(lines[-1])}: the file ends in the middle of {key[:60]!r}",
            "Save the file again, or remove the backslash at its end.",
        )
    position = lines[0].find(value, key_column - 1 + len(key)) if value else -1
    return Property(
        key=key,
        value=value.strip(),
        line=line,
        key_column=key_column,
        column=position + 1 if position >= 0 else key_column,
    )
