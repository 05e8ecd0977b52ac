"""Evaluates one selector that a person typed: values and links of its matches, counts by block."""

from msgspec import Struct

from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.patterns import TimeBudget, TimedPattern
from crawl_engine.extract.page.reading import MAX_CHARACTERS, PageReading
from crawl_engine.extract.select.embedded import EmbeddedSelector
from crawl_engine.extract.select.node_value import read_node
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selectors import ColumnSelector, TableRowSelector, compile_selector
from crawl_engine.model.link import TextSource

_NO_CONTEXT = Context(group="", locator="", locator_url="", depth=0, run="", run_time="")
_MARKUP = ("html", "outerHtml")


class Selection(Struct, frozen=True, kw_only=True):
    """A selector, or with `regex` a pattern that searches the source. `limit`: values to return; None: all.

    `selector`: None selects the block or cell itself. `column`: a heading; the cells of its column are searched.
    """

    selector: str | None
    regex: bool = False
    block: str | None = None
    sources: tuple[TextSource, ...] = ()
    """Of documents inside the page, which it searches in place of the page."""
    column: str | None = None
    attribute: str = "text"
    pattern: str | None = None
    limit: int | None = None


class SelectionResult(Struct, frozen=True, kw_only=True, tag="selection"):
    """Matches in document order. `values` and `links` hold the first of `count`."""

    values: tuple[str | None, ...]
    links: tuple[str, ...]
    count: int
    blocks: int
    """Blocks that were searched; 1 for the whole page."""
    blocks_without: int
    """Blocks without a match."""
    base: str
    """For relative links."""
    miss: str = ""
    """Why the page has no document inside it to search; empty if it has one, or none was asked for."""
    headings: tuple[str, ...] = ()
    """Of the columns, if the blocks are rows of a table."""


def select_values(page: Page, selection: Selection) -> SelectionResult:
    """Evaluate a selector. Raises ValueError, PatternTimeout, PageTooCostly and MemoryError."""
    if selection.regex:
        matches = TimedPattern(selection.selector or "").find_all(page.text, TimeBudget())
        shown = tuple(matches[: selection.limit])
        return SelectionResult(
            values=shown, links=(), count=len(matches), blocks=1, blocks_without=int(not matches), base=page.base
        )
    selector = compile_selector(selection.selector)
    if selection.column is not None:
        selector = ColumnSelector(selection.column, selector)
    embedded = compile_selector(None, selection.sources)
    scopes, miss = [Scope(page)], ""
    if isinstance(embedded, EmbeddedSelector):
        scopes, miss = [Scope(document) for document in embedded.documents(page)], embedded.miss(page)
    if selection.block is not None:
        block = compile_selector(selection.block)
        if isinstance(block, TableRowSelector):
            scopes = [row for scope in scopes for row in block.scopes(scope, PageReading(page, _NO_CONTEXT))]
        else:
            scopes = [Scope(scope.page, node) for scope in scopes for node in block.all(scope)]
    values: list[str | None] = []
    links: list[str] = []
    count = without = 0
    for scope in scopes:
        nodes = selector.all(scope)
        count += len(nodes)
        without += not nodes
        for node in nodes if selection.limit is None else nodes[: max(0, selection.limit - len(values))]:
            values.append(_extract_value(read_node(node, selection.attribute), selection))
            links.append(node if isinstance(node, str) else read_node(node, "href") or "")
    return SelectionResult(
        values=tuple(values),
        links=tuple(links),
        count=count,
        blocks=len(scopes),
        blocks_without=without,
        base=page.base,
        miss=miss,
        headings=tuple(dict.fromkeys(heading for scope in scopes for heading in scope.cells or ())),
    )


def _extract_value(text: str | None, selection: Selection) -> str | None:
    """The value of a field, up to its `match`."""
    if text is None:
        return None
    text = text.strip() if selection.attribute in _MARKUP else " ".join(text[:MAX_CHARACTERS].split())
    return TimedPattern(selection.pattern).find(text, TimeBudget()) if selection.pattern and text else text
