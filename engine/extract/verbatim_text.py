"""Reads the text of a node as it is in the document: no white space is added but a line break for `<br>`."""

from typing import TYPE_CHECKING

from selectolax.lexbor import LexborNode

from engine.extract.node_value import SKIPPED_TAGS, JsonValue, read_node

if TYPE_CHECKING:
    from lxml.etree import _Element

    from engine.extract.node_value import SelectedNode


def read_verbatim(node: "SelectedNode", attribute: str) -> str | None:
    """The content or attribute of a node, as `read_node`; of text, white space is kept as written."""
    if attribute not in ("text", "ownText") or isinstance(node, str | JsonValue):
        return read_node(node, attribute)
    inner = attribute == "text"
    return _lexbor_text(node, inner=inner) if isinstance(node, LexborNode) else _element_text(node, inner=inner)


def _lexbor_text(node: LexborNode, *, inner: bool) -> str:
    pieces: list[str] = []
    todo = [node.iter(include_text=True)]  # iterators, not nodes: an element may have half a million children
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


def _element_text(element: "_Element", *, inner: bool) -> str:
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
