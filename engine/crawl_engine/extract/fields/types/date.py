"""Reads the type `date`: ISO 8601, its own format, numbers since 1970, or what people write."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, lru_cache, partial
from typing import Any

from msgspec.structs import replace

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import Conversion, Converter, StepCheck, StepPage, TypeReader
from crawl_engine.extract.fields.human_dates import (
    ANY_FORMAT,
    HumanDates,
    find_locale,
    is_locale_selector,
    read_unix_time,
)
from crawl_engine.extract.fields.locales import locale_sources, read_locales, reads_locale
from crawl_engine.extract.fields.step_values import text_of
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import UNIX_FORMATS

_TIME_OF_DAY = re.compile(r"%[HIMSfpXcZz]")
_DIGITS = late_regex(r"\d{9,}", re.ASCII)
_COMPACT = late_regex(r"(?:19|20)\d{10}(?:\d\d)?", re.ASCII)
"""A date and a time without marks, such as `20240131120000`."""
_UNIX_TIME = late_regex(r"[+-]?\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_MAX_DATE_LENGTH = 100
_MAX_LOCALES = 20
_MAX_SECONDS_DIGITS = 11


class DateReader(TypeReader):
    """Reads dates: they become ISO 8601, with a time where the text or the format has one."""

    def converter(self, field: Field) -> Converter:
        """By its format. Those of `any` are read by `HumanDates`; here, as defaults, they must be ISO 8601."""
        if field.format in (None, ANY_FORMAT):
            return _date
        units = UNIX_FORMATS.get(field.format or "")
        return _date_converter(field.format or "") if units is None else _unix_converter(units)

    def default_converter(self, field: Field) -> Converter:
        """A default of a date that is a number may be written in ISO 8601, as its value is stored."""
        convert = self.converter(field)
        if field.format not in UNIX_FORMATS:
            return convert
        return lambda text, base: convert(text, base) if _UNIX_TIME.fullmatch(text) else _in_utc(_date(text, base))

    def conversion(self, field: Field, path: str) -> Conversion:
        """The language of the dates may stand in the page."""
        if field.format != ANY_FORMAT or field.map:
            return super().conversion(field, path)
        dates_of = _find_dates(field)

        def convert_date(text: str, reading: PageReading) -> Any:
            reading.time_budget.check_patience()
            return dates_of(reading.page).parse(text, reading.page.fetched_at)

        return convert_date

    def step_check(self, field: Field) -> StepCheck:
        """A date in ISO 8601, as earlier steps leave it, or in the format of the field."""
        iso, written = self.converter(replace(field, format=None)), self.converter(field)
        locales = tuple([locale for locale in field.locales if not is_locale_selector(locale)])
        dates = cache(partial(HumanDates, locales))  # loads the library at the first text that is not ISO 8601

        def check(value: Any, page: StepPage) -> str | None:
            if isinstance(value, date):
                return value.isoformat()
            text = text_of(value).strip()
            if not text:
                return None
            if field.format in UNIX_FORMATS and _UNIX_TIME.fullmatch(text):
                return str(written(text, ""))
            with suppress(ValueError):
                return str(iso(text, ""))
            if field.format == ANY_FORMAT and locales:
                return dates().parse(text, page.fetched_at)
            return str(written(text, ""))

        return check


def _find_dates(field: Field) -> Callable[[Page], HumanDates]:
    """The reader of dates for a page, whose language may stand in the page. That one raises ValueError."""
    if not reads_locale(field):
        dates = HumanDates(field.locales)
        return lambda _page: dates
    sources = locale_sources(field)
    of_locales = lru_cache(_MAX_LOCALES)(HumanDates)

    def find(page: Page) -> HumanDates:
        texts = read_locales(sources, page)
        found = tuple(dict.fromkeys([locale for locale in map(find_locale, texts) if locale is not None]))
        if not found:
            raise ValueError(f"`locale` finds no known language in the page ({quote_text(' '.join(texts))})")
        return of_locales(found)

    return find


def _date(text: str, _base: str) -> str:
    _check_date_length(text)
    from dateutil.parser import isoparser  # defs without dates do not load it

    parser = isoparser()
    try:
        return parser.parse_isodate(text).isoformat()
    except ValueError:
        pass
    if _DIGITS.fullmatch(text):  # to the library, `1712010101123` is in the year 1712
        unit = "unix" if len(text) <= _MAX_SECONDS_DIGITS else "unix-ms"
        cure = f"is it a time since 1970? use `format: {unit}`"
        if _COMPACT.fullmatch(text):
            cure = f"use `format: '{'%Y%m%d%H%M%S'[: len(text) - 2]}'`"
        raise ValueError(f"{quote_text(text)} is not an ISO 8601 date; {cure}")
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


def _in_utc(iso: str) -> str:
    """A date in ISO 8601 as a time in UTC, if it says no other zone."""
    moment = datetime.fromisoformat(iso)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).isoformat()


def _unix_converter(units: int) -> Converter:
    """Reads numbers of so many units a second since 1970, in UTC."""

    def convert(text: str, _base: str) -> str:
        _check_date_length(text)
        if not _UNIX_TIME.fullmatch(text):
            raise ValueError(f"{quote_text(text)} is not a number")
        try:
            return read_unix_time(text, Decimal(text), units)
        except ValueError as error:
            cure = "; is it in milliseconds? use `format: unix-ms`" if units == 1 else ""
            raise ValueError(f"{error}{cure}") from None

    return convert


def _check_date_length(text: str) -> None:
    if len(text) > _MAX_DATE_LENGTH:
        raise ValueError(f"{quote_text(text)} is too long for a date")


READER = DateReader()
