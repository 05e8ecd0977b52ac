"""Selects the values of a table's axes on a page, in one of two flavours."""

import re
from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from selectolax.lexbor import LexborNode

from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.patterns import TimedPattern
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.css import CssExpression
from crawl_engine.extract.select.selector_syntax import split_attribute
from crawl_engine.model.axis import SelectorFlavour
from crawl_engine.model.variables import render

_PSEUDO = re.compile(r"([A-Za-z][\w-]*|\*)?((?:\[[^\]]*\]|[.#][\w-]+)*):(contains|containsOwn|matches|matchesOwn)\(")
_COMBINATOR = re.compile(r"[\s>+~,]")
_CELL = re.compile(
    r"""([^,"'()]*(?:\([^()"']*\)[^,"'()]*)*?)\s*>\s*([A-Za-z][\w-]*|\*?):nth-child\(\s*([0-9]+)\s*\)\s*"""
)
_NUMBERED = re.compile(r"([A-Za-z][\w-]*|\*?):nth-child\(\s*([0-9]+)\s*\)")
_XPATH_LITERAL = re.compile(r"""'[^']*'|"[^"]*\"""")
_PLAIN_TEXT = re.compile(r"[\w.-]*")
"""A name or a number, which needs no quotes in an XPath."""
_CSS_SPECIAL = re.compile(r"[^\w-]")
_UNQUOTED = re.compile(r"""["']*((?:\\.|[^\\])*?)["']*\\?""", re.DOTALL)
"""The argument of `:contains` without the quotes around it."""
_ESCAPED = re.compile(r"\\(\W)")
_MARK = "crawl-console-text-"


class _TextTest(NamedTuple):
    """`li:contains(Tax)`: the compound `li`, the pseudo-class and its argument."""

    compound: str
    pseudo: str
    argument: str


class AxisFinder(Protocol):
    """Selects values on one page."""

    def find(self, block: str, selector: str) -> str | None:
        """The value of a selector in the blocks; None: no match. Raises ValueError if a selector cannot be parsed."""

    def close(self) -> None:
        """Restore the page."""


class CssFinder:
    """CSS with the pseudo-classes of jsoup that look at text. Takes the own text of all matches in all blocks."""

    def __init__(self, reading: PageReading) -> None:
        self._page = reading.page
        self._reading = reading
        self._blocks: dict[str, list[LexborNode]] = {}
        self._marked: dict[tuple[str, str, str], str] = {}
        self._rows: dict[tuple[int, str], list[LexborNode]] = {}
        """By block and selector."""
        self._numbered: dict[tuple[int, str], dict[int, list[LexborNode]]] = {}
        """By block and tag: elements by their number among their siblings."""
        self._cells: dict[int, list[LexborNode]] = {}
        """By row: its children."""
        self._nodes: dict[str, list[LexborNode]] = {}
        """By mark."""

    def find(self, block: str, selector: str) -> str | None:
        """The texts joined by one space; blank ones are left out."""
        if self._page.tree is None:
            return None
        text, attribute = split_attribute(selector)
        if block not in self._blocks:
            nodes = _compile(self._mark_texts(block)).find_on_page(self._page.tree)
            self._blocks[block] = nodes
        text = self._mark_texts(text)
        found: list[str] = []
        matched = False
        for node in self._blocks[block]:
            for each in self._select(node, text):
                matched = True
                value = _own_text(each) if not attribute else " ".join((each.attrs.get(attribute) or "").split())
                if value:
                    self._reading.charge(value)
                    found.append(value)
        return " ".join(found) if matched else None

    def _select(self, block: LexborNode, text: str) -> list[LexborNode]:
        """The matches in a block, itself included."""
        parent, child = _split_cell(text)
        if child is not None:
            key = (block.mem_id, parent)
            rows = self._rows.get(key)
            if rows is None:
                rows = self._rows[key] = self._select(block, parent)
            if len(rows) == 1:  # several may be nested, and their cells in another order
                cell = self._cell(rows[0], child)
                return [] if cell is None else [cell]
        return self._search(block, text)

    def _search(self, block: LexborNode, text: str) -> list[LexborNode]:
        numbered = _NUMBERED.fullmatch(text)
        if numbered is not None:
            return self._number(block, numbered.group(1) or "*").get(int(numbered.group(2)), [])
        if _COMBINATOR.search(text):
            return _compile(text).find_in_block(block)
        _compile(text)
        return block.css(text)  # the block itself may match

    def _number(self, block: LexborNode, tag: str) -> dict[int, list[LexborNode]]:
        """The elements of that tag in a block, by their number among their siblings.

        `nth-child` counts siblings for each element: a table of n rows would take the third power of n.
        """
        by_number = self._numbered.get((block.mem_id, tag))
        if by_number is None:
            by_number = self._numbered[block.mem_id, tag] = {}
            numbers: dict[int, int] = {}
            for node in block.css(tag):
                number = numbers.get(node.mem_id)
                if number is None and node.parent is not None:
                    for count, sibling in enumerate(node.parent.iter(), 1):
                        numbers[sibling.mem_id] = count
                    number = numbers.get(node.mem_id)
                by_number.setdefault(number or 1, []).append(node)
        return by_number

    def _cell(self, row: LexborNode, child: tuple[str, int]) -> LexborNode | None:
        """The child with that tag and number, without a search for each cell."""
        cells = self._cells.get(row.mem_id)
        if cells is None:
            cells = self._cells[row.mem_id] = list(row.iter())
        tag, number = child
        cell = cells[number - 1] if number <= len(cells) else None
        return cell if cell is not None and tag in ("*", cell.tag) else None

    def close(self) -> None:
        """Take the marks off the page, which other dataDefs read, too."""
        for mark, nodes in self._nodes.items():
            for node in nodes:
                del node.attrs[mark]

    def _mark_texts(self, selector: str) -> str:
        """The selector with marks in place of the pseudo-classes that look at text; matching elements get the marks."""
        if ":contains" not in selector and ":matches" not in selector:
            return selector
        return _replace_text_tests(selector, lambda test: f"[{self._mark(test.compound, test.pseudo, test.argument)}]")

    def _mark(self, compound: str, pseudo: str, argument: str) -> str:
        key = (compound, pseudo, argument)
        if key not in self._marked:
            mark = self._marked[key] = f"{_MARK}{len(self._marked)}"
            holds = _text_test(pseudo, argument, self._reading)
            assert self._page.tree is not None
            self._nodes[mark] = []
            for node in self._page.tree.css(compound):
                self._reading.time_budget.check_patience()
                text = _own_text(node) if pseudo.endswith("Own") else " ".join(node.text().split())
                if holds(text):
                    node.attrs[mark] = ""
                    self._nodes[mark].append(node)
        return self._marked[key]


class XPathFinder:
    """XPath on the page as a browser would build it. Takes the whole text of the last match in the last block."""

    def __init__(self, reading: PageReading) -> None:
        self._reading = reading
        self._root = _browser_tree(reading.page)
        self._blocks: dict[str, Any] = {}

    def find(self, block: str, selector: str) -> str | None:
        """The text, white space normalized."""
        if self._root is None:
            return None
        if block not in self._blocks:
            self._blocks[block] = _last(_compile_xpath(block)(self._root))
        node = self._blocks[block]
        if node is None or isinstance(node, str):
            return None
        found = _last(_compile_xpath(selector)(node))
        if found is None:
            return None
        text = found if isinstance(found, str) else "".join(found.itertext())
        self._reading.charge(text)
        return " ".join(text.split())

    def close(self) -> None:
        """Do nothing: the finder has a tree of its own."""


def render_selector(
    selector: str, flavour: SelectorFlavour | None, texts: Mapping[str, str], of_page: Container[str] = ()
) -> str:
    """The selector with the values of its variables. `of_page`: names of those from the page, which are only text."""
    return (_render_xpath if flavour == "xpath" else _render_css)(selector, texts, of_page)


def _render_css(selector: str, texts: Mapping[str, str], of_page: Container[str]) -> str:
    """Each special character in a text of the page has a backslash."""

    def look_up(name: str) -> str | None:
        text = texts.get(name)
        return text if text is None or name not in of_page else _CSS_SPECIAL.sub(r"\\\g<0>", text)

    return render(selector, look_up)


def _render_xpath(selector: str, texts: Mapping[str, str], of_page: Container[str]) -> str:
    """Replace the variables. XPath has no escapes: a text with the surrounding quote becomes a call of `concat`.

    A text of the page without quotes gets them, unless it is a name or a number.
    """

    def look_up(name: str) -> str | None:
        text = texts.get(name)
        return text if text is None or name not in of_page or _PLAIN_TEXT.fullmatch(text) else _quote(text)

    if "%{" not in selector:
        return selector
    parts: list[str] = []
    at = 0
    for literal in _XPATH_LITERAL.finditer(selector):
        parts.append(render(selector[at : literal.start()], look_up))
        quoted, text = literal[0], render(literal[0][1:-1], texts.get)
        parts.append(_quote(text) if quoted[0] in text else f"{quoted[0]}{text}{quoted[0]}")
        at = literal.end()
    return "".join([*parts, render(selector[at:], look_up)])


def _quote(text: str) -> str:
    """A text as an expression of XPath."""
    if "'" not in text:
        return f"'{text}'"
    parts = ', "\'", '.join(f"'{part}'" for part in text.split("'"))
    return f"concat({parts})"


def check_selector(text: str, flavour: str) -> None:
    """Raise ValueError if a selector, with all its variables replaced, cannot be parsed."""
    if flavour == "xpath":
        _compile_xpath(text)
        return
    plain, _ = split_attribute(text)

    def check(test: _TextTest) -> str:
        if test.pseudo.startswith("matches"):
            TimedPattern(test.argument)
        return ""

    _compile(_replace_text_tests(plain, check).strip() or "*")


def _replace_text_tests(selector: str, replace: Callable[[_TextTest], str]) -> str:
    """The selector with each pseudo-class that looks at text replaced. Raises ValueError."""
    parts: list[str] = []
    at = 0
    while (match := _PSEUDO.search(selector, at)) is not None:
        argument, end = _read_argument(selector, match.end())
        test = _TextTest((match.group(1) or "*") + match.group(2), match.group(3), argument)
        parts.append(selector[at : match.start(3) - 1] + replace(test))
        at = end
    return "".join(parts) + selector[at:]


def _read_argument(selector: str, start: int) -> tuple[str, int]:
    """The text up to the closing parenthesis, and the index behind it. Raises ValueError."""
    depth, at = 1, start
    while at < len(selector):
        character = selector[at]
        if character == "\\":
            at += 1
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if not depth:
                return selector[start:at], at + 1
        at += 1
    raise ValueError(f"a parenthesis is not closed: {selector[:60]!r}")


def _text_test(pseudo: str, argument: str, reading: PageReading) -> Callable[[str], bool]:
    if pseudo.startswith("contains"):
        unquoted = _UNQUOTED.fullmatch(argument)
        wanted = " ".join(_ESCAPED.sub(r"\1", unquoted[1] if unquoted else argument).lower().split())
        return lambda text: wanted in text.lower()
    pattern = TimedPattern(argument)
    return lambda text: pattern.has_match(text, reading.time_budget)


def _own_text(node: LexborNode) -> str:
    return " ".join(node.text(deep=False).split())


@lru_cache(maxsize=4096)
def _split_cell(text: str) -> tuple[str, tuple[str, int] | None]:
    """A selector such as `tr:nth-child(5) > td:nth-child(2)` as that of the parent, and the child's tag and number."""
    match = _CELL.fullmatch(text)
    return (
        (text, None)
        if match is None
        else (match.group(1).strip(), (match.group(2).lower() or "*", int(match.group(3))))
    )


@lru_cache(maxsize=4096)
def _compile(text: str) -> CssExpression:
    return CssExpression(text)


@lru_cache(maxsize=4096)
def _compile_xpath(text: str) -> Any:
    from lxml import etree

    try:
        return etree.XPath(text, regexp=False, smart_strings=False)
    except etree.XPathError as error:
        raise ValueError(str(error)) from error


def _last(result: Any) -> Any:
    """The last node of a result, or its text; None if it is empty."""
    if isinstance(result, list):
        return result[-1] if result else None
    if isinstance(result, float):
        return str(int(result)) if result.is_integer() else repr(result)
    return result if isinstance(result, str) else None


def _browser_tree(page: Page) -> Any:
    """The page for XPath, with elements that a browser adds, such as `tbody`; None for JSON."""
    if page.tree is None or not page.tree.html:
        return page.element
    from crawl_engine.extract.documents.xpath import parse_markup

    return parse_markup(page.tree.html.encode("utf-8", "replace"))
