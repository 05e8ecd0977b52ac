"""The area of a search: a page, or one block of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.select.node_value import JsonValue

if TYPE_CHECKING:
    from lxml.etree import _Element

    from crawl_engine.extract.select.node_value import SelectedNode

# Outside a table, the HTML parser drops these tags.
_TABLE_PARTS = frozenset(("caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"))


class Scope:
    """A page or one block of it, which is converted to other node kinds on demand."""

    __slots__ = ("_element", "_html", "_parsed", "cells", "node", "page")

    def __init__(
        self, page: Page, node: "SelectedNode | None" = None, cells: "Mapping[str, SelectedNode] | None" = None
    ) -> None:
        self.page = page
        self.node = node
        """The block; None for the whole page."""
        self.cells = cells
        """If the block is a row of a table, its cells by their headings."""
        self._html: LexborNode | None = None
        self._element: _Element | None = None
        self._parsed: dict[object, Any] | None = None

    @property
    def html(self) -> LexborNode | None:
        """The block as a Lexbor node; None if it has no markup."""
        node = self.node
        if isinstance(node, LexborNode):
            return node
        if self._html is None and node is not None and not isinstance(node, JsonValue | str):
            self._html = _reparse(node)
        return self._html

    @property
    def element(self) -> "_Element | None":
        """The root of the page, or the block as the root of its own tree; None without markup."""
        node = self.node
        if node is None:
            return self.page.element
        if self._element is None and not isinstance(node, JsonValue | str):
            from crawl_engine.extract.documents.xpath import detach, parse_outer_html

            if isinstance(node, LexborNode):
                self._element = parse_outer_html(node.html or "", node.tag or "")
            else:
                self._element = detach(node)
        return self._element

    @property
    def placed(self) -> "_Element | None":
        """The root of the page, or the block at its place in the page; None without markup."""
        node, placed = self.node, self.page.placed
        if node is None or isinstance(node, JsonValue | str):
            return self.element
        if not isinstance(node, LexborNode):
            return node
        element = None if placed is None else placed.find(node)
        if element is None:
            self.page.faults["XPath cannot leave a block that its parser does not find in the page"] = None
        return self.element if element is None else element

    @property
    def parsed(self) -> dict[object, Any]:
        """Documents inside this page or block, by their source."""
        if self.node is None:
            return self.page.parsed
        if self._parsed is None:
            self._parsed = {}
        return self._parsed

    @property
    def value(self) -> Any:
        """The JSON value of the page or block, or `MISSING`."""
        node = self.node
        if type(node) is JsonValue:
            return node.value
        return self.page.data if node is None else MISSING


def _reparse(element: "_Element") -> LexborNode | None:
    from crawl_engine.extract.documents.xpath import outer_html

    tag = str(element.tag).lower()
    markup = outer_html(element)
    tree = LexborHTMLParser(f"<table>{markup}" if tag in _TABLE_PARTS else markup)
    return next((node for node in tree.css("*") if node.tag == tag), None)
