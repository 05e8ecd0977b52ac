"""Reads one field of a record.

Select → attribute → whitespace → replace → match → split → convert → blank = missing → default → type → required.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.extract.budget import Budget
from engine.extract.convert import Converter, converter_for, default_converter_for
from engine.extract.cost import Cost
from engine.extract.human_dates import ANY_FORMAT, HumanDates
from engine.extract.json_value import MISSING
from engine.extract.node_value import JsonValue, json_value_text, read_node
from engine.extract.patterns import PatternTimeout, TimedPattern
from engine.extract.selectors import JmesPathSelector, PageSelector, Scope, Selector, compile_selector
from engine.extract.user_converter import ConverterSource, FieldConverter, no_converters
from engine.extract.verbatim_text import read_verbatim
from engine.model.definition import Field
from engine.model.stored_form import SourcePosition
from engine.model.text_value import to_text

if TYPE_CHECKING:
    from engine.extract.node_value import SelectedNode

_MARKUP = frozenset(("html", "outerHtml"))


class RecordRejected(Exception):
    """A field makes its record invalid. `field` is the path of the field: `variants.price` for a nested one."""

    def __init__(self, field: str, place: SourcePosition, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.place = place
        self.reason = reason


class FieldReader:
    """A compiled field. If its selector or pattern does not compile, it rejects every record."""

    def __init__(self, field: Field, parent: str = "", converters: ConverterSource = no_converters) -> None:
        """`converters`: finds those of users' code that fields name."""
        self.name = field.name
        self.path = f"{parent}{field.name}"
        self._is_counted = not parent and field.value is None
        self._field = field
        self._nested = tuple(FieldReader(inner, f"{self.path}.", converters) for inner in field.fields)
        self._users_converters: tuple[FieldConverter, ...] = ()
        self._keeps_whitespace = field.type == "json" or field.attribute in _MARKUP
        self._compile_error: str | None = None
        self._selector: Selector = compile_selector(None)
        self._pattern: TimedPattern | None = None
        self._replacements: tuple[tuple[TimedPattern, str], ...] = ()
        self._convert: Converter = converter_for(Field(name=field.name))
        self._dates: HumanDates | None = None
        try:
            selector = compile_selector(field.selector)
            self._selector = selector if field.scope is None else PageSelector(selector)
            self._pattern = None if field.match is None else TimedPattern(field.match)
            self._replacements = tuple((TimedPattern(pattern), text) for pattern, text in field.replace)
            self._users_converters = tuple(converters(name) for name in field.convert)
            self._convert = converter_for(field)
            if field.type == "date" and field.format == ANY_FORMAT:
                self._dates = HumanDates(field.locale or "")
        except ValueError as error:
            self._compile_error = str(error)
        # Each field does what its keys need, and nothing is decided for each value.
        self._read_node = read_node if field.whitespace is None else read_verbatim
        self._edit = self._match_text if field.whitespace is None and not field.replace else self._edit_text
        self._convert_text = self._choose_converter()
        self.read_value: Callable[[Scope, Budget], Any] = self._choose_reader()
        """Reads the value in a page or block: a JSON type or `Decimal`, None when missing.

        With `all` or `split` a list of values, with nested fields a list of objects; empty when missing.
        Raises `RecordRejected`, `BudgetExceeded` and `OutOfTime`.
        """

    @property
    def cost(self) -> Cost:
        """How its time may grow with the size of a page."""
        return max(
            self._selector.cost,
            Cost.LINEAR if self._pattern is None and not self._replacements else Cost.SQUARE,
            *[reader.cost for reader in self._nested],
        )

    @property
    def is_flat(self) -> bool:
        """Whether its time does not depend on the depth of an HTML page. Markup is written by recursion."""
        return self._selector.is_flat and not self._nested and self._field.attribute not in _MARKUP

    @property
    def reads_embedded_json(self) -> bool:
        """Whether its selector, or that of a nested field, does."""
        return self._selector.reads_embedded_json or any(reader.reads_embedded_json for reader in self._nested)

    def _choose_reader(self) -> Callable[[Scope, Budget], Any]:
        field = self._field
        if field.from_step:
            return self._read_nothing
        if self._compile_error is not None:
            return self._read_invalid
        if self._nested:
            return self._read_objects
        if field.split is not None:
            return self._read_parts
        if field.value is not None:
            return self._read_constant
        if isinstance(self._selector, JmesPathSelector) and not self._changes_json:
            read = self._read_json_values if field.all else self._read_json_value
            return partial(read, self._selector.expression.search)
        return self._read_all if field.all else self._read_first

    @property
    def _changes_json(self) -> bool:
        """Whether it reads more of JSON than the text of one value, or changes that text."""
        field = self._field
        changes_text = field.match or field.replace or field.whitespace or field.convert
        return bool(field.type == "json" or field.attribute != "text" or changes_text)

    def _choose_converter(self) -> Callable[[str, Budget], Any]:
        if self._field.type in ("url", "file"):
            return self._convert_url
        if self._dates is not None:
            return self._convert_date
        if self._field.type == "str":
            return _keep_text
        return self._convert_slowly if self._field.type == "price" else self._convert_value

    def _read_nothing(self, _scope: Scope, _budget: Budget) -> None:
        """A step fills the field later."""

    def _read_invalid(self, _scope: Scope, _budget: Budget) -> Any:
        raise self._rejected(self._compile_error or "the field cannot be read")

    def _read_first(self, scope: Scope, budget: Budget) -> Any:
        node = self._selector.first(scope)
        text = None if node is None else self._read_text(self._first_value(node), budget)
        return self._convert_text(text, budget) if text else self._or_default(None, budget)

    def _read_json_value(self, search: Callable[[Any], Any], scope: Scope, budget: Budget) -> Any:
        """As `_read_first` does, in half the time: API answers have hundreds of records."""
        document = scope.value
        value = None if document is MISSING else search(document)
        if type(value) is list:
            value = next((item for item in value if item is not None), None)
        text = json_value_text(value)
        if text:
            text = self._edit(text, budget)
        return self._convert_text(text, budget) if text else self._or_default(None, budget)

    def _read_json_values(self, search: Callable[[Any], Any], scope: Scope, budget: Budget) -> Any:
        """As `_read_all` does, in half the time."""
        document = scope.value
        found = None if document is MISSING else search(document)
        texts: list[str | None] = []
        for value in found if isinstance(found, list) else (found,):
            budget.time_budget.check_patience()
            text = json_value_text(value)
            if text:
                texts.append(self._edit(text, budget))
        return self._or_default([self._convert_text(text, budget) for text in texts if text], budget)

    def _read_all(self, scope: Scope, budget: Budget) -> Any:
        texts = [self._read_text(node, budget) for node in self._selector.all(scope)]
        return self._or_default([self._convert_text(text, budget) for text in texts if text], budget)

    def _read_constant(self, _scope: Scope, budget: Budget) -> Any:
        text = self._edit(budget.context.render(self._field.value or "", budget.page), budget)
        if not text:
            return self._or_default(None, budget)
        value = self._convert_text(text, budget)
        return [value] if self._field.all else value

    def _read_parts(self, scope: Scope, budget: Budget) -> Any:
        values = []
        for text in self._texts_to_split(scope, budget):
            for part in self._split_text(text, budget):
                converted = self._apply_converters(part)
                if converted:
                    values.append(self._convert_text(converted, budget))
        return self._or_default(values, budget)

    def _texts_to_split(self, scope: Scope, budget: Budget) -> Iterator[str]:
        if self._field.value is not None:
            yield self._edit(budget.context.render(self._field.value, budget.page), budget) or ""
            return
        if self._field.all:
            nodes = self._selector.all(scope)
        else:
            first = self._selector.first(scope)
            nodes = [] if first is None else [self._first_value(first)]
        for node in nodes:
            budget.check_time()
            yield self._read_text(node, budget) or ""

    def _split_text(self, text: str, budget: Budget) -> Iterator[str]:
        """The parts of a text that are not blank, normalized."""
        separator = self._field.split or ""
        budget.charge_parts(text.count(separator))
        for part in text.split(separator):
            normalized = " ".join(part.split())
            if normalized:
                yield normalized

    def _read_objects(self, scope: Scope, budget: Budget) -> Any:
        objects = []
        for node in self._selector.all(scope):
            budget.check_time()
            inner = Scope(scope.page, node)
            objects.append({reader.name: reader.read_value(inner, budget) for reader in self._nested})
        return self._or_default(objects, budget)

    def _first_value(self, node: "SelectedNode") -> "SelectedNode":
        # Without `all`, a JSON list stands for its first value, unless the type is JSON.
        if isinstance(node, JsonValue) and isinstance(node.value, list) and self._field.type != "json":
            return JsonValue(next((value for value in node.value if value is not None), None))
        return node

    def _read_text(self, node: "SelectedNode", budget: Budget) -> str | None:
        budget.time_budget.check_patience()
        if isinstance(node, JsonValue) and self._field.type == "json":
            text = node.as_json(self._field.attribute)
        else:
            text = self._read_node(node, self._field.attribute)
        return self._edit(text, budget) if text else None

    def _match_text(self, text: str, budget: Budget) -> str | None:
        budget.charge(text)
        text = text.strip() if self._keeps_whitespace else " ".join(text.split())
        if self._pattern is not None and text:
            try:
                matched = self._pattern.find(text, budget.time_budget)
            except PatternTimeout as error:
                raise self._rejected(str(error)) from None
            text = matched.strip() if matched else ""
        if self._users_converters and text and self._field.split is None:
            text = self._apply_converters(text)
        return text or None

    def _edit_text(self, text: str, budget: Budget) -> str | None:
        """As `_match_text`, with `whitespace` and `replace`."""
        budget.charge(text)
        field = self._field
        if field.whitespace is None:
            text = text.strip() if self._keeps_whitespace else " ".join(text.split())
        try:
            for pattern, replacement in self._replacements:
                if text:
                    text = pattern.replace(replacement, text, budget.time_budget)
                    budget.charge(text)
            if self._pattern is not None and text:
                text = self._pattern.find(text, budget.time_budget) or ""
        except (PatternTimeout, ValueError) as error:
            raise self._rejected(str(error)) from None
        if field.whitespace is None or field.type != "str" or text.isspace():
            text = text.strip()
        if text and field.split is None:
            text = self._apply_converters(text)
        return text or None

    def _apply_converters(self, text: str) -> str:
        """The text from users' converters; an empty one is missing."""
        try:
            for convert in self._users_converters:
                text = convert(text)
        except ValueError as error:
            raise self._rejected(str(error)) from None
        return text

    def _convert_value(self, text: str, _budget: Budget) -> Any:
        try:
            return self._convert(text, "")
        except ValueError as error:
            raise self._rejected(str(error)) from None

    def _convert_slowly(self, text: str, budget: Budget) -> Any:
        """Takes up to milliseconds: a list of such texts is one value, and would take longer than a page may."""
        budget.check_time()
        return self._convert_value(text, budget)

    def _convert_date(self, text: str, budget: Budget) -> Any:
        assert self._dates is not None
        budget.check_time()  # as above
        try:
            return self._dates.parse(text, budget.page.fetched_at)
        except ValueError as error:
            raise self._rejected(str(error)) from None

    def _convert_url(self, text: str, budget: Budget) -> Any:
        try:
            url = self._convert(text, budget.page.base)
        except ValueError as error:
            raise self._rejected(str(error)) from None
        budget.charge(url)  # a relative URL repeats the base of the page
        return url

    def _or_default(self, value: Any, budget: Budget) -> Any:
        """The value, or the converted default if the value is missing."""
        if value:
            return value
        field = self._field
        if self._is_counted:
            budget.missing.append(self.name)
        if field.has_default:
            value = self._convert_default(field.default, budget)
        elif field.is_list or field.fields:
            value = []
        if field.required and (value is None or value == []):
            raise self._rejected("the field is required but missing")
        return value

    def _convert_default(self, default: Any, budget: Budget) -> Any:
        if self._field.fields:
            return default
        if self._field.is_list:
            items = default if isinstance(default, list | tuple) else [] if default is None else [default]
            return [self._convert_default_item(item, budget) for item in items]
        return self._convert_default_item(default, budget)

    def _convert_default_item(self, default: Any, budget: Budget) -> Any:
        field = self._field
        if default is None or (field.type == "json" and not isinstance(default, str)):
            return default
        try:
            return default_converter_for(field)(
                to_text(default).strip(), budget.page.base if field.type in ("url", "file") else ""
            )
        except ValueError as error:
            raise self._rejected(f"the default: {error}") from None

    def _rejected(self, reason: str) -> RecordRejected:
        return RecordRejected(self.path, self._field.place, reason)


def _keep_text(text: str, _budget: Budget) -> str:
    return text
