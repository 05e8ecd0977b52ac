"""Reads the text, an attribute or the markup of a selected node of any kind."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import orjson
from selectolax.lexbor import LexborNode

from crawl_engine.extract.documents.json_value import JsonNumber, make_encodable

if TYPE_CHECKING:
    from lxml.etree import _Element

_BLOCK_TAG_NAMES = """
address article aside blockquote br button caption center dd details dialog dir div dl dt fieldset figcaption figure
footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu nav ol optgroup option p pre search section summary
table tbody td textarea tfoot th thead title tr ul
"""
# Text before and after these is separated by a space.
_BLOCK_TAGS = frozenset(_BLOCK_TAG_NAMES.split())
SKIPPED_TAGS = frozenset(("script", "style"))
"""Elements whose text does not belong to the element around them."""
_SPACES: Mapping[str | None, str | None] = {**dict.fromkeys(_BLOCK_TAGS, " "), **dict.fromkeys(SKIPPED_TAGS)}
"""By tag, the characters around the text of an element; None: its text is skipped. Other tags add nothing."""

BOUNDARY, RAISED = "\ufdd0", "\ufdd1"
"""Noncharacters that stand for a tag within a text with a number; the latter for one of `sup` or `small`."""
_NUMBER_SPACES: Mapping[str | None, str | None] = {
    **_SPACES, **dict.fromkeys(("sup", "small"), RAISED), **dict.fromkeys(("wbr", "-comment", "-text"), ""),
}  # fmt: skip

MARKUP_ATTRIBUTES = frozenset(("html", "outerHtml"))
"""Values of `attribute` that name markup, whose white space is kept."""
CONTENT_ATTRIBUTES = MARKUP_ATTRIBUTES | {"text", "ownText"}
"""Values that name content, not an attribute."""


class JsonValue:
    """A value selected in a JSON document."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def as_json(self, attribute: str) -> str | None:
        """The value, or its member `attribute`, as JSON text; None when missing."""
        if attribute in CONTENT_ATTRIBUTES:
            return json_text(self.value)
        return json_text(self.value.get(attribute)) if isinstance(self.value, dict) else None


if TYPE_CHECKING:
    SelectedNode = LexborNode | _Element | JsonValue | str


def read_node(node: "SelectedNode", attribute: str) -> str | None:
    """The content or attribute of a node, with its white space; None when missing."""
    if isinstance(node, LexborNode):
        if attribute == "text":
            return read_text(node)
        if attribute == "ownText":
            return _lexbor_own_text(node)
        if attribute == "html":
            return node.inner_html
        if attribute == "outerHtml":
            return node.html
        return node.attrs.get(attribute)
    if isinstance(node, str):
        return node if attribute in CONTENT_ATTRIBUTES else None
    if isinstance(node, JsonValue):
        return _read_json(node.value, attribute)
    return _read_element(node, attribute)


def json_text(value: Any) -> str | None:
    """A JSON value as JSON text, with its numbers as written; None when it is null or nested too deep."""
    if value is None:
        return None
    try:
        return orjson.dumps(value, default=_encode_number).decode()
    except TypeError:  # huge integers, lone surrogates, more than 254 levels
        pass
    try:
        return orjson.dumps(make_encodable(value), default=_encode_number).decode()
    except (TypeError, RecursionError):
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None


def _encode_number(value: Any) -> orjson.Fragment:
    if isinstance(value, JsonNumber):
        return orjson.Fragment(json_value_text(value) or "0")
    raise TypeError(type(value).__name__)


def read_text(node: "SelectedNode", spaces: Mapping[str | None, str | None] = _SPACES, inline: str = "") -> str | None:
    """The text of a node, as `read_node` reads it. `inline`: what tags that `spaces` lacks add around their text."""
    if not isinstance(node, LexborNode):
        return read_node(node, "text") if isinstance(node, str | JsonValue) else _element_text(node, spaces, inline)
    child = node.first_child
    if child is None:
        return ""
    if child.next is None and (text := child.text_content) is not None:
        return text  # most elements with text have nothing else
    space = spaces.get(node.tag, inline)
    if space is None:
        return node.text()
    pieces = [space]
    # iterators, not lists of nodes: an element may have very many children; each with the text after it
    todo: list[tuple[Iterator[LexborNode], str]] = [(node.iter(include_text=True), space)]
    while todo:
        parts, end = todo[-1]
        for part in parts:
            if (text := part.text_content) is not None:
                pieces.append(text)
            elif (space := spaces.get(part.tag, inline)) is not None:
                child = part.first_child
                if child is None:
                    pieces.append(space + space)
                elif child.next is None and (text := child.text_content) is not None:
                    pieces += (space, text, space)
                else:
                    pieces.append(space)
                    todo.append((part.iter(include_text=True), space))
                    break
        else:
            todo.pop()
            pieces.append(end)
    return "".join(pieces)


def read_marked_text(node: "SelectedNode", attribute: str = "text") -> str | None:
    """The text of a node, or its own, in which `BOUNDARY` and `RAISED` stand for the tags of inline elements."""
    if attribute == "text":
        return read_text(node, _NUMBER_SPACES, BOUNDARY)
    if isinstance(node, LexborNode):
        return _lexbor_own_text(node, _NUMBER_SPACES, BOUNDARY)
    if isinstance(node, str | JsonValue):
        return read_node(node, attribute)
    return _element_own_text(node, _NUMBER_SPACES, BOUNDARY)


def _lexbor_own_text(node: LexborNode, spaces: Mapping[str | None, str | None] = _SPACES, inline: str = "") -> str:
    pieces: list[str] = []
    for child in node.iter(include_text=True):
        if child.is_text_node:
            pieces.append(child.text_content or "")
        else:
            pieces.append(spaces.get(child.tag, inline) or "")
    return "".join(pieces)


def _element_own_text(element: "_Element", spaces: Mapping[str | None, str | None] = _SPACES, inline: str = "") -> str:
    pieces = [element.text or ""]
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else "-comment"
        pieces += (spaces.get(tag, inline) or "", child.tail or "")
    return "".join(pieces)


def _read_json(value: Any, attribute: str) -> str | None:
    if attribute not in CONTENT_ATTRIBUTES:
        if not isinstance(value, dict):
            return None
        value = value.get(attribute)
    return json_value_text(value)


def json_value_text(value: Any) -> str | None:
    """The text of a JSON value: a string itself, a list or an object as JSON; None for null."""
    if isinstance(value, str):
        return value
    if type(value) is int:  # not a bool
        return str(value)
    if isinstance(value, JsonNumber):
        return getattr(value, "digits", None) or repr(float(value))
    return json_text(value)


def _read_element(element: "_Element", attribute: str) -> str | None:
    if attribute == "text":
        return _element_text(element)
    if attribute == "ownText":
        return _element_own_text(element)
    if attribute in CONTENT_ATTRIBUTES:
        from crawl_engine.extract.documents.xpath import outer_html

        if attribute == "outerHtml":
            return outer_html(element)
        return escape(element.text or "", quote=False) + "".join(
            outer_html(child) + escape(child.tail or "", quote=False) for child in element
        )
    value = element.get(attribute)
    if value is None:
        value = element.get(attribute.lower())
    if value is None and len(element.attrib):  # by local name, in any namespace: XML
        name = attribute.rpartition(":")[2]
        value = next((str(text) for key, text in element.items() if str(key).rpartition("}")[2] == name), None)
    return value


def _element_text(element: "_Element", spaces: Mapping[str | None, str | None] = _SPACES, inline: str = "") -> str:
    pieces: list[str] = []
    todo: list[_Element | str] = [element]
    while todo:
        part = todo.pop()
        if isinstance(part, str):
            pieces.append(part)
            continue
        tag = part.tag
        if part is not element and part.tail:
            todo.append(part.tail)
        # The tag of comments, processing instructions and unresolved entities is not a string.
        if not isinstance(tag, str) or (tag in SKIPPED_TAGS and part is not element):
            continue
        if space := spaces.get(tag, inline):
            pieces.append(space)
            todo.append(space)
        todo.extend(reversed(part))
        if part.text:
            pieces.append(part.text)
    return "".join(pieces)


def read_verbatim(node: "SelectedNode", attribute: str) -> str | None:
    """The content or attribute of a node, as `read_node`, but text keeps its white space."""
    if attribute not in ("text", "ownText") or isinstance(node, str | JsonValue):
        return read_node(node, attribute)
    inner = attribute == "text"
    return (
        _written_text_of_node(node, inner=inner)
        if isinstance(node, LexborNode)
        else _written_text_of_element(node, inner=inner)
    )


def _written_text_of_node(node: LexborNode, *, inner: bool) -> str:
    pieces: list[str] = []
    todo = [node.iter(include_text=True)]  # iterators, not lists: very many children
    while todo:
        for part in todo[-1]:
            if part.is_text_node:
                pieces.append(part.text_content or "")
            elif part.tag == "br":
                pieces.append("\n")
            elif inner and part.tag not in SKIPPED_TAGS:
                todo.append(part.iter(include_text=True))
                break
        else:
            todo.pop()
    return "".join(pieces)


def _written_text_of_element(element: "_Element", *, inner: bool) -> str:
    pieces = [element.text or ""]
    todo: list[_Element | str] = [*reversed(element)]
    while todo:
        part = todo.pop()
        if isinstance(part, str):
            pieces.append(part)
            continue
        if part.tail:
            todo.append(part.tail)
        if part.tag == "br":
            pieces.append("\n")
        # The tag of comments, processing instructions and unresolved entities is not a string.
        elif inner and isinstance(part.tag, str) and part.tag not in SKIPPED_TAGS:
            todo.extend(reversed(part))
            pieces.append(part.text or "")
    return "".join(pieces)
