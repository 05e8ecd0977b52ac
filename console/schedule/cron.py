"""An entry of crontab: the mark as a comment, and one line with lock, log and mail of failures."""

import shutil
import subprocess
from collections.abc import Iterator
from shlex import quote

from console.schedule.schedule import (
    ENVIRONMENT_FILE,
    MARK,
    QUIET_CODES,
    KnownSchedule,
    Schedule,
    check_ours,
    read_mark,
)
from engine.errors import StorageError, UsageError

_SECONDS = 30.0
_OVERLAP = 4
_SHOWN_LINES = 20
"""Lines of the log in the mail."""


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
    lines = _read().splitlines()
    start = next((at for at, line in enumerate(lines) if _is_of(line, schedule.name)), None)
    if start is None:
        start = len(lines)
    else:
        check_ours(schedule, lines[start], "crontab")
        del lines[start : start + 2]
    lines[start:start] = render(schedule).splitlines()
    _call(["-"], "\n".join(lines) + "\n")
    return ["remove it: crontab -e, and delete its two lines"]


def list_installed() -> Iterator[KnownSchedule]:
    """The schedules in the crontab of this user; none where there is no cron."""
    if shutil.which("crontab") is None:
        return
    for line in _read().splitlines():
        if (known := read_mark(line, "crontab")) is not None:
            yield known


def _is_of(line: str, name: str) -> bool:
    known = read_mark(line, "crontab") if line.startswith(MARK) else None
    return known is not None and known.name == name


def _read() -> str:
    """The crontab of this user; empty without one. Raises UsageError, StorageError."""
    done = _call(["-l"])
    if done.returncode and "no crontab" not in done.stderr:
        raise StorageError(f"crontab -l: {done.stderr.strip()}", "Check that this user may use cron.")
    return "" if done.returncode else done.stdout


def _call(words: list[str], text: str | None = None) -> "subprocess.CompletedProcess[str]":
    try:
        done = subprocess.run(
            ["crontab", *words], input=text, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise UsageError("cron is not installed here: there is no crontab", "Use --systemd, or --print.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageError(f"crontab: {error}", "Use --print, and add the lines by crontab -e.") from error
    if text is not None and done.returncode:
        raise StorageError(f"crontab: {done.stderr.strip()}; nothing was changed", "Check that this user may use cron.")
    return done
