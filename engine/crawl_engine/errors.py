"""Errors for users: each says what happened, where, and what to do next."""

from msgspec import Struct

_FORMER_NAMES = ("engine", "console")
_MAX_LINE_LENGTH = 200
_SIBILANTS = ("s", "x", "ch", "sh")


class CrawlError(Exception):
    """Base of all errors shown to a user. `exit_code` is the exit code of the program."""

    exit_code = 3

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message


def reason_of(error: Exception) -> str:
    """What the system says of an error, else its text."""
    return getattr(error, "strerror", None) or str(error)


class UsageError(CrawlError):
    """The command line or a setting is invalid."""

    exit_code = 2


class Problem(Struct, frozen=True, kw_only=True):
    """One mistake in the defs. `line` and `column` count from 1."""

    file: str
    line: int
    column: int
    code: str
    """A short, stable, hyphenated word: `unknown-key`, `bad-selector`, …"""
    message: str
    warning: bool = False

    def __str__(self) -> str:
        kind = "warning " if self.warning else ""
        return f"{self.file}:{self.line}:{self.column}: {kind}{self.code} {self.message}"


class DefsError(CrawlError):
    """The defs are invalid. Holds every problem, in file order."""

    exit_code = 2

    def __init__(self, problems: list[Problem], *, command: str = "check") -> None:
        """`command`: the one that finds them again."""
        count = sum(not p.warning for p in problems)
        super().__init__(
            "\n".join(map(str, problems)),
            f"{plural(count, 'problem')}; nothing was started or changed. "
            f"Fix the lines above and run `crawl-console {command}` again.",
        )
        self.problems = problems


class SupervisorNotRunning(CrawlError):
    """A command needs a running supervisor."""

    exit_code = 2


class PageUnavailable(CrawlError):
    """A page cannot be fetched or read, or its content is not a page."""

    exit_code = 1


class LockHeld(CrawlError):
    """Another supervisor holds the data dir."""

    exit_code = 4


class StorageError(CrawlError):
    """A database or the data dir cannot be read or written."""

    exit_code = 3


class Fenced(CrawlError):
    """This process was replaced: its epoch is over, and it may write nothing more."""

    exit_code = 3


def find_similar(name: str, choices: list[str]) -> str | None:
    """The valid name that is most like another one; None if none is."""
    from difflib import get_close_matches  # rarely needed, and every command would pay for the import

    close = get_close_matches(name, choices, n=1, cutoff=0.6)
    return close[0] if close else None


def suggest(name: str, choices: list[str]) -> str:
    """` (did you mean 'x'?)` with the closest valid name, else the valid names if they are few, else nothing."""
    similar = find_similar(name, choices)
    if similar is not None:
        return f" (did you mean '{similar}'?)"
    if choices and len(choices) <= 12:
        return f" (choose from {', '.join(sorted(choices))})"
    return ""


def plural(number: int, noun: str) -> str:
    """`1 job`, `12 jobs`, `2 matches`, `3 retries`."""
    if number == 1:
        return f"1 {noun}"
    shown = f"{number:,}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{shown} {noun[:-1]}ies"
    return f"{shown} {noun}{'es' if noun.endswith(_SIBILANTS) else 's'}"


def megabytes(number: float) -> str:
    """Bytes as `1,234.5 MB`."""
    return f"{number / 1e6:,.1f} MB"


def one_line(text: str) -> str:
    """The text on one line, safe to show: unprintable characters as `?`, at most 200 characters."""
    words = " ".join(text.split())
    if not words.isprintable():
        words = "".join(c if c.isprintable() else "?" for c in words)
    return words if len(words) <= _MAX_LINE_LENGTH else words[: _MAX_LINE_LENGTH - 1] + "…"


def tell_new_name(error: BaseException) -> str:
    """`: the package engine is crawl_engine now` if an import of it failed, else empty."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return f": the package {name} is crawl_{name} now" if name in _FORMER_NAMES else ""


def quote_text(text: str) -> str:
    """A text quoted and escaped for a message, at most 60 characters."""
    return repr(text if len(text) <= 60 else text[:59] + "…")
