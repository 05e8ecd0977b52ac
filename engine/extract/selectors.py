"""One face for CSS, XPath and JMESPath: the first or all matches, on a page or in a block. Knows no fields."""

from typing import TYPE_CHECKING, Any, Protocol

from selectolax.lexbor import LexborHTMLParser, LexborNode

from engine.extract.css import Css
from engine.extract.node_value import Item
from engine.extract.page import NOTHING, Page
from engine.extract.selector_syntax import JMESPATH, XPATH

if TYPE_CHECKING:
    from lxml.etree import _Element

    from engine.extract.node_value import Node

# Outside of a table the parser drops the tags of its parts.
_IN_TABLE = frozenset(("caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"))


class Scope:
    """What a selector looks at: a whole page, or one block of it. A block is turned into other flavours on demand."""

    __slots__ = ("_element", "_html", "node", "page")

    def __init__(self, page: Page, node: "Node | None" = None) -> None:
        self.page = page
        self.node = node
        """The block; None: the whole page."""
        self._html: LexborNode | None = None
        self._element: _Element | None = None

    @property
    def html(self) -> LexborNode | None:
        """The block as Lexbor's node; None when it has no markup. Not for whole pages."""
        node = self.node
        if isinstance(node, LexborNode):
            return node
        if self._html is None and node is not None and not isinstance(node, Item | str):
            self._html = _reparsed(node)
        return self._html

    @property
    def element(self) -> "_Element | None":
        """The page's root, or the block as the root of its own tree; None when there is no markup."""
        node = self.node
        if node is None:
            return self.page.element
        if self._element is None and not isinstance(node, Item | str):
            from engine.extract.xpath import detached, from_html

            if isinstance(node, LexborNode):
                self._element = from_html(node.html or "", node.tag or "")
            else:
                self._element = detached(node)
        return self._element

    @property
    def value(self) -> Any:
        """The JSON value of the page or the block; `NOTHING` without one."""
        if self.node is None:
            return self.page.data
        return self.node.value if isinstance(self.node, Item) else NOTHING


class Selector(Protocol):
    """A compiled selector; both methods give nothing where the document is of another kind."""

    def first(self, scope: Scope) -> "Node | None":
        """The first match in the document's order."""

    def all(self, scope: Scope) -> "list[Node]":
        """All matches in the document's order."""


def compiled(text: str | None) -> Selector:
    """The selector a definition writes; None selects the page or block itself. Raises `ValueError`."""
    if text is None:
        return _Itself()
    bare = text.strip()
    if bare.startswith(XPATH):
        return _XPath(bare.removeprefix(XPATH).strip())
    if bare.startswith(JMESPATH):
        return _JmesPath(bare.removeprefix(JMESPATH).strip())
    return _Css(bare)


class _Css:
    def __init__(self, text: str) -> None:
        self._css = Css(text)

    def first(self, scope: Scope) -> LexborNode | None:
        if scope.node is None:
            tree = scope.page.tree
            return None if tree is None else self._css.first_on_page(tree)
        block = scope.html
        return None if block is None else self._css.first_in_block(block)

    def all(self, scope: Scope) -> "list[Node]":
        if scope.node is None:
            tree = scope.page.tree
            return [] if tree is None else [*self._css.on_page(tree)]
        block = scope.html
        return [] if block is None else [*self._css.in_block(block)]


class _XPath:
    def __init__(self, text: str) -> None:
        from engine.extract.xpath import Path

        self._path = Path(text)

    def first(self, scope: Scope) -> "_Element | str | None":
        return next(iter(self._found(scope)), None)

    def all(self, scope: Scope) -> "list[Node]":
        return [*self._found(scope)]

    def _found(self, scope: Scope) -> "list[_Element | str]":
        root = scope.element
        return [] if root is None else self._path.find(root, block=scope.node is not None)


class _JmesPath:
    def __init__(self, text: str) -> None:
        import jmespath

        try:
            self._search = jmespath.compile(text).search
        except RecursionError:
            raise ValueError("the JMESPath expression is nested too deep") from None

    def first(self, scope: Scope) -> Item | None:
        """The value itself, a list too: `all` takes lists apart, and `type: json` keeps them whole."""
        found = self._value(scope)
        return None if found is None else Item(found)

    def all(self, scope: Scope) -> "list[Node]":
        found = self._value(scope)
        values = found if isinstance(found, list) else [found]
        return [Item(value) for value in values if value is not None]

    def _value(self, scope: Scope) -> Any:
        value = scope.value
        if value is NOTHING:
            return None
        try:
            return self._search(value)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError):
            return None


class _Itself:
    def first(self, scope: Scope) -> "Node | None":
        if scope.node is not None:
            return scope.node
        if scope.page.tree is not None:
            return scope.page.tree.root
        return None if scope.page.data is NOTHING else Item(scope.page.data)

    def all(self, scope: Scope) -> "list[Node]":
        found = self.first(scope)
        return [] if found is None else [found]


def _reparsed(element: "_Element") -> LexborNode | None:
    from engine.extract.xpath import outer

    tag = str(element.tag).lower()
    markup = outer(element)
    tree = LexborHTMLParser(f"<table>{markup}" if tag in _IN_TABLE else markup)
    return next((node for node in tree.css("*") if node.tag == tag), None)
