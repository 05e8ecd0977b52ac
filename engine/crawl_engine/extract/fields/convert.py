"""Converts the text of a field to its type, strictly."""

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson

from crawl_engine import urls
from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.human_dates import ANY_FORMAT, is_locale_selector
from crawl_engine.model.definition import Field

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")
_TRUE_WORDS = frozenset(("true", "yes", "1"))
_FALSE_WORDS = frozenset(("false", "no", "0"))
_TO_LAST_DIGIT = re.compile(r".*[0-9]\.?")
_TIME_OF_DAY = re.compile(r"%[HIMSfpXcZz]")

_INT_BITS = 63
_MAX_NUMBER_DIGITS = 1_000
_MAX_DATE_LENGTH = 100
_MAX_JSON_DEPTH = 200

Converter = Callable[[str, str], Any]
"""Takes a text and the page's base URL, returns the value. Raises `ValueError` with the reason."""


def converter_for(field: Field) -> Converter:
    """The converter for a field's type.

    `str` keeps the text, as does `markdown`, which is converted before. Integers have 64 bits, floats are finite,
    decimals keep their digits; thousands separators are rejected unless the field names them. A price is an object of
    amount and currency. Dates become ISO 8601, with a time where the text or the format has one; those of the format
    `any` are read by `HumanDates`, and here, as defaults, must be ISO 8601.
    """
    if field.type == "price":
        from crawl_engine.extract.fields.prices import PriceReader  # few fields are prices

        reader, languages = PriceReader(field.decimal_mark, field.group_mark), _languages_of(field)
        return lambda text, _base: reader.read(text, languages).value
    if field.magnitudes:
        shortened, languages = shortened_converter(field), _languages_of(field)
        return lambda text, _base: shortened(text, languages)
    if field.decimal_mark is not None or field.group_mark is not None:
        return _marked_converter(_CONVERTERS[field.type], field.decimal_mark or ".", field.group_mark)
    if field.type == "date" and field.format not in (None, ANY_FORMAT):
        return _date_converter(field.format)
    if field.type == "bool" and field.match is not None:
        return lambda _text, _base: True
    return _CONVERTERS[field.type]


def _languages_of(field: Field) -> tuple[str, ...]:
    """The languages that its `locale` names; not those that stand in a page."""
    from crawl_engine.extract.fields.magnitudes import language_of

    return tuple([language_of(locale) for locale in field.locales if not is_locale_selector(locale)])


def default_converter_for(field: Field) -> Converter:
    """The converter for a default or a value of `map`: as `converter_for`, but a bool is read from its words.

    A number is written with a point in any case: YAML reads it as a number.
    """
    if field.type in ("bool", "int", "float", "decimal"):
        return _CONVERTERS[field.type]
    return converter_for(field)


def _str(text: str, _base: str) -> str:
    return text


def _int(text: str, _base: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{quote_text(text)} is not a whole number")
    number = int(text) if len(text) <= 2 * _INT_BITS else None
    if number is None or not -(2**_INT_BITS) <= number < 2**_INT_BITS:
        raise ValueError(f"{quote_text(text)} does not fit in 64 bits; use `type: decimal`")
    return number


def _float(text: str, _base: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{quote_text(text)} is not a number")
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{quote_text(text)} is too large for a float")
    return number


def _decimal(text: str, _base: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{quote_text(text)} is not a number")
    number = Decimal(text)
    if len(text) > _MAX_NUMBER_DIGITS or _exceeds_exponent(text, number):
        raise ValueError(f"{quote_text(text)} has more than {_MAX_NUMBER_DIGITS} digits")
    return number


def _exceeds_exponent(text: str, number: Decimal) -> bool:
    """Whether the number has too many digits without its exponent: `1e999999` would take a megabyte."""
    if "e" not in text and "E" not in text:  # short exponents: the number is as long as its text
        return False
    exponent = number.as_tuple().exponent
    return not isinstance(exponent, int) or abs(exponent) > _MAX_NUMBER_DIGITS


def _marked_converter(convert: Converter, decimal_mark: str, group_mark: str | None) -> Converter:
    """Converts numbers written with these marks. Groups have three digits; in India, two before the last."""
    group = "" if group_mark is None else _mark_pattern(group_mark)
    grouped = f"[0-9]{{1,3}}(?:{group}[0-9]{{2,3}})*{group}[0-9]{{3}}|" if group else ""
    mark = _mark_pattern(decimal_mark)
    number = re.compile(rf"([+-]?)((?:{grouped}[0-9]+)?)(?:{mark}([0-9]*))?((?:[eE][+-]?[0-9]{{1,6}})?)")
    described = f"the decimal mark '{decimal_mark}'" + (f" and the group mark '{group_mark}'" if group else "")

    def convert_marked(text: str, base: str) -> Any:
        match = number.fullmatch(text) if len(text) <= 2 * _MAX_NUMBER_DIGITS else None
        if match is None:
            raise ValueError(f"{quote_text(text)} is not a number with {described}")
        sign, whole, decimals, exponent = match.groups()
        digits = re.sub("[^0-9]", "", whole)
        return convert(f"{sign}{digits}{'' if decimals is None else '.' + decimals}{exponent}", base)

    return convert_marked


def shortened_converter(field: Field) -> Callable[[str, Collection[str]], Any]:
    """Converts numbers that a word of magnitude may follow, such as `15.5k`; by the languages of the text."""
    from crawl_engine.extract.fields.magnitudes import count_exponent, find_magnitude  # few fields read such words

    marks = field.decimal_mark or ".", field.group_mark
    convert, read_decimal = _CONVERTERS[field.type], _marked_converter(_decimal, *marks)
    convert_plain = convert if marks == (".", None) else _marked_converter(convert, *marks)

    def convert_shortened(text: str, languages: Collection[str]) -> Any:
        number = _TO_LAST_DIGIT.match(text)
        if number is None or number.end() == len(text):
            return convert_plain(text, "")
        magnitude = find_magnitude(text, number.end(), languages)
        if magnitude is not None and magnitude.problem:
            raise ValueError(f"{quote_text(text)}: {magnitude.problem}")
        exponent = None if magnitude is None or magnitude.end != len(text) else count_exponent(magnitude, languages)
        if exponent is None:
            raise ValueError(f"{quote_text(text)} is not a number with a word of magnitude")
        try:
            sign, digits, power = read_decimal(number[0], "").as_tuple()
            return convert(f"{Decimal((sign, digits, int(power) + exponent)):f}", "")
        except ValueError as error:
            raise ValueError(f"{quote_text(text)}: {error}") from None

    return convert_shortened


def _mark_pattern(mark: str) -> str:
    """The pattern of a mark. A blank matches any white space: normalizing turns no-break spaces into blanks."""
    return r"\s" if mark.isspace() else re.escape(mark)


def _bool(text: str, _base: str) -> bool:
    word = text.lower()
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ValueError(f"{quote_text(text)} is not true, yes, 1, false, no or 0; define what counts as true with `match`")


def _date(text: str, _base: str) -> str:
    _check_date_length(text)
    from dateutil.parser import isoparser  # defs without dates do not load it

    parser = isoparser()
    try:
        return parser.parse_isodate(text).isoformat()
    except ValueError:
        pass
    try:
        return parser.isoparse(text).isoformat()
    except (ValueError, OverflowError):
        raise ValueError(f"{quote_text(text)} is not an ISO 8601 date; use `format` for other forms") from None


def _date_converter(date_format: str) -> Converter:
    has_time = _TIME_OF_DAY.search(date_format.replace("%%", "")) is not None

    def convert(text: str, _base: str) -> str:
        _check_date_length(text)
        try:
            moment = datetime.strptime(text, date_format)
        except (ValueError, OverflowError, LookupError, re.error):
            raise ValueError(f"{quote_text(text)} does not match the date format {quote_text(date_format)}") from None
        return moment.isoformat() if has_time else moment.date().isoformat()

    return convert


def _check_date_length(text: str) -> None:
    if len(text) > _MAX_DATE_LENGTH:
        raise ValueError(f"{quote_text(text)} is too long for a date")


def _url(text: str, base: str) -> str:
    joined = urls.join(base, text, keep_fragment=True)
    if joined is None:
        raise ValueError(f"{quote_text(urls.without_credentials(text))} is not a URL")
    return joined


def _file(text: str, base: str) -> str:
    return urls.without_credentials(_url(text, base))  # credentials of a site are neither stored nor sent


_PRECISE_NUMBER = re.compile(r"[0-9](?:[0-9]{15}|\.[0-9])")
"""Finds any number with a fraction, or with more digits than 64 bits hold."""


def _json(text: str, _base: str) -> Any:
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise ValueError(f"{quote_text(text)} is not JSON: {error}") from None
    if text.count("[") + text.count("{") > _MAX_JSON_DEPTH and _exceeds_depth(value, _MAX_JSON_DEPTH):
        raise ValueError(f"the JSON nests deeper than {_MAX_JSON_DEPTH} levels")
    return _with_all_digits(text, value) if _PRECISE_NUMBER.search(text) else value


def _with_all_digits(text: str, value: Any) -> Any:
    """The value of a JSON text with numbers as written; `value` if one has more digits than Python reads."""
    try:
        return json.loads(text, parse_float=_read_fraction)
    except ValueError:
        return value


def _read_fraction(text: str) -> float | Decimal:
    return float(text) if "e" in text or "E" in text else Decimal(text)


def _exceeds_depth(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, list | dict)
            for inner in (item if isinstance(item, list) else item.values())
        ]
        if not level:
            return False
    return any(isinstance(item, list | dict) for item in level)


_CONVERTERS: Mapping[str, Converter] = {
    "str": _str,
    "int": _int,
    "float": _float,
    "decimal": _decimal,
    "bool": _bool,
    "date": _date,
    "url": _url,
    "json": _json,
    "table": _json,
    "file": _file,
    "markdown": _str,
}
