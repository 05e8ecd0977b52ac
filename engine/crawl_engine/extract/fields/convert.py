"""What the reader of a type of field does, and where it is: it converts texts to values, strictly."""

from collections.abc import Callable
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from crawl_engine.errors import UsageError, one_line, quote_text
from crawl_engine.extract.fields.step_values import text_of
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import FIELD_TYPES, is_built_in

if TYPE_CHECKING:  # `check` reads no page
    from crawl_engine.extract.page.reading import PageReading
    from crawl_engine.extract.select.node_value import SelectedNode
    from crawl_engine.extract.select.scope import Scope
    from crawl_engine.extract.select.selector import Selector

_READERS = "crawl_engine.extract.fields.types"

Converter = Callable[[str, str], Any]
"""Takes a text and the page's base URL, returns the value. Raises `ValueError` with the reason."""
Edit = Callable[[str, "PageReading"], str]
"""Returns the edited text; an empty one is missing."""
Conversion = Callable[[str, "PageReading"], Any]
"""Takes a text that is not empty; returns a JSON type or `Decimal`."""
NodeReader = Callable[["SelectedNode"], str | None]
Digits = Literal["none", "text", "number", "amount"]
"""What digits in a text mean: nothing, maybe a number, one number, or one with cents."""


class StepPage(Protocol):
    """The page of a row that a step gives."""

    base: str
    fetched_at: float


StepCheck = Callable[[Any, StepPage], Any]
"""The value of a row for one that plugin code gives; None: a blank text. Raises ValueError."""


class TypeReader:
    """Reads the values of a type of field. A type that is a text overrides `converter` alone."""

    digits: Digits = "none"
    keeps_markup = False
    """Whether white space inside of its texts stays as it is."""
    keeps_lists = False
    """Whether a list of JSON is its value, and does not stand for its first item."""
    uses_base = False
    """Whether a value depends on the base URL of the page."""
    max_items: int | None = None
    """How many items a list may have."""
    reads_elements = False
    """Whether `read_elements` makes its values, and no text."""

    @property
    def is_number(self) -> bool:
        """Whether its text is one number, though several elements may show it."""
        return self.digits in ("number", "amount")

    def converter(self, field: Field) -> Converter:
        """Converts a text of a page."""
        raise NotImplementedError

    def default_converter(self, field: Field) -> Converter:
        """Converts a default or a value of `map`."""
        return self.converter(field)

    def conversion(self, field: Field, _path: str) -> Conversion:
        """Converts a text of a page, by what else the page has. The path of the field is for warnings."""
        convert = self.default_converter(field) if field.map else self.converter(field)
        if not self.uses_base:
            return lambda text, _reading: convert(text, "")

        def convert_in_page(text: str, reading: "PageReading") -> Any:
            value = convert(text, reading.page.base)
            if isinstance(value, str):
                reading.charge(value)  # a relative URL repeats the base of the page
            return value

        return convert_in_page

    def node_reader(self, field: Field) -> NodeReader | None:
        """Reads the text of a selected node; None: as for any text."""

    def last_edit(self, field: Field, path: str) -> Edit | None:
        """The last edit of a text before it is converted."""

    def read_elements(self, field: Field, selector: "Selector", scope: "Scope", reading: "PageReading") -> Any:
        """The value of what the selector finds."""
        raise NotImplementedError

    def step_check(self, field: Field) -> StepCheck:
        """Checks a value that a step gives: a text is read as that of a page."""
        convert = self.converter(field)

        def check(value: Any, page: StepPage) -> Any:
            return convert(text, page.base) if (text := text_of(value).strip()) else None

        return check


class LateReader(TypeReader):
    """Reads a type of a package, whose code is imported at the first text: extraction processes alone have one."""

    uses_base = True

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _reader(self) -> TypeReader:
        try:
            if self._name in FIELD_TYPES:
                return _import_reader(FIELD_TYPES[self._name].reader)
        except (Exception, SystemExit) as error:  # code of the package
            raise ValueError(one_line(f"`type: {self._name}`: {type(error).__name__}: {error}")) from error
        raise ValueError(f"`type: {self._name}`: no installed package adds it")

    def converter(self, field: Field) -> Converter:
        """Converts by the package."""
        return self._call(lambda: self._reader.converter(field))

    def default_converter(self, field: Field) -> Converter:
        """Converts by the package."""
        return self._call(lambda: self._reader.default_converter(field))

    def _call(self, make: Callable[[], Converter]) -> Converter:
        """Its converter, made at the first text. Any of its errors rejects the record."""
        made = cache(make)

        def convert(text: str, base: str) -> Any:
            try:
                return made()(text, base)
            except ValueError:
                raise
            except Exception as error:
                raise ValueError(f"{quote_text(text)}: {one_line(f'{type(error).__name__}: {error}')}") from error

        return convert


@cache
def reader_of(type_: str) -> TypeReader:
    """The reader of a type. That of a package fails at its first text if it cannot be loaded."""
    if not is_built_in(type_):
        return LateReader(type_)
    return _import_reader(FIELD_TYPES[type_].reader or f"{_READERS}.{type_}:READER")


def _import_reader(place: str) -> TypeReader:
    module, _, name = place.partition(":")
    reader = getattr(import_module(module), name)
    if not isinstance(reader, TypeReader):
        raise UsageError(f"{place} is not a TypeReader", "Mend the package, or uninstall it.")
    return reader


def keep_text(text: str, _reading: "PageReading") -> str:
    """The text itself."""
    return text
