"""Notes doubts about texts of numbers: digits of several elements, and what `match` leaves."""

from typing import TYPE_CHECKING

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import Edit, reader_of
from crawl_engine.extract.page.patterns import TimedPattern
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.node_value import BOUNDARY, RAISED
from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import Field

if TYPE_CHECKING:
    import regex

_NUMBER = late_regex(r"[+-]?\d[\d.,' ]*|[.,]\d+")
_JOINT = late_regex(r"(?<=\d)(?:[.,'\u2019\u066b\u066c]| (?=\d{3}(?!\d)))?(?=\d)")
"""Between two parts of a number: a mark, a blank before a group of three digits, or nothing."""
_TAGS = late_regex(f"[{BOUNDARY}{RAISED}]+")
_JOIN = late_regex(f"(?<=[0-9])[{BOUNDARY}{RAISED}]+(?=[0-9])")
_CENTS = late_regex(
    rf"(?<![.,][0-9])(?<![.,][0-9]{{2}})(?<=[0-9]){BOUNDARY}*{RAISED}[{BOUNDARY}{RAISED}]*([0-9]{{2}})"
    rf"(?= ?(?:[€$£₹]|[A-Z]{{3}}|zł|Kč|kr)?{BOUNDARY}*{RAISED}(?![{BOUNDARY}{RAISED}]*[.,]?[0-9]))"
)
"""Two digits in a `sup` or `small`, directly behind a number without decimals."""
_WITHOUT_CENTS = late_regex(
    r"[¥￥円원₩₫đ₲₡]|(?<![^\W\d_])(?:JPY|KRW|VND|CLP|ISK|PYG|UGX|XAF|XOF|XPF|RWF|KMF|GNF|DJF|BIF|VUV|F?CFA|HUF|Ft|IDR|Rp"
    r"|TWD|NT\$|KWD|BHD|OMR|JOD|TND|IQD|LYD|KD|BD|JD|DT)(?![^\W\d_])"
)
"""Currencies whose amounts have no two decimals."""
_CURRENCY = late_regex(r"[$€£₹₽₺₴₪]|[A-Z]{3}|(?<![^\W\d_])(?:zł|Kč|kr|lei|лв|руб|грн|Fr|Rs)(?![^\W\d_])")
_DIGITS = late_regex(r"[0-9](?:[0-9.,]*[0-9])?")
_LETTERS = frozenset("kKM")
_MAGNITUDE_ADVICE = "take it too, with `magnitudes: true` or `type: price`, or name it in the pattern"


def join_step(clean: Edit, field: Field, path: str) -> Edit:
    """Makes one text of what the elements of a number show, then cleans it; raised cents of a price get their mark."""
    is_edited = bool(field.replace or field.convert or field.match or field.split or field.decode)
    has_cents = reader_of(field.type).digits == "amount" and not is_edited

    def join(text: str, reading: PageReading) -> str:
        joined = _TAGS.sub("", text)
        joints = _JOIN.findall(text)
        if not joints:
            return joined
        read_as = f"is read as {quote_text(' '.join(joined.split()))}"
        if has_cents and len(joints) == 1 and (cents := _CENTS.search(text)) and not _WITHOUT_CENTS.search(joined):
            before = _TAGS.sub("", text[: cents.start()])
            joined = f"{before}{_decimal_mark(field, before)}{cents[1]}{_TAGS.sub('', text[cents.end() :])}"
            if _CURRENCY.search(joined):
                return joined
            read_as = f"is read as {quote_text(' '.join(joined.split()))}, with cents, though it names no currency"
        shown = quote_text(" ".join(_TAGS.sub("|", text).split()).strip("|"))
        reading.warn(
            path,
            "digits-joined",
            f"{reading.data_def}.{path}: a number that several elements show ({shown}) {read_as}; select one of them,"
            " or write how they belong together, such as `xpath: concat(b, '.', sup)`",
        )
        return joined

    def join_and_clean(text: str, reading: PageReading) -> str:
        is_marked = not text.isascii() and (BOUNDARY in text or RAISED in text)
        return clean(join(text, reading) if is_marked else text, reading)

    return join_and_clean


def _decimal_mark(field: Field, before: str) -> str:
    return field.decimal_mark or ("," if "." in before and "," not in before else ".")


def match_step(pattern: TimedPattern, field: Field, path: str) -> Edit:
    """Takes what `match` finds; of a number, notes what it leaves beside it."""
    digits = reader_of(field.type).digits
    if digits == "none":
        return lambda text, reading: pattern.find(text, reading.time_budget) or ""

    def find_number(text: str, reading: PageReading) -> str:
        match = pattern.search(text, reading.time_budget)
        if match is None:
            return ""
        value: str = match[1 if pattern.compiled.groups else 0] or ""
        if not _NUMBER.fullmatch(value):
            return value
        taken = f"{reading.data_def}.{path}: `match` takes {quote_text(value)} of {quote_text(text)} and leaves"
        if _leaves_digits(match, is_text=digits == "text"):
            reading.warn(
                path,
                "digits-left",
                f"{taken} digits beside it; write a pattern for the whole number, with `groupMark`, or `type: price`"
                " without `match`",
            )
        elif match[0][-1:].isdigit() and (word := _magnitude_at(text, match.end())):
            reading.warn(path, "magnitude-left", f"{taken} `{word}`; {_MAGNITUDE_ADVICE}")
        return value

    return find_number


def watch_replacement(replace: Edit, pattern: str, field: Field, path: str) -> Edit:
    """Notes a magnitude that a pattern removes without naming it, such as `[^0-9.]`."""
    if not reader_of(field.type).is_number or not ("[^" in pattern or "\\D" in pattern):
        return replace

    def replace_watched(text: str, reading: PageReading) -> str:
        replaced = replace(text, reading)
        if replaced != text and _NUMBER.fullmatch(replaced.strip()):
            number = _DIGITS.search(text)
            if number is not None and (word := _magnitude_at(text, number.end())):
                taken = f"`replace` leaves {quote_text(replaced.strip())} of {quote_text(text)}, without `{word}`"
                reading.warn(path, "magnitude-left", f"{reading.data_def}.{path}: {taken}; {_MAGNITUDE_ADVICE}")
        return replaced

    return replace_watched


def _magnitude_at(text: str, at: int) -> str:
    """The word of magnitude directly behind a number; a letter that stands apart may be a unit, and is none."""
    if not _is_word_at(text, at):
        return ""
    from crawl_engine.extract.fields.magnitudes import find_magnitude  # few numbers have a word behind them

    magnitude = find_magnitude(text, at)
    if magnitude is None or (magnitude.letter and (magnitude.is_apart or magnitude.letter not in _LETTERS)):
        return ""
    return text[at : magnitude.end].strip()


def _is_word_at(text: str, at: int) -> bool:
    return text[at : at + 2].lstrip(" -")[:1].isalpha()


def _leaves_digits(match: "regex.Match[str]", *, is_text: bool) -> bool:
    """Whether a number continues before or behind the match. A pattern that names a mark, or cuts a text, means it."""
    text, whole, start, end = match.string, match[0], match.start(), match.end()
    return any(
        ((joint.end() == start and whole[:1].isdigit()) or (joint.start() == end and whole[-1:].isdigit()))
        and not (is_text and joint.start() == joint.end())
        for joint in _JOINT.finditer(text, max(0, start - 1), end + 5)
    )
