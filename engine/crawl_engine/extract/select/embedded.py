"""Selects in documents inside a page: their texts are found by one selector, and searched by another."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from selectolax.lexbor import LexborNode

from crawl_engine.errors import quote_text
from crawl_engine.extract.documents.document_types import DocumentUnreadable
from crawl_engine.extract.embedded.documents import LOST_ANSWER, UNREADABLE, DocumentReader, Documents
from crawl_engine.extract.page.page import Page, header_values
from crawl_engine.extract.select.css import Speed
from crawl_engine.extract.select.node_value import JsonValue, read_node
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector import Selector
from crawl_engine.model.link import TextSource

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode


class TextFinder:
    """Finds the texts of a source: those that a selector matches, comments in them, a header, or the body."""

    def __init__(
        self, source: TextSource, selector: Selector | None, *, comments: bool = False, header: str = "",
        member: str = "", captured: bool = False, only_first: bool = False,
    ) -> None:  # fmt: skip
        """`selector`: None for the body, or a header. `comments`: take the comments in its matches.

        `member`: the pattern of the names of files in an archive.
        `captured`: its matches are answers that a browser captured, or say why one is missing.
        """
        self.source = source
        self.selector = selector
        self._comments = comments
        self._header = header.lower()
        self.member = member
        self._captured = captured
        self._only_first = only_first
        self._reader = DocumentReader(source)
        self._keeps_markup = source.format in ("html", "xml")

    def read(self, scope: Scope) -> Documents:
        """The documents of the page or block; read once."""
        key = (self.source, self._only_first)
        documents: Documents | None = scope.parsed.get(key)
        if documents is None:
            documents = scope.parsed[key] = self._read(scope)
        return documents

    def _read(self, scope: Scope) -> Documents:
        page = scope.page
        if self._header:
            return self._reader.read(page, header_values(page.headers, self._header))
        if self.member:
            return self._read_members(page)
        if self.selector is None or (self.source.selector is None and page.kind == "json"):
            return self._read_body(page)
        if self._only_first:
            first = self.selector.first(scope) if page.kind == "html" else None
            documents = self._reader.read(page, [] if first is None else [self._text_of(first)])
            if documents.problems:
                page.faults[f"what `{self.source.selector}` selects is not JSON and was skipped"] = None
            return documents
        nodes = self.selector.all(scope)
        if self._comments:
            return self._reader.read(page, list(_comments_in(nodes)))
        documents = self._reader.read(page, [self._text_of(node) for node in nodes])
        if self._captured and (missing := _list_missing(nodes)):
            count = "an answer is" if len(missing) == 1 else f"{len(missing):,} answers are"
            documents.problems[LOST_ANSWER] = f"{self.source.shown}: {count} missing: {missing[0]}"
        return documents

    def _read_members(self, page: Page) -> Documents:
        files = [] if page.archive is None else page.archive.find(self.member)
        texts, problem = [], ""
        for name, read in files:
            try:
                texts.append(read())
            except DocumentUnreadable as error:
                problem = problem or f"{self.source.shown}: {quote_text(name)} {error}"
        documents = self._reader.read(page, texts)
        if problem:
            documents.problems.setdefault(UNREADABLE, problem)
        elif not files and page.archive is not None:
            documents.problems[UNREADABLE] = f"{self.source.shown} names none of {page.archive.shown}"
        return documents

    def _read_body(self, page: Page) -> Documents:
        is_page = self.source.match is None and (
            self.source.format == page.kind or (self.source.format in ("json", "js") and page.kind == "json")
        )
        return Documents([page], texts=1) if is_page else self._reader.read(page, [page.text])

    def _text_of(self, node: "SelectedNode") -> Any:
        if isinstance(node, JsonValue):
            return node.value
        if isinstance(node, LexborNode) and node.tag == "template":
            return "".join(fragment.inner_html or "" for fragment in node.template_fragments()[:1])
        if self._keeps_markup and not isinstance(node, str) and _has_elements(node):
            return read_node(node, "html") or ""
        return read_node(node, "text") or ""


class EmbeddedSelector(Selector):
    """A selector that searches the documents of a source, in place of the page or block that holds them."""

    def __init__(self, finder: TextFinder, selector: Selector) -> None:
        self._finder = finder
        self._selector = selector
        is_quick = finder.source.format == "json" and finder.source.match is None
        of_texts = Speed.QUICK if finder.selector is None else finder.selector.speed
        self.speed = max(of_texts, selector.speed, Speed.QUICK_IF_PLAIN if is_quick else Speed.SLOW)

    @property
    def reads_members(self) -> bool:
        """Whether it searches files in an archive."""
        return bool(self._finder.member)

    @property
    def inner(self) -> Selector:
        """What searches the documents themselves."""
        return self._selector.inner if isinstance(self._selector, EmbeddedSelector) else self._selector

    def documents(self, page: Page) -> Iterator[Page]:
        """The documents that it searches on a page."""
        for outer in self._finder.read(Scope(page)).pages:
            yield from self._selector.documents(outer) if isinstance(self._selector, EmbeddedSelector) else (outer,)

    def problems(self, page: Page) -> Iterator[tuple[str, str]]:
        """Code and text of what cannot be read in the documents of a page."""
        documents = self._finder.read(Scope(page))
        yield from documents.problems.items()
        if isinstance(self._selector, EmbeddedSelector):
            for outer in documents.pages:
                yield from self._selector.problems(outer)

    def miss(self, page: Page) -> str:
        """Why a page has no document to search; empty if it has one."""
        documents = self._finder.read(Scope(page))
        misses = [documents.miss(self._finder.source)]
        if isinstance(self._selector, EmbeddedSelector) and documents.pages:
            misses = [self._selector.miss(outer) for outer in documents.pages]
        return misses[0] if all(misses) else ""

    def first(self, scope: Scope) -> "SelectedNode | None":
        for page in self._finder.read(scope).pages:
            node = self._selector.first(Scope(page))
            if node is not None:
                return node
        return None

    def all(self, scope: Scope) -> "list[SelectedNode]":
        return [node for page in self._finder.read(scope).pages for node in self._selector.all(Scope(page))]


def _list_missing(nodes: "Sequence[SelectedNode]") -> list[str]:
    """The captured answers that a page lacks, each with the reason."""
    given = [(read_node(node, "data-url"), read_node(node, "data-problem")) for node in nodes]
    return [f"{url}: {problem}" for url, problem in given if problem]


def _has_elements(node: Any) -> bool:
    return any(part.is_element_node for part in node.iter()) if isinstance(node, LexborNode) else len(node) > 0


def _comments_in(nodes: "Sequence[SelectedNode]") -> Iterator[str]:
    """The texts of the comments below the elements, each once."""
    seen = set[int]()
    for node in nodes:
        if isinstance(node, LexborNode):
            for part in node.traverse(include_text=True):
                if part.is_comment_node and part.mem_id not in seen:
                    seen.add(part.mem_id)
                    yield part.comment_content or ""
        elif not isinstance(node, str | JsonValue):
            from lxml.etree import Comment

            yield from (comment.text or "" for comment in node.iter(Comment))
