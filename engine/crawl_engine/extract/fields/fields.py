"""Reads one field of a record.

Select → attribute → whitespace → decode → replace → match → split → convert → map → blank = missing → default → type →
required.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.fields.convert import NodeReader, reader_of
from crawl_engine.extract.fields.field_texts import (
    ConverterSource,
    FieldTexts,
    no_converters,
    reads_marked_text,
)
from crawl_engine.extract.fields.locales import reads_locale
from crawl_engine.extract.page.patterns import PatternTimeout
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.css import Speed
from crawl_engine.extract.select.node_value import (
    JsonValue,
    json_value_text,
    read_marked_text,
    read_node,
    read_text,
    read_verbatim,
)
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector import Selector
from crawl_engine.extract.select.selectors import (
    ColumnSelector,
    CssSelector,
    JmesPathSelector,
    PageSelector,
    compile_selector,
)
from crawl_engine.extract.select.srcset import is_srcset, read_candidates
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import find_field_type, needs_process
from crawl_engine.model.record import RejectCode, to_text
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import FIELD, render, variable_names
from crawl_engine.urls import join

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode


class RecordRejected(Exception):
    """A field makes its record invalid. `field` is the path of the field: `variants.price` for a nested one."""

    def __init__(self, field: str, place: SourcePosition, reason: str, code: RejectCode = "invalid") -> None:
        super().__init__(reason)
        self.code: RejectCode = code
        self.field = field
        self.place = place
        self.reason = reason


class FieldReader:
    """A compiled field. If its selector, a pattern or a converter does not compile, it rejects every record."""

    def __init__(
        self, field: Field, parent: str = "", converters: ConverterSource = no_converters, *, is_counted: bool = True
    ) -> None:
        """`converters`: finds the plugin converters that fields name. `is_counted`: whether missing values are."""
        self.name = field.name
        self.path = f"{parent}{field.name}"
        self._is_counted = is_counted and not parent and field.value is None
        self._field = field
        self._type = find_field_type(field.type)
        self._reader = reader_of(field.type)
        self._nested = tuple(FieldReader(inner, f"{self.path}.", converters) for inner in field.fields)
        self._alternatives = tuple(
            [FieldReader(one, parent, converters, is_counted=False) for one in _alternatives(field)]
        )
        self._compile_error: str | None = None
        self._selector: Selector = compile_selector(None)
        self._texts = FieldTexts(Field(name=field.name), no_converters)
        try:
            selector = compile_selector(field.selector, placed=any(inner.leaves_block for inner in self._nested))
            if field.column is not None:
                selector = ColumnSelector(field.column, selector)
            if field.scope is not None:
                selector = PageSelector(selector, in_document=field.scope == "from")
            self._selector = selector
            self._texts = FieldTexts(field, converters, self.path)
        except ValueError as error:
            self._compile_error = str(error)
        names = variable_names(field.value or "")
        self._needs = [name.removeprefix(FIELD) for name in names if name.startswith(FIELD)]
        """Fields of the record in its `value`."""
        self._edit, self._convert = self._texts.edit, self._texts.convert
        self._read_node = self._choose_node_reader()
        self.read_value: Callable[[Scope, PageReading], Any] = self._choose_reader()
        """Reads the value in a page or block: a JSON type or `Decimal`, None when missing.

        With `all` or `split` a list of values, with nested fields a list of objects; empty when missing.
        Raises `RecordRejected`, `PageTooCostly` and `OutOfTime`.
        """

    @property
    def speed(self) -> Speed:
        """How long one search of its selectors may take."""
        if needs_process(self._field.type) or reads_locale(self._field):
            return Speed.SLOW
        parts = (*self._nested, *self._alternatives)
        return max(self._selector.speed, *[reader.speed for reader in parts], Speed.QUICK)

    @property
    def leaves_block(self) -> bool:
        """Whether a selector of it may leave the block."""
        parts = (*self._nested, *self._alternatives)
        return self._selector.leaves_block or any(reader.leaves_block for reader in parts)

    @property
    def needs(self) -> set[str]:
        """The names of the fields, or with `FIELD.PART` of parts of them, in its `value` and those of nested fields."""
        return {*self._needs}.union(*[reader.needs for reader in (*self._nested, *self._alternatives)])

    @property
    def counted_names(self) -> tuple[str, ...]:
        """As those of its field; empty if its missing values are not counted."""
        return self._field.counted_names if self._is_counted else ()

    def _choose_reader(self) -> Callable[[Scope, PageReading], Any]:
        field, selector = self._field, self._selector
        if field.from_step:
            return self._read_nothing
        if self._compile_error is not None:
            return self._read_invalid
        if self._alternatives:
            return self._read_alternatives
        if self._nested:
            return self._read_objects
        if self._reader.reads_elements:
            return self._read_elements
        if is_srcset(field.attribute):
            return self._read_candidates
        if field.split is not None:
            return self._read_parts
        if field.value is not None:
            return self._read_constant
        if isinstance(selector, JmesPathSelector) and not self._reader.keeps_lists and field.attribute == "text":
            return partial(self._read_json_values if field.all else self._read_json_value, selector.expression.search)
        if field.all:
            return self._read_all
        return partial(self._read_first, selector.first if isinstance(selector, CssSelector) else self._select_first)

    def _choose_node_reader(self) -> NodeReader:
        """The function that reads the text of a selected node."""
        field = self._field
        own = self._reader.node_reader(field)
        if own is not None:
            return own
        if field.whitespace is not None:
            return partial(read_verbatim, attribute=field.attribute)
        if reads_marked_text(field):
            return (
                partial(read_marked_text, attribute=field.attribute) if field.attribute != "text" else read_marked_text
            )
        return read_text if field.attribute == "text" else partial(read_node, attribute=field.attribute)

    def _read_nothing(self, _scope: Scope, _reading: PageReading) -> None:
        """A step fills the field later."""

    def _read_invalid(self, _scope: Scope, _reading: PageReading) -> Any:
        raise self._rejected(self._compile_error or "the field cannot be read")

    def _read_first(self, select: "Callable[[Scope], SelectedNode | None]", scope: Scope, reading: PageReading) -> Any:
        node = select(scope)
        reading.time_budget.check_patience()
        if node is None:
            return self._or_default(None, reading)
        return self._make_value(self._read_node(node), reading)

    def _select_first(self, scope: Scope) -> "SelectedNode | None":
        """The first match. A JSON list stands for its first value, unless the type has lists."""
        node = self._selector.first(scope)
        if isinstance(node, JsonValue) and isinstance(node.value, list) and not self._reader.keeps_lists:
            return JsonValue(next((value for value in node.value if value is not None), None))
        return node

    def _read_json_value(self, search: Callable[[Any], Any], scope: Scope, reading: PageReading) -> Any:
        """A faster `_read_first`: API answers have hundreds of records."""
        document = scope.value
        value = None if document is MISSING else search(document)
        if type(value) is list:
            value = next((item for item in value if item is not None), None)
        return self._make_value(value if type(value) is str else json_value_text(value), reading)

    def _read_json_values(self, search: Callable[[Any], Any], scope: Scope, reading: PageReading) -> Any:
        """A faster `_read_all`."""
        document = scope.value
        found = None if document is MISSING else search(document)
        return self._make_list(map(json_value_text, found if isinstance(found, list) else (found,)), reading)

    def _read_all(self, scope: Scope, reading: PageReading) -> Any:
        return self._make_list(map(self._read_node, self._selector.all(scope)), reading)

    def _read_elements(self, scope: Scope, reading: PageReading) -> Any:
        return self._or_default(self._reader.read_elements(self._field, self._selector, scope, reading), reading)

    def _read_candidates(self, scope: Scope, reading: PageReading) -> Any:
        """The absolute URLs of a `srcset`: of all matches, of the first one as a list (`split`), or its first URL."""
        field = self._field
        nodes = self._selector.all(scope) if field.all else [self._selector.first(scope)]
        urls: list[str] = []
        for node in nodes:
            text = None if node is None else read_node(node, field.attribute)
            for url in read_candidates(text or "", largest=field.largest):
                reading.time_budget.check_patience()
                urls.append(join(reading.page.base, url, keep_fragment=True) or url)
                reading.charge(urls[-1])
        return self._make_list(urls, reading) if field.is_list else self._make_value(next(iter(urls), None), reading)

    def _read_alternatives(self, scope: Scope, reading: PageReading) -> Any:
        """The value of the first selector that gives one."""
        for name, reader in zip_longest(self._field.counted_names[1:], self._alternatives):
            value = reader.read_value(scope, reading)
            if value is not None and value != []:
                return value
            if self._is_counted and name is not None:
                reading.missing.append(name)
        return self._or_default(None, reading)

    def _read_constant(self, _scope: Scope, reading: PageReading) -> Any:
        text = self._render_value(reading)
        return self._make_list([text], reading) if self._field.all else self._make_value(text, reading)

    def _render_value(self, reading: PageReading) -> str:
        """The text of `value`; empty if it names a field of the record without a value."""
        if not self._needs:
            return reading.context.render(self._field.value or "", reading.page)
        values = {name: find_part(reading.row, name) for name in self._needs}
        if any(value is None or value in ("", []) for value in values.values()):
            return ""
        texts = {f"{FIELD}{name}": to_text(value, self._field.join) for name, value in values.items()}
        for name in self._needs:
            reading.charge(texts[f"{FIELD}{name}"])
        return render(
            self._field.value or "", lambda name: texts.get(name) or reading.context.look_up(name, reading.page)
        )

    def _make_value(self, text: str | None, reading: PageReading) -> Any:
        try:
            if text and (text := self._edit(text, reading)):
                return self._convert(text, reading)
        except (ValueError, PatternTimeout) as error:
            raise self._rejected(str(error)) from None
        return self._or_default(None, reading)

    def _make_list(self, texts: Iterable[str | None], reading: PageReading) -> Any:
        reading.time_budget.check_patience()  # a search takes time even if it finds nothing
        edited: list[str] = []
        try:
            for text in texts:
                reading.time_budget.check_patience()
                if text:
                    edited.append(self._edit(text, reading))
            values = [self._convert(text, reading) for text in edited if text]
        except (ValueError, PatternTimeout) as error:
            raise self._rejected(str(error)) from None
        return self._or_default(values, reading)

    def _read_parts(self, scope: Scope, reading: PageReading) -> Any:
        values: list[Any] = []
        for text in self._texts_to_split(scope, reading):
            if text:
                values += self._make_parts(text, reading)
        return self._or_default(values, reading)

    def _texts_to_split(self, scope: Scope, reading: PageReading) -> Iterator[str | None]:
        if self._field.value is not None:
            yield self._render_value(reading)
            return
        if self._field.all:
            nodes = self._selector.all(scope)
        else:
            first = self._select_first(scope)
            nodes = [] if first is None else [first]
        reading.time_budget.check_patience()
        for node in nodes:
            reading.time_budget.check_patience()
            yield self._read_node(node)

    def _make_parts(self, text: str, reading: PageReading) -> list[Any]:
        values = []
        try:
            for part in map(self._texts.convert_by_user, self._texts.split(self._edit(text, reading), reading)):
                reading.time_budget.check_patience()
                if part:
                    values.append(self._convert(part, reading))
            return values
        except (ValueError, PatternTimeout) as error:
            raise self._rejected(str(error)) from None

    def _read_objects(self, scope: Scope, reading: PageReading) -> Any:
        objects = []
        nodes = self._selector.all(scope)
        reading.time_budget.check_patience()
        for node in nodes:
            reading.time_budget.check_patience()
            inner = Scope(scope.page, node)
            objects.append({reader.name: reader.read_value(inner, reading) for reader in self._nested})
        return self._or_default(objects, reading)

    def _or_default(self, value: Any, reading: PageReading) -> Any:
        """The value, or the converted default if the value is missing."""
        field = self._field
        if value:
            return value if self._reader.max_items is None else self._limit(value, self._reader.max_items, reading)
        if self._is_counted:
            reading.missing.append(self.name)
        if field.has_default:
            value = self._convert_default(field.default, reading)
        elif field.is_list or field.fields or self._type.stored == "rows":
            value = []
        if field.required and (value is None or value == []):
            raise self._rejected("the field is required but missing", "missing")
        return value

    def _limit(self, values: list[Any], most: int, reading: PageReading) -> list[Any]:
        field = self._field
        if len(values) > most:
            fault = f"`{field.name}` names more than {most:,} {field.type}s; the others are left out"
            reading.page.faults[fault] = None
        return values[:most]

    def _convert_default(self, default: Any, reading: PageReading) -> Any:
        if self._field.fields or self._type.stored == "rows":
            return default
        if self._field.is_list:
            items = default if isinstance(default, list | tuple) else [] if default is None else [default]
            return [self._convert_default_item(item, reading) for item in items]
        return self._convert_default_item(default, reading)

    def _convert_default_item(self, default: Any, reading: PageReading) -> Any:
        if default is None or (self._type.stored == "json" and not isinstance(default, str)):
            return default
        try:
            base = reading.page.base if self._reader.uses_base else ""
            return self._reader.default_converter(self._field)(to_text(default).strip(), base)
        except ValueError as error:
            raise self._rejected(f"the default: {error}") from None

    def _rejected(self, reason: str, code: RejectCode = "invalid") -> RecordRejected:
        return RecordRejected(self.path, self._field.place, reason, code)


def find_part(row: Mapping[str, Any], name: str) -> Any:
    """The value of a field, or with `FIELD.PART` of a part of one."""
    if name in row:
        return row[name]
    first, _, part = name.partition(".")
    value = row.get(first)
    return value.get(part) if isinstance(value, Mapping) else None


def _alternatives(field: Field) -> list[Field]:
    """A field for each of its selectors; empty if it has one."""
    if not field.fallbacks:
        return []
    bare = replace(field, fallbacks=(), has_default=False, default=None, required=False)
    return [replace(bare, selector=selector) for selector in (field.selector, *field.fallbacks)]
