"""One schedule: what starts, where and when, and the mark by which its files are known as ours."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from crawl_console.sanitize import clean
from crawl_console.schedule.times import Times, parse_times
from crawl_engine.errors import StorageError, UsageError

MARK = "# crawl-console schedule "
"""The start of the first line of each file and entry; the rest of the line is a JSON object."""
ENVIRONMENT_FILE = "crawl.env"
"""Variables of a scheduled crawl, beside crawl.toml: lines NAME=VALUE."""
QUIET_CODES: Mapping[int, str] = {
    4: "another run holds the data directory",
    130: "cancelled by SIGINT",
    137: "killed by an operator",
    143: "cancelled by SIGTERM or `cancel`",
}
"""Exit codes besides 0 that are no failure of a schedule."""
_SETS_PATH = re.compile(r"^\s*(?:export\s+)?PATH=", re.MULTILINE)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)


class Schedule(Struct, frozen=True, kw_only=True):
    """Paths are absolute. `folder`: where it starts, with its crawl.toml."""

    name: str
    times: Times
    folder: Path
    data: Path
    defs: Path
    program: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Further words of `run`."""
    writable: tuple[Path, ...] = ()
    """Folders outside `folder` and `data` that the crawl writes to."""
    has_loaders: bool = False
    """Whether pages are loaded by a browser or by code of the user, which need more of the system."""
    stop_seconds: float = 28.0

    @property
    def command(self) -> list[str]:
        """The words that start the crawl."""
        places = ["--defs", str(self.defs), "--data", str(self.data)]
        return [*self.program, "run", "--no-ui", *places, *self.options]

    @property
    def mark(self) -> str:
        """The first line of what is ours."""
        known = {"name": self.name, "at": str(self.times), "folder": str(self.folder), "data": str(self.data)}
        return MARK + json.dumps(known)

    @property
    def log(self) -> Path:
        return self.data / "logs" / "schedule.log"


class KnownSchedule(Struct, frozen=True):
    """What the mark of an installed schedule says. `place`: its file, or `crontab`."""

    name: str
    times: Times
    folder: str
    data: Path
    place: str


def check_name(name: str) -> str:
    """The name, which becomes a part of file names. Raises UsageError."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"schedule {name!r}: not a name", "Use up to 40 lower-case letters, digits and -, such as shop-prices."
        )
    return name


def check_words(words: Sequence[str]) -> None:
    """Raise UsageError for a word that no line of a unit or crontab can hold, or that no terminal can show."""
    for word in words:
        if clean(word) != word:
            raise UsageError(
                f"{word!a}: a line break, or a character that is not seen",
                "Name files and values with visible characters alone.",
            )


def find_program() -> tuple[str, ...]:
    """The program of this Python environment, by its absolute path."""
    program = Path(sys.executable).absolute().with_name("crawl-console")
    return (str(program),) if program.is_file() else (str(Path(sys.executable).absolute()), "-m", "crawl_console")


def check_commands(schedule: Schedule, commands: Mapping[str, Sequence[str] | None], path: str) -> None:
    """Raise UsageError for the program of a setting that the scheduled crawl would not find. `path`: its PATH.

    Nothing is checked where crawl.env sets another PATH.
    """
    if _SETS_PATH.search(read_text(schedule.folder / ENVIRONMENT_FILE) or ""):
        return
    for setting, command in commands.items():
        if command and shutil.which(command[0], path=f"{path}:{Path(schedule.program[0]).parent}") is None:
            raise UsageError(
                f"{setting}: the scheduled crawl does not find '{command[0]}', since its PATH is {path}",
                f"Write the absolute path of the program, or PATH=… into {ENVIRONMENT_FILE}.",
            )


def read_mark(text: str, place: str) -> KnownSchedule | None:
    """The schedule that the first line of a text names; None: it is not ours, or names none."""
    first = text.partition("\n")[0]
    if not first.startswith(MARK):
        return None
    try:
        known = json.loads(first.removeprefix(MARK))
        return KnownSchedule(known["name"], parse_times(known["at"]), known["folder"], Path(known["data"]), place)
    except (ValueError, KeyError, TypeError, UsageError):
        return None


def check_ours(schedule: Schedule, text: str, place: str) -> None:
    """Raise UsageError if a text that is to be replaced is of somebody else, or of another project."""
    if not text.startswith(MARK):
        raise UsageError(
            f"{place}: exists, and `crawl-console schedule` did not write it; nothing was changed",
            "Choose another NAME, or move the file away.",
        )
    known = read_mark(text, place)
    if known is not None and known.folder != str(schedule.folder):
        raise UsageError(
            f"{place}: the schedule '{known.name}' is of {known.folder}; nothing was changed", "Choose another NAME."
        )


def read_text(path: Path) -> str | None:
    """The text of a file; None without one. Raises StorageError."""
    try:
        return path.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _storage_error(path, error) from error


def write_files(files: Mapping[Path, str]) -> None:
    """Write files, each whole or not at all. Raises StorageError."""
    for path, text in files.items():
        new = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(text, "utf-8")
            os.replace(new, path)  # noqa: PTH105 - one call for both paths
        except OSError as error:
            raise _storage_error(path, error) from error


def _storage_error(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path}: {error.strerror}", "Check its permissions, or use --print.")
