"""Reads one field of a record.

Select → attribute → normalize → match → blank = missing → default → type → required.
"""

from typing import TYPE_CHECKING, Any

from engine.extract.budget import Budget
from engine.extract.convert import converter_for, default_converter_for
from engine.extract.cost import Cost
from engine.extract.node_value import JsonValue, read_node
from engine.extract.patterns import PatternTimeout, TimedPattern
from engine.extract.selectors import Scope, Selector, compile_selector
from engine.extract.user_converter import ConverterSource, FieldConverter, no_converters
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
        self._convert = converter_for(field)
        self._keeps_whitespace = field.type == "json" or field.attribute in _MARKUP
        self._compile_error: str | None = None
        self._selector: Selector | None = None
        self._pattern: TimedPattern | None = None
        try:
            self._selector = compile_selector(field.selector)
            self._pattern = None if field.match is None else TimedPattern(field.match)
            self._users_converters = tuple(converters(name) for name in field.convert)
        except ValueError as error:
            self._compile_error = str(error)

    @property
    def cost(self) -> Cost:
        """How its time may grow with the size of a page."""
        return max(
            Cost.LINEAR if self._selector is None else self._selector.cost,
            Cost.LINEAR if self._pattern is None else Cost.SQUARE,
            *[reader.cost for reader in self._nested],
        )

    @property
    def is_flat(self) -> bool:
        """Whether its time does not depend on the depth of an HTML page. Markup is written by recursion."""
        selector = self._selector
        return (selector is None or selector.is_flat) and not self._nested and self._field.attribute not in _MARKUP

    @property
    def reads_embedded_json(self) -> bool:
        """Whether its selector, or that of a nested field, does."""
        own = self._selector is not None and self._selector.reads_embedded_json
        return own or any(reader.reads_embedded_json for reader in self._nested)

    def read_value(self, scope: Scope, budget: Budget) -> Any:
        """The field's value in a page or block: a JSON type or `Decimal`, None when missing.

        With `all` a list of values, with nested fields a list of objects; empty when missing.
        Raises `RecordRejected`, `BudgetExceeded` and `OutOfTime`.
        """
        if self._field.from_step:
            return None
        if self._compile_error is not None or self._selector is None:
            raise self._rejected(self._compile_error or "the field cannot be read")
        if self._nested:
            return self._or_default(self._read_objects(self._selector, scope, budget), budget)
        if self._field.all and self._field.value is None:
            texts = [self._read_text(node, budget) for node in self._selector.all(scope)]
            return self._or_default([self._convert_text(text, budget) for text in texts if text], budget)
        if self._field.value is not None:
            text = self._match_text(budget.context.render(self._field.value, budget.page), budget)
        else:
            node = self._selector.first(scope)
            text = None if node is None else self._read_text(self._first_value(node), budget)
        if not text:
            return self._or_default(None, budget)
        value = self._convert_text(text, budget)
        return [value] if self._field.all else value

    def _read_objects(self, selector: Selector, scope: Scope, budget: Budget) -> list[dict[str, Any]]:
        objects = []
        for node in selector.all(scope):
            budget.check_time()
            inner = Scope(scope.page, node)
            objects.append({reader.name: reader.read_value(inner, budget) for reader in self._nested})
        return objects

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
            text = read_node(node, self._field.attribute)
        return self._match_text(text, budget) if text else None

    def _match_text(self, text: str, budget: Budget) -> str | None:
        budget.charge(text)
        text = text.strip() if self._keeps_whitespace else " ".join(text.split())
        if self._pattern is not None and text:
            try:
                matched = self._pattern.find(text, budget.time_budget)
            except PatternTimeout as error:
                raise self._rejected(str(error)) from None
            text = matched.strip() if matched else ""
        if self._users_converters and text:
            try:
                for convert in self._users_converters:
                    text = convert(text)
            except ValueError as error:
                raise self._rejected(str(error)) from None
        return text or None

    def _convert_text(self, text: str, budget: Budget) -> Any:
        try:
            if self._field.type != "url":
                return self._convert(text, "")
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
        elif field.all or field.fields:
            value = []
        if field.required and (value is None or value == []):
            raise self._rejected("the field is required but missing")
        return value

    def _convert_default(self, default: Any, budget: Budget) -> Any:
        if self._field.fields:
            return default
        if self._field.all:
            items = default if isinstance(default, list | tuple) else [] if default is None else [default]
            return [self._convert_default_item(item, budget) for item in items]
        return self._convert_default_item(default, budget)

    def _convert_default_item(self, default: Any, budget: Budget) -> Any:
        field = self._field
        if default is None or (field.type == "json" and not isinstance(default, str)):
            return default
        try:
            return default_converter_for(field)(
                to_text(default).strip(), budget.page.base if field.type == "url" else ""
            )
        except ValueError as error:
            raise self._rejected(f"the default: {error}") from None

    def _rejected(self, reason: str) -> RecordRejected:
        return RecordRejected(self.path, self._field.place, reason)
