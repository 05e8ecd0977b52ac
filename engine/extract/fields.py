"""One field of a record: select → attribute → normalize → match → blank = missing → default → type → required.

Knows selectors, patterns and types; not how records are put together.
"""

from typing import TYPE_CHECKING, Any

from engine.extract.budget import Budget
from engine.extract.convert import converter_for, default_converter_for
from engine.extract.node_value import JsonValue, read_node
from engine.extract.patterns import PatternTimeout, TimedPattern
from engine.extract.selectors import Scope, Selector, compile_selector
from engine.model.definition import Field, SourcePosition
from engine.model.text_value import to_text

if TYPE_CHECKING:
    from engine.extract.node_value import SelectedNode

_MARKUP = frozenset(("html", "outerHtml"))


class RecordRejected(Exception):
    """A record cannot be written: the field's name (`variants.price` for a nested one), its place, and why."""

    def __init__(self, field: str, place: SourcePosition, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.place = place
        self.reason = reason


class FieldReader:
    """A field, compiled. One whose selector or pattern cannot be compiled rejects every record."""

    def __init__(self, field: Field, parent: str = "") -> None:
        self.name = field.name
        self.path = f"{parent}{field.name}"
        self._field = field
        self._nested = tuple(FieldReader(inner, f"{self.path}.") for inner in field.fields)
        self._convert = converter_for(field)
        self._keeps_whitespace = field.type == "json" or field.attribute in _MARKUP
        self._compile_error: str | None = None
        self._selector: Selector | None = None
        self._pattern: TimedPattern | None = None
        try:
            self._selector = compile_selector(field.selector)
            self._pattern = None if field.match is None else TimedPattern(field.match)
        except ValueError as error:
            self._compile_error = str(error)

    def read_value(self, scope: Scope, effort: Budget) -> Any:
        """The field's value in a page or block: a JSON type or `Decimal`, None when missing.

        With `all` a list of them, with nested fields a list of objects; empty when missing.
        Raises `Unfit`, and `TooMuch` from `effort`.
        """
        if self._compile_error is not None or self._selector is None:
            raise self._rejected(self._compile_error or "the field cannot be read")
        if self._nested:
            return self._or_default(self._read_objects(self._selector, scope, effort), effort)
        if self._field.all and self._field.value is None:
            texts = [self._read_text(node, effort) for node in self._selector.all(scope)]
            return self._or_default([self._convert_text(text, effort) for text in texts if text], effort)
        if self._field.value is not None:
            text = self._match_text(effort.context.render(self._field.value, effort.page), effort)
        else:
            node = self._selector.first(scope)
            text = None if node is None else self._read_text(self._first_value(node), effort)
        if not text:
            return self._or_default(None, effort)
        value = self._convert_text(text, effort)
        return [value] if self._field.all else value

    def _read_objects(self, selector: Selector, scope: Scope, effort: Budget) -> list[dict[str, Any]]:
        objects = []
        for node in selector.all(scope):
            effort.check_time()
            inner = Scope(scope.page, node)
            objects.append({reader.name: reader.read_value(inner, effort) for reader in self._nested})
        return objects

    def _first_value(self, node: "SelectedNode") -> "SelectedNode":
        # Without `all`, a JSON list means its first value, unless JSON is what is wanted.
        if isinstance(node, JsonValue) and isinstance(node.value, list) and self._field.type != "json":
            return JsonValue(next((value for value in node.value if value is not None), None))
        return node

    def _read_text(self, node: "SelectedNode", effort: Budget) -> str | None:
        if isinstance(node, JsonValue) and self._field.type == "json":
            text = node.as_json(self._field.attribute)
        else:
            text = read_node(node, self._field.attribute)
        return self._match_text(text, effort) if text else None

    def _match_text(self, text: str, effort: Budget) -> str | None:
        effort.charge(text)
        text = text.strip() if self._keeps_whitespace else " ".join(text.split())
        if self._pattern is None or not text:
            return text
        try:
            picked = self._pattern.find(text, effort.time_budget)
        except PatternTimeout as slow:
            raise self._rejected(str(slow)) from None
        return picked.strip() if picked else None

    def _convert_text(self, text: str, effort: Budget) -> Any:
        try:
            return self._convert(text, effort.page.base if self._field.type == "url" else "")
        except ValueError as error:
            raise self._rejected(str(error)) from None

    def _or_default(self, value: Any, effort: Budget) -> Any:
        """The value, or for a missing one the default, converted."""
        if value:
            return value
        field = self._field
        if field.has_default:
            value = self._convert_default(field.default, effort)
        elif field.all or field.fields:
            value = []
        if field.required and (value is None or value == []):
            raise self._rejected("the field is required, and nothing was found")
        return value

    def _convert_default(self, default: Any, effort: Budget) -> Any:
        if self._field.fields:
            return default
        if self._field.all:
            listed = default if isinstance(default, list | tuple) else [] if default is None else [default]
            return [self._convert_default_item(item, effort) for item in listed]
        return self._convert_default_item(default, effort)

    def _convert_default_item(self, default: Any, effort: Budget) -> Any:
        field = self._field
        if default is None or (field.type == "json" and not isinstance(default, str)):
            return default
        try:
            return default_converter_for(field)(
                to_text(default).strip(), effort.page.base if field.type == "url" else ""
            )
        except ValueError as error:
            raise self._rejected(f"the default: {error}") from None

    def _rejected(self, reason: str) -> RecordRejected:
        return RecordRejected(self.path, self._field.place, reason)
