"""One interface to CSS, XPath and JSON selectors, on a page or in a block."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from selectolax.lexbor import LexborNode

from crawl_engine.extract.documents.json_expression import JsonExpression
from crawl_engine.extract.documents.json_ld import JsonLdPath
from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.css import CssExpression, Speed
from crawl_engine.extract.select.embedded import EmbeddedSelector, TextFinder
from crawl_engine.extract.select.node_value import JsonValue
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector import Selector
from crawl_engine.extract.select.selector_syntax import (
    EMBEDDED_PREFIX,
    JMESPATH_PREFIX,
    JSONLD_PREFIX,
    XPATH_PREFIX,
    TableHeader,
    split_capture,
    split_comment,
    split_embedded,
    split_header,
    split_json_ld,
    split_member,
    split_table,
)
from crawl_engine.extract.select.table_grid import (
    TableNode,
    cell_text,
    find_headings,
    find_table,
    identity,
    join_row,
    lay_out,
    read_columns,
    split_rows,
)
from crawl_engine.model.link import PAGE_DATA, TextSource

if TYPE_CHECKING:
    from lxml.etree import _Element

    from crawl_engine.extract.select.node_value import SelectedNode
    from crawl_engine.extract.select.xml_css import XmlCssExpression


def compile_selector(text: str | None, sources: Sequence[TextSource] = (), *, placed: bool = False) -> Selector:
    """Compiles a selector; None selects the page or block itself. Raises `ValueError`.

    With `sources` it searches the documents inside the page: those of the first, or of the next one in them. `placed`:
    selectors inside its matches may leave the block.
    """
    if sources:
        return EmbeddedSelector(_compile_finder(sources[0]), compile_selector(text, sources[1:], placed=placed))
    if text is None:
        return _SelfSelector()
    bare = text.strip()
    if bare.startswith(XPATH_PREFIX):
        return _XPathSelector(bare.removeprefix(XPATH_PREFIX).strip(), placed=placed)
    if bare.startswith(JMESPATH_PREFIX):
        return JmesPathSelector(bare.removeprefix(JMESPATH_PREFIX).strip())
    if bare.startswith(JSONLD_PREFIX):
        return _JsonLdSelector(bare)
    if bare.startswith(EMBEDDED_PREFIX):
        css, expression = split_embedded(bare)
        finder = TextFinder(TextSource(selector=css, format="json"), CssSelector(css), only_first=True)
        return EmbeddedSelector(finder, JmesPathSelector(expression))
    if (table := split_table(bare)) is not None:
        return TableRowSelector(*table)
    return CssSelector(bare)


def _compile_finder(source: TextSource) -> TextFinder:
    if source.selector is None:
        of_framework = PAGE_DATA.get(source.format or "html")
        return TextFinder(source, None if of_framework is None else compile_selector(of_framework.selector))
    if header := split_header(source.selector):
        return TextFinder(source, None, header=header)
    if css := split_comment(source.selector):
        return TextFinder(source, CssSelector(css), comments=True)
    if pattern := split_member(source.selector):
        return TextFinder(source, None, member=pattern)
    if name := split_capture(source.selector):
        return TextFinder(source, CssSelector(f'script[data-capture="{name}"]'), captured=True)
    return TextFinder(source, compile_selector(source.selector))


class PageSelector(Selector):
    """A selector that searches the whole page from inside a block, once for all blocks."""

    def __init__(self, selector: Selector, *, in_document: bool = False) -> None:
        """`in_document`: search the document inside the page that the block is of."""
        self._selector = selector
        self._in_document = in_document
        self.speed = selector.speed

    def first(self, scope: Scope) -> "SelectedNode | None":
        key = (self, "first")
        page = scope.page if self._in_document or scope.page.outer is None else scope.page.root
        selections = page.selections
        if key not in selections:
            selections[key] = self._selector.first(Scope(page))
        node: SelectedNode | None = selections[key]
        return node

    def all(self, scope: Scope) -> "list[SelectedNode]":
        key = (self, "all")
        page = scope.page if self._in_document or scope.page.outer is None else scope.page.root
        selections = page.selections
        if key not in selections:
            selections[key] = self._selector.all(Scope(page))
        nodes: list[SelectedNode] = selections[key]
        return nodes


class TableRowSelector(Selector):
    """Selects the body rows of tables, or the columns behind their headings."""

    def __init__(self, text: str, header: TableHeader) -> None:
        self._text = text
        self._tables = compile_selector(text)
        self._header = header
        self.speed = max(self._tables.speed, Speed.QUICK_IF_PLAIN)

    def first(self, scope: Scope) -> "SelectedNode | None":
        return next(iter(self.all(scope)), None)

    def all(self, scope: Scope) -> "list[SelectedNode]":
        parts = [split_rows(table, self._header) for table in self._find_tables(scope)]
        if self._header == "columns":
            return [row for rows in parts for _, group in rows.groups for row in group]
        return [row for rows in parts for row in rows.body]

    def scopes(self, scope: Scope, reading: PageReading) -> Iterator[Scope]:
        """The records, each with its cells by their headings. Raises PageTooCostly and OutOfTime."""
        for table in self._find_tables(scope):
            if self._header == "columns":
                yield from self._read_columns(scope, table, reading)
                continue
            rows = split_rows(table, self._header)
            lines, columns = lay_out(rows, reading, lambda cell: cell)
            header = [_texts_of(lines[identity(row)]) for row in rows.header if identity(row) in lines]
            headings = find_headings(header, columns, reading, joined=True)
            if rows.body and not header:
                reading.warn(
                    "",
                    "no-headings",
                    f"{reading.data_def}: the table `{self._text}` has no header rows: write `header: first` if its"
                    " first row is one, `header: columns` if its headings stand in the first column, or name its"
                    " columns `column 1`, `column 2`, …",
                )
            for row in rows.body:
                line = lines.get(identity(row), {})
                cells = {heading: line[column] for column, heading in headings.items() if column in line}
                yield Scope(scope.page, row, cells)

    def _read_columns(self, scope: Scope, table: TableNode, reading: PageReading) -> Iterator[Scope]:
        """A record for each column, whose block is a row of its cells."""
        records, has_headings = read_columns(table, reading)
        if records and not has_headings:
            reading.warn(
                "",
                "no-headings",
                f"{reading.data_def}: the first column of the table `{self._text}` has no text: its rows are `row 1`,"
                " `row 2`, …",
            )
        for record in records:
            yield Scope(scope.page, join_row([*record.values()], reading), record)

    def _find_tables(self, scope: Scope) -> "list[TableNode]":
        nodes = [node for node in self._tables.all(scope) if not isinstance(node, JsonValue | str)]
        tables = {identity(table): table for table in map(find_table, nodes) if table is not None}
        return [*tables.values()]


def _texts_of(line: Mapping[int, TableNode]) -> dict[int, str]:
    texts = {identity(cell): cell_text(cell) for cell in {id(cell): cell for cell in line.values()}.values()}
    return {column: texts[identity(cell)] for column, cell in line.items()}


class ColumnSelector(Selector):
    """A selector that searches in the cell of a column, of a block that is a row of a table."""

    def __init__(self, heading: str, selector: Selector) -> None:
        self._heading = " ".join(heading.split())
        self._selector = selector
        self.speed = selector.speed
        self.leaves_block = selector.leaves_block

    def first(self, scope: Scope) -> "SelectedNode | None":
        cell = self._cell_of(scope)
        return None if cell is None else self._selector.first(cell)

    def all(self, scope: Scope) -> "list[SelectedNode]":
        cell = self._cell_of(scope)
        return [] if cell is None else self._selector.all(cell)

    def _cell_of(self, scope: Scope) -> Scope | None:
        cell = None if scope.cells is None else scope.cells.get(self._heading)
        return None if cell is None else Scope(scope.page, cell)


class CssSelector(Selector):
    """Selects elements of HTML and XML."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._css = CssExpression(text)
        self._xml_css: XmlCssExpression | None = None
        self.speed = self._css.speed

    def first(self, scope: Scope) -> "LexborNode | _Element | None":
        block = scope.node
        if type(block) is LexborNode:  # the most frequent case: a field of a record
            return self._css.find_first_in_block(block)
        if scope.page.kind == "xml":
            return next(iter(self._find_in_xml(scope)), None)
        if block is None:
            return None if scope.page.tree is None else self._css.find_first_on_page(scope.page.tree)
        return None if scope.html is None else self._css.find_first_in_block(scope.html)

    def all(self, scope: Scope) -> "list[SelectedNode]":
        if scope.page.kind == "xml":
            return [*self._find_in_xml(scope)]
        if scope.node is None:
            return [] if scope.page.tree is None else [*self._css.find_on_page(scope.page.tree)]
        return [] if scope.html is None else [*self._css.find_in_block(scope.html)]

    def each(self, scope: Scope) -> "Iterator[SelectedNode]":
        page = scope.page
        if page.kind == "html" and scope.node is None and page.is_huge:
            assert page.tree is not None
            return self._css.iterate_page(page.tree)
        return iter(self.all(scope))

    def _find_in_xml(self, scope: Scope) -> "list[_Element]":
        root = scope.element
        if root is None:
            return []
        if self._xml_css is None:
            from crawl_engine.extract.select.xml_css import XmlCssExpression  # HTML does not load lxml

            self._xml_css = XmlCssExpression(self._text)
        return self._xml_css.find(root, block=scope.node is not None)


class _XPathSelector(Selector):
    speed = Speed.SLOW

    def __init__(self, text: str, *, placed: bool) -> None:
        from crawl_engine.extract.documents.xpath import XPathExpression

        self._expression = XPathExpression(text, placed=placed)
        self.leaves_block = self._expression.leaves_block

    def first(self, scope: Scope) -> "_Element | str | None":
        return next(iter(self._select(scope)), None)

    def all(self, scope: Scope) -> "list[SelectedNode]":
        return [*self._select(scope)]

    def _select(self, scope: Scope) -> "list[_Element | str]":
        root = scope.placed if self.leaves_block else scope.element
        return [] if root is None else self._expression.find(root, block=scope.node is not None)


class _JsonSelector(Selector):
    """A match is a JSON value, even a list; `all` splits lists, `type: json` keeps them."""

    speed = Speed.QUICK_IF_PLAIN

    def first(self, scope: Scope) -> JsonValue | None:
        value = next(iter(self._matches(scope)), None)
        return None if value is None else JsonValue(value)

    def all(self, scope: Scope) -> "list[SelectedNode]":
        parts = (match if isinstance(match, list) else (match,) for match in self._matches(scope))
        return [JsonValue(value) for part in parts for value in part if value is not None]

    @abstractmethod
    def _matches(self, scope: Scope) -> Sequence[Any]: ...


class JmesPathSelector(_JsonSelector):
    """Selects in a JSON document, or in a block of one."""

    def __init__(self, text: str) -> None:
        self.expression = JsonExpression(text)

    def _matches(self, scope: Scope) -> Sequence[Any]:
        found = None if scope.value is MISSING else self.expression.search(scope.value)
        return () if found is None else (found,)


class _JsonLdSelector(_JsonSelector):
    """Reads the whole page in every scope."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._type, path = split_json_ld(text.removeprefix(JSONLD_PREFIX).strip())
        self._path = JsonLdPath(path)

    def _matches(self, scope: Scope) -> Sequence[Any]:
        page = scope.page.root
        cache = page.parsed
        matches: list[Any] | None = cache.get(self._text)
        if matches is None:
            objects = page.json_ld.get(self._type, ())
            matches = [value for value in map(self._path.search, objects) if value is not None]
            cache[self._text] = matches
        return matches


class _SelfSelector(Selector):
    speed = Speed.QUICK

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
