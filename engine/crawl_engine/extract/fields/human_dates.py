"""Reads dates as people write them, in the language of a locale: `3. März 2024`, `vor 2 Stunden`."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from crawl_engine.errors import quote_text, suggest
from crawl_engine.extract.select.selector_syntax import XPATH_PREFIX
from crawl_engine.late_regex import late_regex

ANY_FORMAT = "any"
"""The `format` of such dates."""

MAX_LENGTH = 100
"""Characters of a text with a date."""

_SETTINGS = (
    ("TIMEZONE", "UTC"),
    ("RETURN_TIME_AS_PERIOD", True),
    ("PREFER_DAY_OF_MONTH", "first"),
    ("REQUIRE_PARTS", ["month"]),  # else `12` and `14:30` are dates
)
_ABSOLUTE, _RELATIVE = "absolute-time", "relative-time"
_YEAR = late_regex(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_NUMBER = late_regex(r"\d{1,3}")
"""To the library `12` is a month."""
_NET = late_regex(r"/Date\((-?\d{1,20})(?:[+-]\d{4})?\)/")
"""Milliseconds since 1970, as the JSON of .NET has them. Its offset says where the clock stood."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CACHED_TEXTS = 10_000
_CACHED_LOCALES = 1_000
_MAX_LOCALE_LENGTH = 100
_ANY_DAY = datetime(2024, 1, 31)


class HumanDates:
    """Dates of some locales: the first that reads a text counts. Creating one loads the library and the locales."""

    def __init__(self, locales: Sequence[str]) -> None:
        """Raises `ValueError` for an unknown locale."""
        from dateparser.date import DateDataParser

        self._create = DateDataParser
        self._locales = [*locales]
        self._find(" ".join(locales), _ANY_DAY)  # loads the locales now, not within the time of the first page
        # The same dates occur in many records and on many pages.
        self._parse = lru_cache(_CACHED_TEXTS)(self._parse_relative)
        self._parse_with_year = lru_cache(_CACHED_TEXTS)(self._parse_absolute)

    def parse(self, text: str, fetched_at: float) -> str:
        """The date in ISO 8601, with a time if the text has one; in UTC if the text has a time zone.

        `fetched_at`: the Unix time for relative dates, and for dates without a year. Raises `ValueError`.
        """
        if len(text) > MAX_LENGTH:
            raise ValueError(
                f"{quote_text(text)} is longer than {MAX_LENGTH} characters; pick out the date with `match`"
            )
        if (of_net := _NET.fullmatch(text.strip())) is not None:
            return read_unix_time(text, Decimal(of_net[1]), 1_000)
        is_number = _NUMBER.fullmatch(text.strip()) is not None
        date = (self._parse_with_year(text) if _YEAR.search(text) else None) or (
            None if is_number else self._parse(text, fetched_at)
        )
        if date is None:
            shown = ", ".join(f"'{locale}'" for locale in self._locales)
            raise ValueError(f"{quote_text(text)} is not a date in the locale{'s'[: len(self._locales) - 1]} {shown}")
        return date

    def _parse_absolute(self, text: str) -> str | None:
        """The date of a text with a year, which does not depend on other times."""
        return self._find(text, _ANY_DAY, _ABSOLUTE)

    def _parse_relative(self, text: str, fetched_at: float) -> str | None:
        return self._find(text, datetime.fromtimestamp(fetched_at, UTC).replace(tzinfo=None))

    def _find(self, text: str, base: datetime, *parsers: str) -> str | None:
        # a parser has one base
        settings = {**dict(_SETTINGS), "PARSERS": [*parsers] or [_RELATIVE, _ABSOLUTE], "RELATIVE_BASE": base}
        try:
            finder = self._create(locales=self._locales, use_given_order=True, settings=settings)
            parsed = finder.get_date_data(text)
        except Exception:  # the library guesses from any text of a page, and may raise anything: the text is not a date
            return None
        if parsed.date_obj is None:
            return None
        moment: datetime = parsed.date_obj
        return moment.isoformat(timespec="seconds") if parsed.period == "time" else moment.date().isoformat()


def read_unix_time(text: str, number: Decimal, units: int) -> str:
    """The time in UTC of a number of units since 1970, of which a second has so many. Raises `ValueError`."""
    try:
        return (_EPOCH + timedelta(microseconds=round(number * 1_000_000 / units))).isoformat()
    except OverflowError:
        raise ValueError(f"{quote_text(text)} is beyond the years 1 to 9999") from None


def is_locale_selector(text: str) -> bool:
    """Whether a `locale` finds the language in the page."""
    return text.strip().startswith(XPATH_PREFIX)


@lru_cache(_CACHED_LOCALES)
def find_locale(text: str) -> str | None:
    """The known locale that a page names, such as `de-AT` of `de_at`, or its language alone; None: it is unknown."""
    if len(text) > _MAX_LOCALE_LENGTH:
        return None
    written = text.strip().replace("_", "-")
    language, _, region = written.partition("-")
    names = (written, f"{language.lower()}-{region.upper()}", language.lower())
    return next((name for name in names if locale_problem(name) is None), None)


def locale_problem(locale: str) -> str | None:
    """Why a locale cannot be used, or None. Imports the library."""
    from dateparser.data.languages_info import language_locale_dict

    language = locale.partition("-")[0]
    if locale in language_locale_dict or any(locale in regions for regions in language_locale_dict.values()):
        return None
    known = [*language_locale_dict, *language_locale_dict.get(language, ())]
    return f"unknown locale '{locale}'{suggest(locale, known)}; write a language such as `de`, or `en-GB`"
