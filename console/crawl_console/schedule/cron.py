"""An entry of crontab: the mark as a comment, and one line with lock, log and mail of failures."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from crawl_console.schedule.schedule import (
    ENVIRONMENT_FILE,
    MARK,
    QUIET_CODES,
    KnownSchedule,
    Schedule,
    check_ours,
    read_mark,
)
from crawl_engine.errors import StorageError, UsageError
from crawl_engine.runtime.private_file import open_private
from crawl_engine.runtime.user_folder import state_folder

SEARCH_PATH = "/usr/bin:/bin"
"""The PATH that cron gives to a command."""
_SECONDS = 30.0
_OVERLAP = 4
_SHOWN_LINES = 20
"""Lines of the log in the mail."""
_COMMAND = re.compile(r"(?:\S+ ){5}cd .*schedule\.log", re.DOTALL)
"""The start of the line below a mark, if it still stands there."""


def render(schedule: Schedule) -> str:
    """The two lines. cron mails what the line prints: only failures do."""
    folder, log = quote(str(schedule.folder)), quote(str(schedule.log))
    logs = quote(str(schedule.log.parent))
    program = " ".join(map(quote, schedule.command))
    if shutil.which("flock") is not None:  # without it, the crawl's own lock ends the second start with the same code
        program = f"flock -n -E {_OVERLAP} {quote(str(schedule.log.with_suffix('.lock')))} {program}"
    quiet = "|".join(["0", *map(str, QUIET_CODES)])
    failure = f"echo {quote(f'crawl {schedule.name}: exit code')} $code, see {log}; tail -n {_SHOWN_LINES} {log}"
    command = (
        f"cd {folder} && (umask 077; mkdir -p {logs}) && set -a && {{ [ ! -f {ENVIRONMENT_FILE} ] ||"
        f" . ./{ENVIRONMENT_FILE}; }} && set +a && {program} >>{log} 2>&1;"
        f" code=$?; case $code in {quiet}) ;; *) {failure};; esac"
    )
    line = command.replace("%", r"\%")  # cron reads a bare % as the end of the command
    return f"{schedule.mark}\n{schedule.times.cron} {line}\n"


def install(schedule: Schedule) -> list[str]:
    """Put the entry into the crontab of this user; returns notes for the user. Raises UsageError, StorageError."""
    before = _read()
    lines = before.removesuffix("\n").split("\n") if before else []
    start = next((at for at, line in enumerate(lines) if _is_of(line, schedule.name)), len(lines))
    if start < len(lines):
        check_ours(schedule, lines[start], "crontab")
        has_command = _COMMAND.match("".join(lines[start + 1 : start + 2])) is not None
        del lines[start : start + 1 + has_command]
    lines[start:start] = render(schedule).removesuffix("\n").split("\n")
    notes = ["remove it: crontab -e, and delete its two lines"]
    if before:
        notes.append(f"the crontab of before is in {_keep(before)}")
    _call(["-"], "\n".join(lines) + "\n")
    return notes


def _keep(text: str) -> Path:
    """Write the crontab of before into a file of this user; returns its path. Raises StorageError."""
    try:
        path = state_folder() / "crontab.before"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(open_private(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            file.write(os.fsencode(text))
    except OSError as error:
        raise StorageError(
            f"crontab: its copy cannot be written: {error.strerror}; nothing was changed",
            "Use --print, and add the lines by crontab -e.",
        ) from error
    return path


def list_installed() -> Iterator[KnownSchedule]:
    """The schedules in the crontab of this user; none where there is no cron."""
    if shutil.which("crontab") is None:
        return
    for line in _read().split("\n"):
        if (known := read_mark(line, "crontab")) is not None:
            yield known


def _is_of(line: str, name: str) -> bool:
    known = read_mark(line, "crontab") if line.startswith(MARK) else None
    return known is not None and known.name == name


def _read() -> str:
    """The crontab of this user; empty without one. Raises UsageError, StorageError."""
    done = _call(["-l"])
    said = os.fsdecode(done.stderr).strip()
    if done.returncode and "no crontab" not in said:
        raise StorageError(f"crontab -l: {said}", "Check that this user may use cron.")
    return "" if done.returncode else os.fsdecode(done.stdout)


def _call(words: list[str], text: str | None = None) -> "subprocess.CompletedProcess[bytes]":
    given = None if text is None else os.fsencode(text)  # as bytes: no line end of the user's is changed
    try:
        done = subprocess.run(["crontab", *words], input=given, capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise UsageError("cron is not installed here: there is no crontab", "Use --systemd, or --print.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageError(f"crontab: {error}", "Use --print, and add the lines by crontab -e.") from error
    if text is not None and done.returncode:
        said = os.fsdecode(done.stderr).strip()
        raise StorageError(f"crontab: {said}; nothing was changed", "Check that this user may use cron.")
    return done
