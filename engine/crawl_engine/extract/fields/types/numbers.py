"""Reads the types `int`, `float` and `decimal`: 64 bits, finite numbers, all digits."""

import math
import re
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import Conversion, Converter, Digits, StepCheck, TypeReader
from crawl_engine.extract.fields.locales import find_languages, languages_of
from crawl_engine.extract.fields.step_values import decimal_of, float_of, int_of
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.model.definition import Field

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")
_TO_LAST_DIGIT = re.compile(r".*[0-9]\.?")
_INT_BITS = 63
_MAX_NUMBER_DIGITS = 1_000


class NumberReader(TypeReader):
    """Reads numbers; thousands separators are rejected unless the field names them."""

    digits: Digits = "number"

    def __init__(self, convert: Converter, check: Callable[[Any], Any]) -> None:
        self._convert = convert
        self._check = check

    def converter(self, field: Field) -> Converter:
        """By its marks and words of magnitude."""
        if field.magnitudes:
            shortened, languages = self._shortened_converter(field), languages_of(field)
            return lambda text, _base: shortened(text, languages)
        if field.decimal_mark is not None or field.group_mark is not None:
            return _marked_converter(self._convert, field.decimal_mark or ".", field.group_mark)
        return self._convert

    def default_converter(self, _field: Field) -> Converter:
        """A number is written with a point in any case: YAML reads it as a number."""
        return self._convert

    def conversion(self, field: Field, path: str) -> Conversion:
        """Words of magnitude are read by the languages of the page."""
        if not field.magnitudes or field.map:
            return super().conversion(field, path)
        shortened, languages = self._shortened_converter(field), find_languages(field)

        def convert(text: str, reading: PageReading) -> Any:
            return shortened(text, languages(reading.page))

        return convert

    def step_check(self, _field: Field) -> StepCheck:
        """A number of Python."""
        check = self._check
        return lambda value, _page: check(value)

    def _shortened_converter(self, field: Field) -> Callable[[str, Collection[str]], Any]:
        """Converts numbers that a word of magnitude may follow, such as `15.5k`; by the languages of the text."""
        from crawl_engine.extract.fields.magnitudes import count_exponent, find_magnitude  # few fields read such words

        marks = field.decimal_mark or ".", field.group_mark
        convert, read_decimal = self._convert, _marked_converter(_decimal, *marks)
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


def _mark_pattern(mark: str) -> str:
    """The pattern of a mark. A blank matches any white space: normalizing turns no-break spaces into blanks."""
    return r"\s" if mark.isspace() else re.escape(mark)


INT, FLOAT, DECIMAL = NumberReader(_int, int_of), NumberReader(_float, float_of), NumberReader(_decimal, decimal_of)
