"""One interface to CSS, XPath and JMESPath selectors, on a page or in a block."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from selectolax.lexbor import LexborHTMLParser, LexborNode

from engine.extract.cost import Cost
from engine.extract.css import CssExpression
from engine.extract.node_value import JsonValue
from engine.extract.page import MISSING, Page
from engine.extract.selector_syntax import JMESPATH_PREFIX, XPATH_PREFIX
from engine.extract.tree_shape import TreeShape

if TYPE_CHECKING:
    from lxml.etree import _Element

    from engine.extract.node_value import SelectedNode
    from engine.extract.xml_css import XmlCssExpression

# Outside a table, the HTML parser drops these tags.
_TABLE_PARTS = frozenset(("caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"))


class Scope:
    """What a selector searches: a page or one block of it. Converts a block to other node kinds on demand."""

    __slots__ = ("_element", "_html", "_shape", "node", "page")

    def __init__(self, page: Page, node: "SelectedNode | None" = None) -> None:
        self.page = page
        self.node = node
        """The block; None for the whole page."""
        self._html: LexborNode | None = None
        self._shape: TreeShape | None = None
        self._element: _Element | None = None

    @property
    def html(self) -> LexborNode | None:
        """The block as a Lexbor node; None when it has no markup. For blocks only."""
        node = self.node
        if isinstance(node, LexborNode):
            return node
        if self._html is None and node is not None and not isinstance(node, JsonValue | str):
            self._html = _reparse(node)
        return self._html

    def shape_of(self, block: LexborNode) -> TreeShape:
        """The shape of the tree of this scope's block."""
        if self._shape is None:
            shape = self.page.shape
            self._shape = shape if shape is not None and shape.tree is block.parser else TreeShape(block.parser)
        return self._shape

    @property
    def element(self) -> "_Element | None":
        """The root of the page, or the block as the root of its own tree; None when there is no markup."""
        node = self.node
        if node is None:
            return self.page.element
        if self._element is None and not isinstance(node, JsonValue | str):
            from engine.extract.xpath import detach, parse_outer_html

            if isinstance(node, LexborNode):
                self._element = parse_outer_html(node.html or "", node.tag or "")
            else:
                self._element = detach(node)
        return self._element

    @property
    def value(self) -> Any:
        """The JSON value of the page or block; `MISSING` if there is none."""
        if self.node is None:
            return self.page.data
        return self.node.value if isinstance(self.node, JsonValue) else MISSING


class Selector(Protocol):
    """A compiled selector. Matches nothing in a document of another kind."""

    @property
    def cost(self) -> Cost:
        """How its time may grow with the size of a page."""

    @property
    def is_flat(self) -> bool:
        """Whether its time does not depend on the depth of an HTML page."""

    def first(self, scope: Scope) -> "SelectedNode | None":
        """The first match in document order."""

    def all(self, scope: Scope) -> "list[SelectedNode]":
        """All matches in document order."""

    def each(self, scope: Scope) -> "Iterator[SelectedNode]":
        """The same, of a page with very many elements one by one."""


def compile_selector(text: str | None) -> Selector:
    """Compiles a selector; None selects the page or block itself. Raises `ValueError`."""
    if text is None:
        return _SelfSelector()
    bare = text.strip()
    if bare.startswith(XPATH_PREFIX):
        return _XPathSelector(bare.removeprefix(XPATH_PREFIX).strip())
    if bare.startswith(JMESPATH_PREFIX):
        return _JmesPathSelector(bare.removeprefix(JMESPATH_PREFIX).strip())
    return _CssSelector(bare)


class PageSelector:
    """A selector that searches the whole page from inside a block, once for all blocks."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self.cost = selector.cost
        self.is_flat = selector.is_flat

    def first(self, scope: Scope) -> "SelectedNode | None":
        """The first match on the page."""
        key = (self, "first")
        selections = scope.page.selections
        if key not in selections:
            selections[key] = self._selector.first(Scope(scope.page))
        node: SelectedNode | None = selections[key]
        return node

    def all(self, scope: Scope) -> "list[SelectedNode]":
        """All matches on the page."""
        key = (self, "all")
        selections = scope.page.selections
        if key not in selections:
            selections[key] = self._selector.all(Scope(scope.page))
        nodes: list[SelectedNode] = selections[key]
        return nodes

    def each(self, scope: Scope) -> "Iterator[SelectedNode]":
        """The same one by one."""
        return iter(self.all(scope))


class _CssSelector:
    def __init__(self, text: str) -> None:
        self._text = text
        self._css = CssExpression(text)
        self.cost = self._css.cost
        self.is_flat = self._css.is_flat
        self._xml_css: XmlCssExpression | None = None

    def first(self, scope: Scope) -> "SelectedNode | None":
        if scope.page.kind == "xml":
            return next(iter(self._find_in_xml(scope)), None)
        if scope.node is None:
            tree, shape = scope.page.tree, scope.page.shape
            return None if tree is None or shape is None else self._css.find_first_on_page(tree, shape)
        block = scope.html
        return None if block is None else self._css.find_first_in_block(block, scope.shape_of(block))

    def all(self, scope: Scope) -> "list[SelectedNode]":
        if scope.page.kind == "xml":
            return [*self._find_in_xml(scope)]
        if scope.node is None:
            tree, shape = scope.page.tree, scope.page.shape
            return [] if tree is None or shape is None else [*self._css.find_on_page(tree, shape)]
        block = scope.html
        return [] if block is None else [*self._css.find_in_block(block, scope.shape_of(block))]

    def each(self, scope: Scope) -> "Iterator[SelectedNode]":
        page = scope.page
        if page.kind == "html" and scope.node is None and page.is_huge:
            assert page.tree is not None
            assert page.shape is not None
            return self._css.iterate_page(page.tree, page.shape)
        return iter(self.all(scope))

    def _find_in_xml(self, scope: Scope) -> "list[_Element]":
        root = scope.element
        if root is None:
            return []
        if self._xml_css is None:
            from engine.extract.xml_css import XmlCssExpression

            self._xml_css = XmlCssExpression(self._text)
        return self._xml_css.find(root, block=scope.node is not None)


class _XPathSelector:
    def __init__(self, text: str) -> None:
        from engine.extract.xpath import XPathExpression

        self._expression = XPathExpression(text)
        self.cost = self._expression.cost
        self.is_flat = False

    def first(self, scope: Scope) -> "_Element | str | None":
        return next(iter(self._select(scope)), None)

    def all(self, scope: Scope) -> "list[SelectedNode]":
        return [*self._select(scope)]

    def each(self, scope: Scope) -> "Iterator[SelectedNode]":
        return iter(self.all(scope))

    def _select(self, scope: Scope) -> "list[_Element | str]":
        root = scope.element
        return [] if root is None else self._expression.find(root, block=scope.node is not None)


class _JmesPathSelector:
    cost = Cost.LINEAR
    is_flat = True

    def __init__(self, text: str) -> None:
        import jmespath

        try:
            self._search = jmespath.compile(text).search
        except RecursionError:
            raise ValueError("the JMESPath expression is nested too deep") from None

    def first(self, scope: Scope) -> JsonValue | None:
        """The value, even a list: `all` splits lists, `type: json` keeps them."""
        value = self._evaluate(scope)
        return None if value is None else JsonValue(value)

    def all(self, scope: Scope) -> "list[SelectedNode]":
        value = self._evaluate(scope)
        values = value if isinstance(value, list) else [value]
        return [JsonValue(value) for value in values if value is not None]

    def each(self, scope: Scope) -> "Iterator[SelectedNode]":
        return iter(self.all(scope))

    def _evaluate(self, scope: Scope) -> Any:
        value = scope.value
        if value is MISSING:
            return None
        try:
            return self._search(value)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError):
            return None


class _SelfSelector:
    cost = Cost.LINEAR
    is_flat = True

    def first(self, scope: Scope) -> "SelectedNode | None":
        if scope.node is not None:
            return scope.node
        if scope.page.tree is not None:
            return scope.page.tree.root
        if scope.page.kind == "xml":
            return scope.page.element
        return None if scope.page.data is MISSING else JsonValue(scope.page.data)

    def all(self, scope: Scope) -> "list[SelectedNode]":
        node = self.first(scope)
        return [] if node is None else [node]

    def each(self, scope: Scope) -> "Iterator[SelectedNode]":
        return iter(self.all(scope))


def _reparse(element: "_Element") -> LexborNode | None:
    from engine.extract.xpath import outer_html

    tag = str(element.tag).lower()
    markup = outer_html(element)
    tree = LexborHTMLParser(f"<table>{markup}" if tag in _TABLE_PARTS else markup)
    return next((node for node in tree.css("*") if node.tag == tag), None)
