"""Dates in the patterns of Java's `SimpleDateFormat`, as far as definitions of tables use them.

Python's formats have a directive for most letters; others are refused. Names of months and days are English.
"""

from calendar import monthrange
from datetime import datetime
from functools import lru_cache

from crawl_engine.late_regex import late_regex

_TOKEN = late_regex(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_DIRECTIVES = {
    "y": "%Y", "yy": "%y", "yyy": "%Y", "yyyy": "%Y", "Y": "%Y", "YY": "%y", "YYYY": "%Y", "u": "%u",
    "M": "%m", "MM": "%m", "MMM": "%b", "MMMM": "%B", "L": "%m", "LL": "%m", "LLL": "%b", "LLLL": "%B",
    "d": "%d", "dd": "%d", "D": "%j", "DDD": "%j", "E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A",
    "H": "%H", "HH": "%H", "h": "%I", "hh": "%I", "m": "%M", "mm": "%M", "s": "%S", "ss": "%S", "a": "%p",
    "S": "%f", "SS": "%f", "SSS": "%f", "Z": "%z", "X": "%z", "XX": "%z", "XXX": "%z", "z": "%Z",
}  # fmt: skip
_WITHOUT_ZERO = frozenset({"M", "L", "d", "H", "h", "m", "s", "D"})


class DateInvalid(ValueError):
    """A text is not a date of the pattern, or a letter of the pattern is not supported."""


@lru_cache(maxsize=256)
def _tokens(pattern: str) -> tuple[tuple[str, str], ...]:
    """The letters of a pattern, each with its directive; literal texts have an empty letter."""
    tokens: list[tuple[str, str]] = []
    position = 0
    for match in _TOKEN.finditer(pattern):
        if match.start() != position:
            break
        position = match.end()
        text = match.group(0)
        if text == "''":
            tokens.append(("", "'"))
        elif match.group(1) is not None:
            tokens.append(("", match.group(1).replace("''", "'")))
        elif match.group(2) is None:
            tokens.append(("", text))
        elif text in _DIRECTIVES:
            tokens.append((text, _DIRECTIVES[text]))
        else:
            raise DateInvalid(f"'{text}' in the date pattern '{pattern}' has no meaning here")
    if position != len(pattern):
        raise DateInvalid(f"the date pattern '{pattern}' has an open quote")
    return tuple(tokens)


def check_pattern(pattern: str) -> None:
    """Raise DateInvalid if a letter of the pattern is not supported, or a quote is open."""
    _tokens(pattern)


def parse_date(text: str, patterns: tuple[str, ...]) -> datetime:
    """The date of a text in the first pattern that fits. Raises DateInvalid."""
    for pattern in patterns:
        form = "".join(directive if letter else directive.replace("%", "%%") for letter, directive in _tokens(pattern))
        try:
            return datetime.strptime(" ".join(text.split()), form)
        except ValueError:
            continue
    raise DateInvalid(f"'{text[:60]}' is not a date of the form {' or '.join(patterns)}")


def format_date(date: datetime, pattern: str) -> str:
    """The date in a pattern. Raises DateInvalid."""
    return "".join(_format(date, letter, directive) for letter, directive in _tokens(pattern))


def roll_day(date: datetime, to: str) -> datetime:
    """The date with another day of its month: the last one (`ceil`), the first (`floor`), the nearer, or a number."""
    last = monthrange(date.year, date.month)[1]
    match to:
        case "ceil":
            day = last
        case "floor":
            day = 1
        case "round":
            day = last if date.day > last // 2 else 1
        case _:
            day = min(int(to), last)
    return date.replace(day=day)


def _format(date: datetime, letter: str, directive: str) -> str:
    if not letter:
        return directive
    if directive == "%Y":
        return f"{date.year:04d}"
    if directive == "%f":
        return f"{date.microsecond // 1000:0{len(letter)}d}"
    text = date.strftime(directive)
    return (text.lstrip("0") or "0") if letter in _WITHOUT_ZERO else text
