"""Edits the texts of a field: white space → decode → replace → match → split → convert → map → type.

A field is compiled to the steps it needs, so that nothing is decided for each text.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from html import unescape
from typing import Any
from urllib.parse import unquote

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import converter_for, default_converter_for, shortened_converter
from crawl_engine.extract.fields.human_dates import ANY_FORMAT, HumanDates, find_locale, is_locale_selector
from crawl_engine.extract.fields.markdown import to_markdown
from crawl_engine.extract.fields.number_texts import JOINED, join_step, match_step, watch_replacement
from crawl_engine.extract.page.budget import Budget
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.patterns import Replacement, TimedPattern
from crawl_engine.extract.select.node_value import MARKUP_ATTRIBUTES, read_text
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selectors import PageSelector, compile_selector
from crawl_engine.model.definition import Field

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
        clean = _clean_step(field)
        steps = [join_step(clean, field, path) if reads_marked_text(field) else clean]
        for replacement, (pattern, _) in zip(replacements, field.replace, strict=True):
            steps.append(watch_replacement(_replace_step(replacement), pattern, field, path))
        if field.decode is not None:
            steps[1:1] = [_decode_step(field.decode), _clean_step(field)]
        if match is not None:
            steps.append(match_step(match, field, path))
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
        from crawl_engine.extract.fields.prices import PriceReader  # few fields are prices

        reader, languages_of = PriceReader(field.decimal_mark, field.group_mark), _find_languages(field)

        def read_price(text: str, budget: Budget) -> Any:
            # slow: one value may be a list of such texts, and could take longer than a page may
            budget.time_budget.check_patience()
            price = reader.read(text, languages_of(budget.page))
            for code, advice in price.doubts:
                budget.warn(
                    path, code, f"{budget.data_def}.{path}: {quote_text(text)} is read as {price.amount}; {advice}"
                )
            return price.value

        return read_price
    if field.magnitudes and not field.map:
        shortened, languages_of = shortened_converter(field), _find_languages(field)
        return lambda text, budget: shortened(text, languages_of(budget.page))
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


def _find_languages(field: Field) -> Callable[[Page], tuple[str, ...]]:
    """The languages of a page's words of magnitude, which may stand in the page; one that does not say has none."""
    from crawl_engine.extract.fields.magnitudes import language_of  # few fields read words of magnitude

    if not reads_locale(field):
        languages = tuple(map(language_of, field.locales))
        return lambda _page: languages
    sources = _locale_sources(field)
    return lambda page: tuple([language_of(text) for text in _read_locales(sources, page)])


def _locale_sources(field: Field) -> list[PageSelector | str]:
    return [PageSelector(compile_selector(text)) if is_locale_selector(text) else text for text in field.locales]


def _read_locales(sources: list[PageSelector | str], page: Page) -> list[str]:
    return [source if isinstance(source, str) else _read_first(source, page) for source in sources]


def _find_dates(field: Field) -> Callable[[Page], HumanDates]:
    """The reader of dates for a page, whose language may stand in the page. That one raises ValueError."""
    if not reads_locale(field):
        dates = HumanDates(field.locales)
        return lambda _page: dates
    sources = _locale_sources(field)
    of_locales = lru_cache(_MAX_LOCALES)(HumanDates)

    def find(page: Page) -> HumanDates:
        texts = _read_locales(sources, page)
        found = tuple(dict.fromkeys([locale for locale in map(find_locale, texts) if locale is not None]))
        if not found:
            raise ValueError(f"`locale` finds no known language in the page ({quote_text(' '.join(texts))})")
        return of_locales(found)

    return find


def _read_first(selector: PageSelector, page: Page) -> str:
    node = selector.first(Scope(page))
    return "" if node is None else read_text(node) or ""


def reads_marked_text(field: Field) -> bool:
    """Whether the tags in its text are told, as its digits may belong to several elements."""
    return field.type in JOINED and field.attribute in ("text", "ownText") and field.whitespace is None


def reads_locale(field: Field) -> bool:
    """Whether the language of its dates stands in the page."""
    return any(map(is_locale_selector, field.locales))


def _keep_text(text: str, _budget: Budget) -> str:
    return text
