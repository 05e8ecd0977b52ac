"""One field of a record: select → attribute → normalize → match → blank = missing → default → type → required.

Knows selectors, patterns and types; not how records are put together.
"""

from typing import TYPE_CHECKING, Any

from engine.extract.budget import Effort
from engine.extract.convert import converter, default_converter
from engine.extract.node_value import Item, read
from engine.extract.patterns import Pattern, TooSlow
from engine.extract.selectors import Scope, Selector, compiled
from engine.model.definition import Field, Place
from engine.model.text_value import written

if TYPE_CHECKING:
    from engine.extract.node_value import Node

_MARKUP = frozenset(("html", "outerHtml"))


class Unfit(Exception):
    """A record cannot be written: the field's name (`variants.price` for a nested one), its place, and why."""

    def __init__(self, field: str, place: Place, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.place = place
        self.reason = reason


class Reader:
    """A field, compiled. One whose selector or pattern cannot be compiled rejects every record."""

    def __init__(self, field: Field, parent: str = "") -> None:
        self.name = field.name
        self.path = f"{parent}{field.name}"
        self._field = field
        self._inner = tuple(Reader(inner, f"{self.path}.") for inner in field.fields)
        self._convert = converter(field)
        self._keeps_space = field.type == "json" or field.attribute in _MARKUP
        self._fault: str | None = None
        self._selector: Selector | None = None
        self._pattern: Pattern | None = None
        try:
            self._selector = compiled(field.selector)
            self._pattern = None if field.match is None else Pattern(field.match)
        except ValueError as error:
            self._fault = str(error)

    def value(self, scope: Scope, effort: Effort) -> Any:
        """The field's value in a page or block: a JSON type or `Decimal`, None when missing.

        With `all` a list of them, with nested fields a list of objects; empty when missing.
        Raises `Unfit`, and `TooMuch` from `effort`.
        """
        if self._fault is not None or self._selector is None:
            raise self._unfit(self._fault or "the field cannot be read")
        if self._inner:
            return self._or_default(self._objects(self._selector, scope, effort), effort)
        if self._field.all and self._field.value is None:
            texts = [self._text(node, effort) for node in self._selector.all(scope)]
            return self._or_default([self._converted(text, effort) for text in texts if text], effort)
        if self._field.value is not None:
            text = self._picked(effort.context.render(self._field.value, effort.page), effort)
        else:
            node = self._selector.first(scope)
            text = None if node is None else self._text(self._single(node), effort)
        if not text:
            return self._or_default(None, effort)
        value = self._converted(text, effort)
        return [value] if self._field.all else value

    def _objects(self, selector: Selector, scope: Scope, effort: Effort) -> list[dict[str, Any]]:
        objects = []
        for node in selector.all(scope):
            effort.check_time()
            inner = Scope(scope.page, node)
            objects.append({reader.name: reader.value(inner, effort) for reader in self._inner})
        return objects

    def _single(self, node: "Node") -> "Node":
        # Without `all`, a JSON list means its first value, unless JSON is what is wanted.
        if isinstance(node, Item) and isinstance(node.value, list) and self._field.type != "json":
            return Item(next((value for value in node.value if value is not None), None))
        return node

    def _text(self, node: "Node", effort: Effort) -> str | None:
        if isinstance(node, Item) and self._field.type == "json":
            text = node.as_json(self._field.attribute)
        else:
            text = read(node, self._field.attribute)
        return self._picked(text, effort) if text else None

    def _picked(self, text: str, effort: Effort) -> str | None:
        effort.take(text)
        text = text.strip() if self._keeps_space else " ".join(text.split())
        if self._pattern is None or not text:
            return text
        try:
            picked = self._pattern.picked(text, effort.patience)
        except TooSlow as slow:
            raise self._unfit(str(slow)) from None
        return picked.strip() if picked else None

    def _converted(self, text: str, effort: Effort) -> Any:
        try:
            return self._convert(text, effort.page.base if self._field.type == "url" else "")
        except ValueError as error:
            raise self._unfit(str(error)) from None

    def _or_default(self, value: Any, effort: Effort) -> Any:
        """The value, or for a missing one the default, converted."""
        if value:
            return value
        field = self._field
        if field.has_default:
            value = self._default(field.default, effort)
        elif field.all or field.fields:
            value = []
        if field.required and (value is None or value == []):
            raise self._unfit("the field is required, and nothing was found")
        return value

    def _default(self, default: Any, effort: Effort) -> Any:
        if self._field.fields:
            return default
        if self._field.all:
            listed = default if isinstance(default, list | tuple) else [] if default is None else [default]
            return [self._default_value(item, effort) for item in listed]
        return self._default_value(default, effort)

    def _default_value(self, default: Any, effort: Effort) -> Any:
        field = self._field
        if default is None or (field.type == "json" and not isinstance(default, str)):
            return default
        try:
            return default_converter(field)(written(default).strip(), effort.page.base if field.type == "url" else "")
        except ValueError as error:
            raise self._unfit(f"the default: {error}") from None

    def _unfit(self, reason: str) -> Unfit:
        return Unfit(self.path, self._field.place, reason)
