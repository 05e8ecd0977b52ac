"""Edits the texts of a field: white space → decode → replace → match → split → convert → map → type.

A field is compiled to the steps it needs, so that nothing is decided for each text.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import unescape
from urllib.parse import unquote

from crawl_engine.extract.fields.convert import Conversion, Edit, reader_of
from crawl_engine.extract.fields.number_texts import join_step, match_step, watch_replacement
from crawl_engine.extract.page.patterns import Replacement, TimedPattern
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.node_value import MARKUP_ATTRIBUTES
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import find_field_type

_BASE64_OF_URLS = str.maketrans("-_", "+/")
_OTHERS = "*"
"""The key of `map` for all texts without a key of their own."""

FieldConverter = Callable[[str], str]
"""Converts the text of a field; an empty result is missing. Raises ValueError to reject the record."""
ConverterSource = Callable[[str], FieldConverter]
"""Finds a converter by its name in the defs. Raises ValueError."""


def no_converters(name: str) -> FieldConverter:
    """Raises ValueError: plugin code runs in extraction processes alone."""
    raise ValueError(f"the converter {name} is not available here")


class FieldTexts:
    """The compiled steps for the texts of a field. Raises `ValueError` if a pattern or converter does not compile.

    `edit` and `convert` raise `ValueError` and `PatternTimeout`, by which the record is rejected, and `PageTooCostly`
    and `OutOfTime`.
    """

    def __init__(self, field: Field, converters: ConverterSource, path: str = "") -> None:
        """`converters`: finds the plugin converters that the field names. `path`: of the field, for warnings."""
        reader = reader_of(field.type)
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
            keeps_space = field.whitespace is not None and find_field_type(field.type).keeps_space
            steps.append(_keep_unless_blank if keeps_space else _strip)
        if users_converters and field.split is None:
            steps.append(lambda text, _reading: self.convert_by_user(text))
        if (last_edit := reader.last_edit(field, path)) is not None:
            steps.append(last_edit)
        self.edit: Edit = _sequence(steps)
        """Applies `whitespace`, `replace` and `match`, then plugin converters; of Markdown the conversion, too."""
        self.convert: Conversion = reader.conversion(field, path)

    def split(self, text: str, reading: PageReading) -> Iterator[str]:
        """The parts of a text that are not blank, normalized."""
        reading.charge_parts(text.count(self._separator))
        for part in text.split(self._separator):
            normalized = " ".join(part.split())
            if normalized:
                yield normalized


def _sequence(steps: list[Edit]) -> Edit:
    """All steps as one. After a step that leaves nothing, the others are skipped."""
    if len(steps) == 1:
        return steps[0]

    def edit(text: str, reading: PageReading) -> str:
        for step in steps:
            text = step(text, reading)
            if not text:
                break
        return text

    return edit


def _clean_step(field: Field) -> Edit:
    """The first step: charges the text to the reading, and treats its white space as the field asks."""
    if field.whitespace is not None:
        return _keep
    is_markup = reader_of(field.type).keeps_markup or field.attribute in MARKUP_ATTRIBUTES
    return _trim if is_markup else _normalize


def _keep(text: str, reading: PageReading) -> str:
    reading.charge(text)
    return text


def _trim(text: str, reading: PageReading) -> str:
    reading.charge(text)
    return text.strip()


def _normalize(text: str, reading: PageReading) -> str:
    reading.charge(text)
    return " ".join(text.split())


def _replace_step(replacement: Replacement) -> Edit:
    def replace(text: str, reading: PageReading) -> str:
        text = replacement.apply(text, reading.time_budget)
        reading.charge(text)
        return text

    return replace


def _decode_step(form: str) -> Edit:
    decode = _DECODERS[form]
    return lambda text, _reading: decode(text)


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


def _strip(text: str, _reading: PageReading) -> str:
    return text.strip()


def _keep_unless_blank(text: str, _reading: PageReading) -> str:
    return "" if text.isspace() else text


def _chain(converters: list[FieldConverter]) -> FieldConverter:
    def convert(text: str) -> str:
        for converter in converters:
            text = converter(text)
        return text

    return convert


def reads_marked_text(field: Field) -> bool:
    """Whether the tags in its text are told, as its digits may belong to several elements."""
    return reader_of(field.type).is_number and field.attribute in ("text", "ownText") and field.whitespace is None
