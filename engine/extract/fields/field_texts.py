"""Edits the texts of a field: white space → decode → replace → match → split → convert → map → type.

A field is compiled to the steps it needs, so that nothing is decided for each text.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from engine.errors import quote_text
from engine.extract.fields.convert import converter_for, default_converter_for
from engine.extract.fields.human_dates import ANY_FORMAT, HumanDates, find_locale, is_locale_selector
from engine.extract.fields.markdown import to_markdown
from engine.extract.page.budget import Budget
from engine.extract.page.page import Page
from engine.extract.page.patterns import Replacement, TimedPattern
from engine.extract.select.node_value import MARKUP_ATTRIBUTES, read_text
from engine.extract.select.scope import Scope
from engine.extract.select.selectors import PageSelector, compile_selector
from engine.model.definition import Field

if TYPE_CHECKING:
    import regex

_NUMERIC = frozenset(("str", "int", "float", "decimal", "price"))
"""Types of fields whose `match` may give a number."""
_NUMBER = re.compile(r"[+-]?\d[\d.,' ]*|[.,]\d+")
_JOINT = re.compile(r"(?<=\d)(?:[.,'\u2019\u066b\u066c]| (?=\d{3}(?!\d)))?(?=\d)")
"""Between two parts of a number: a mark, a blank before a group of three digits, or nothing."""

_BASE64_OF_URLS = str.maketrans("-_", "+/")
_OTHERS = "*"
"""The key of `map` for all texts without a key of their own."""
_MAX_LOCALES = 20

FieldConverter = Callable[[str], str]
"""Converts the text of a field; an empty result is missing. Raises ValueError to reject the record."""
ConverterSource = Callable[[str], FieldConverter]
"""Finds a converter by its name in the defs. Raises ValueError."""


def no_converters(name: str) -> FieldConverter:
    """Raises ValueError: plugin code runs in extraction processes alone."""
    raise ValueError(f"the converter {name} is not available here")


Edit = Callable[[str, Budget], str]
"""Returns the edited text; an empty one is missing."""

Conversion = Callable[[str, Budget], Any]
"""Takes a text that is not empty; returns a JSON type or `Decimal`."""


class FieldTexts:
    """The compiled steps for the texts of a field. Raises `ValueError` if a pattern or converter does not compile.

    `edit` and `convert` raise `ValueError` and `PatternTimeout`, by which the record is rejected, and `PageTooCostly`
    and `OutOfTime`.
    """

    def __init__(self, field: Field, converters: ConverterSource, path: str = "") -> None:
        """`converters`: finds the plugin converters that the field names. `path`: of the field, for warnings."""
        match = None if field.match is None else TimedPattern(field.match)
        replacements = [Replacement(pattern, text) for pattern, text in field.replace]
        users_converters = [converters(name) for name in field.convert]
        if field.map:
            users_converters.append(partial(_look_up, field.map))
        self._separator = field.split or ""
        self.convert_by_user = _chain(users_converters)
        """Applies plugin converters and `map`; with `split` to the parts, which `edit` does not make."""
        steps = [_clean_step(field), *map(_replace_step, replacements)]
        if field.decode is not None:
            steps[1:1] = [_decode_step(field.decode), _clean_step(field)]
        if match is not None:
            steps.append(_match_step(match, field, path))
        if len(steps) > 1 or field.whitespace is not None:
            steps.append(_keep_unless_blank if field.whitespace is not None and field.type == "str" else _strip)
        if users_converters and field.split is None:
            steps.append(lambda text, _budget: self.convert_by_user(text))
        if field.type == "markdown":
            steps.append(lambda html, budget: to_markdown(html, path, budget))
        self.edit: Edit = _sequence(steps)
        """Applies `whitespace`, `replace` and `match`, then plugin converters; of Markdown the conversion, too."""
        self.convert: Conversion = _conversion(field, path)

    def split(self, text: str, budget: Budget) -> Iterator[str]:
        """The parts of a text that are not blank, normalized."""
        budget.charge_parts(text.count(self._separator))
        for part in text.split(self._separator):
            normalized = " ".join(part.split())
            if normalized:
                yield normalized


def _sequence(steps: list[Edit]) -> Edit:
    """All steps as one. After a step that leaves nothing, the others are skipped."""
    if len(steps) == 1:
        return steps[0]

    def edit(text: str, budget: Budget) -> str:
        for step in steps:
            text = step(text, budget)
            if not text:
                break
        return text

    return edit


def _clean_step(field: Field) -> Edit:
    """The first step: charges the text to the budget, and treats its white space as the field asks."""
    if field.whitespace is not None:
        return _keep
    is_markup = field.type in ("json", "markdown") or field.attribute in MARKUP_ATTRIBUTES
    return _trim if is_markup else _normalize


def _keep(text: str, budget: Budget) -> str:
    budget.charge(text)
    return text


def _trim(text: str, budget: Budget) -> str:
    budget.charge(text)
    return text.strip()


def _normalize(text: str, budget: Budget) -> str:
    budget.charge(text)
    return " ".join(text.split())


def _replace_step(replacement: Replacement) -> Edit:
    def replace(text: str, budget: Budget) -> str:
        text = replacement.apply(text, budget.time_budget)
        budget.charge(text)
        return text

    return replace


def _decode_step(form: str) -> Edit:
    decode = _DECODERS[form]
    return lambda text, _budget: decode(text)


def _decode_base64(text: str) -> str:
    """The text in base64, also of URLs, with its padding or without; empty if there is none."""
    bare = "".join(text.split()).rstrip("=").translate(_BASE64_OF_URLS)
    try:
        return b64decode(bare + "=" * (-len(bare) % 4), validate=True).decode()
    except ValueError:  # of base64, or of UTF-8
        return ""


_DECODERS: Mapping[str, FieldConverter] = {"url": unquote, "html": unescape, "base64": _decode_base64}


def _look_up(values: Mapping[str, str], text: str) -> str:
    return values.get(text, values.get(_OTHERS, ""))


def _match_step(pattern: TimedPattern, field: Field, path: str) -> Edit:
    if field.type not in _NUMERIC:
        return lambda text, budget: pattern.find(text, budget.time_budget) or ""

    def find_number(text: str, budget: Budget) -> str:
        match = pattern.search(text, budget.time_budget)
        if match is None:
            return ""
        value: str = match[1 if pattern.compiled.groups else 0] or ""
        if _NUMBER.fullmatch(value) and _leaves_digits(match, is_text=field.type == "str"):
            budget.warn(
                path,
                "digits-left",
                f"{budget.data_def}.{path}: `match` takes {quote_text(value)} of {quote_text(text)} and leaves digits"
                " beside it; write a pattern for the whole number, with `groupMark`, or `type: price` without `match`",
            )
        return value

    return find_number


def _leaves_digits(match: "regex.Match[str]", *, is_text: bool) -> bool:
    """Whether a number continues before or behind the match. A pattern that names a mark, or cuts a text, means it."""
    text, whole, start, end = match.string, match[0], match.start(), match.end()
    return any(
        ((joint.end() == start and whole[:1].isdigit()) or (joint.start() == end and whole[-1:].isdigit()))
        and not (is_text and joint.start() == joint.end())
        for joint in _JOINT.finditer(text, max(0, start - 1), end + 5)
    )


def _strip(text: str, _budget: Budget) -> str:
    return text.strip()


def _keep_unless_blank(text: str, _budget: Budget) -> str:
    return "" if text.isspace() else text


def _chain(converters: list[FieldConverter]) -> FieldConverter:
    def convert(text: str) -> str:
        for converter in converters:
            text = converter(text)
        return text

    return convert


def _conversion(field: Field, path: str) -> Conversion:
    if field.type == "price":
        from engine.extract.fields.prices import PriceReader  # few fields are prices

        reader = PriceReader(field.decimal_mark, field.group_mark)

        def read_price(text: str, budget: Budget) -> Any:
            # slow: one value may be a list of such texts, and could take longer than a page may
            budget.time_budget.check_patience()
            price = reader.read(text)
            if price.is_guess:
                budget.warn(
                    path,
                    "guessed-group",
                    f"{budget.data_def}.{path}: {quote_text(text)} is read as {price.amount}; `decimalMark` or"
                    " `groupMark` says what its mark means",
                )
            return price.value

        return read_price
    convert = default_converter_for(field) if field.map else converter_for(field)
    if field.type in ("url", "file"):

        def convert_url(text: str, budget: Budget) -> Any:
            url = convert(text, budget.page.base)
            budget.charge(url)  # a relative URL repeats the base of the page
            return url

        return convert_url
    if field.type == "date" and field.format == ANY_FORMAT and not field.map:
        dates_of = _find_dates(field)

        def convert_date(text: str, budget: Budget) -> Any:
            budget.time_budget.check_patience()
            return dates_of(budget.page).parse(text, budget.page.fetched_at)

        return convert_date
    return _keep_text if field.type in ("str", "markdown") else lambda text, _budget: convert(text, "")


def _find_dates(field: Field) -> Callable[[Page], HumanDates]:
    """The reader of dates for a page, whose language may stand in the page. That one raises ValueError."""
    if not reads_locale(field):
        dates = HumanDates(field.locales)
        return lambda _page: dates
    sources = [PageSelector(compile_selector(text)) if is_locale_selector(text) else text for text in field.locales]
    of_locales = lru_cache(_MAX_LOCALES)(HumanDates)

    def find(page: Page) -> HumanDates:
        texts = [source if isinstance(source, str) else _read_first(source, page) for source in sources]
        found = tuple(dict.fromkeys([locale for locale in map(find_locale, texts) if locale is not None]))
        if not found:
            raise ValueError(f"`locale` finds no known language in the page ({quote_text(' '.join(texts))})")
        return of_locales(found)

    return find


def _read_first(selector: PageSelector, page: Page) -> str:
    node = selector.first(Scope(page))
    return "" if node is None else read_text(node) or ""


def reads_locale(field: Field) -> bool:
    """Whether the language of its dates stands in the page."""
    return any(map(is_locale_selector, field.locales))


def _keep_text(text: str, _budget: Budget) -> str:
    return text
