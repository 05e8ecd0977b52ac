"""XPath on lxml trees. Imported only when an XPath selector is used."""

import copy
import math
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeGuard

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_engine.extract.documents.templates import without_templates
from crawl_engine.extract.documents.xml_repair import (
    declare_prefixes,
    may_drop_references,
    replace_surrogates,
    resolve_references,
    undeclared_prefixes,
)

_MAX_ERRORS = 1_000
"""Errors that are searched for undeclared prefixes."""

_MARK = "crawl-console-node"
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_OUTWARD = re.compile(
    r"(\.\.|(?:parent|(?:following|preceding)-sibling)\s*::)|(?:ancestor(?:-or-self)?|following|preceding)\s*::"
)
"""A step that may lead out of the block; those of the group do not if the step before leads into it."""
_INWARD = re.compile(
    r"(?:^|[^\w:@$.-])(?:(?:child|descendant|(?:following|preceding)-sibling)\s*::\s*)?(?:\*|[\w-]+|(?:text|node)\(\))$"
)
"""The last step of a path, which gives nodes below the block."""
_ABSOLUTE = re.compile(r"(?:^|[(\[,|=<>+]|\s(?:and|or|div|mod|-)\s)\s*(//?)")
"""The beginning of a path that does not begin at the context node."""

XPathMatch = etree._Element | str

_NO_MEMORY, _LIMIT = etree.ErrorTypes.ERR_NO_MEMORY, etree.ErrorTypes.ERR_RESOURCE_LIMIT


def parse_markup(
    markup: bytes,
    *,
    xml: bool = False,
    on_limit: Callable[[str], None] | None = None,
    on_malformed: Callable[[], None] | None = None,
) -> etree._Element | None:
    """The root element of UTF-8 markup, malformed or not; None if it has no element. No network.

    Only the entities of HTML are resolved, which feeds use without a declaration. `on_limit` is called if the parser
    stops at a limit of its own and gives only the part before: XML of more than 256 levels, HTML of more than 2,048, an
    XML text of more than 10 MB. `on_malformed` is called if parts of XML may be missing. Raises MemoryError.
    """
    markup = replace_surrogates(markup if xml else without_templates(markup))
    if xml:
        markup = markup.lstrip()  # a usual blank line in front would be an error
    root, parser = _parse(markup, xml=xml)
    if xml and (len(parser.error_log) or may_drop_references(markup)):
        prefixes = undeclared_prefixes([error.message for error in islice(parser.error_log, _MAX_ERRORS)])
        repaired = resolve_references(markup)
        if prefixes and root is not None:
            repaired = declare_prefixes(repaired, _name_of(root), prefixes)
        if repaired is not markup:
            del root, parser  # now: there may be no memory for two trees
            root, parser = _parse(repaired, xml=True)
    last_error = parser.error_log.last_error
    if on_limit is not None and last_error is not None and last_error.type == _LIMIT:
        on_limit(last_error.message.strip().partition(", ")[0])
    elif on_malformed is not None and xml and len(parser.error_log.filter_from_fatals()):
        on_malformed()
    return root if root is not None and isinstance(root.tag, str) else None


def _parse(markup: bytes, *, xml: bool) -> tuple[etree._Element | None, etree.XMLParser | etree.HTMLParser]:
    """The root element, and the parser with its errors. Raises MemoryError."""
    parser: etree.XMLParser | etree.HTMLParser
    if xml:
        parser = etree.XMLParser(encoding="utf-8", recover=True, resolve_entities=False, no_network=True)
    else:
        parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, no_network=True)
    try:
        root = etree.fromstring(markup, parser)
    except (etree.LxmlError, ValueError) as error:
        if getattr(error, "code", None) == _NO_MEMORY:
            raise MemoryError("the parser") from error
        root = None
    last_error = parser.error_log.last_error
    if last_error is not None and last_error.type == _NO_MEMORY:  # it stops there, and keeps what it has
        raise MemoryError("the parser")
    return root, parser


def _name_of(element: etree._Element) -> str:
    local = str(element.tag).rpartition("}")[2]
    return f"{element.prefix}:{local}" if element.prefix else local


def detach(element: etree._Element) -> etree._Element:
    """A copy of the element as the root of its own tree, so that expressions cannot leave it."""
    root = copy.deepcopy(element)
    root.tail = None
    return root


def parse_outer_html(markup: str, tag: str) -> etree._Element | None:
    """The first element of that tag in the markup, as the root of its own tree."""
    root = parse_markup(markup.encode("utf-8", "replace"))
    if root is None:
        return None
    try:
        element = next(root.iter(tag), None)
    except ValueError:  # a tag with control characters: valid in HTML, never present in an lxml tree
        return None
    return None if element is None else detach(element)


def is_html(element: etree._Element) -> bool:
    """Whether the element is of an HTML document; otherwise it is of an XML document."""
    return isinstance(element.getroottree().parser, etree.HTMLParser)


def outer_html(element: etree._Element) -> str:
    """The element as HTML, or as XML in an XML document, without the text after it."""
    method = "html" if is_html(element) else "xml"
    return etree.tostring(element, method=method, encoding="unicode", with_tail=False)


def evaluate(xpath: etree.XPath, root: etree._Element, **variables: Any) -> Any:
    """The value of the expression at `root`; None if it fails on this document. Raises MemoryError."""
    try:
        return xpath(root, **variables)
    except (ValueError, RecursionError):
        return None
    except etree.LxmlError as error:
        last_error = getattr(error.error_log, "last_error", None)
        if last_error is not None and last_error.type == _NO_MEMORY:
            raise MemoryError("the XPath") from error
        return None


class PlacedElements:
    """The elements of an HTML page by their nodes in Lexbor's tree, each at its place in one tree of lxml."""

    def __init__(self, tree: LexborHTMLParser, on_limit: Callable[[str], None]) -> None:
        self._tree = tree
        self._on_limit = on_limit
        self._tag = ""
        """The tag of the nodes that are placed; `*`: all are."""
        self._by_id: dict[int, etree._Element] = {}

    def find(self, node: LexborNode) -> etree._Element | None:
        """The element of a node; None if the tree lacks it. Raises MemoryError."""
        if node.tag != self._tag != "*":
            # blocks have one tag as a rule; the nodes of a second one are placed with all others
            self._tag = "*" if self._tag else str(node.tag)
            self._place(self._tree.css("*") if self._tag == "*" else self._tree.tags(self._tag))
        return self._by_id.get(node.mem_id)

    def _place(self, nodes: Iterable[LexborNode]) -> None:
        nodes = list(nodes)
        try:
            for node in nodes:
                node.attrs[_MARK] = str(node.mem_id)
            markup = (self._tree.html or "").encode("utf-8", "replace")
        finally:
            for node in nodes:
                del node.attrs[_MARK]
        root = parse_markup(markup, on_limit=self._on_limit)
        marked = [] if root is None else [element for element in root.iter("*") if _MARK in element.attrib]
        self._by_id = {int(str(element.attrib.pop(_MARK))): element for element in marked}


class XPathExpression:
    """A compiled expression. Raises `ValueError` if it cannot be parsed."""

    def __init__(self, text: str, *, placed: bool = False) -> None:
        """`placed`: matches in a block are wanted at their places in the page."""
        unquoted = _QUOTED.sub(lambda match: "_" * len(match[0]), text)
        absolute = list(_ABSOLUTE.finditer(unquoted))
        leaves = placed or any(_leaves_block(unquoted, match) for match in _OUTWARD.finditer(unquoted))
        self.leaves_block = leaves and all(match[1] == "//" for match in absolute)
        """Whether a block has to be at its place in the page; otherwise it is the root of its own tree."""
        if self.leaves_block:
            inner = text
            for match in reversed(absolute):  # `//a` still selects descendants of the block
                inner = f"{inner[: match.start(1)]}$block{inner[match.start(1) :]}"
        else:
            # In a block `//a` selects descendants of the block, not the block itself.
            inner = f".{text}" if text.startswith("//") else text
        try:
            # EXSLT regular expressions use `re`, which has no timeout.
            self._page_xpath = etree.XPath(text, regexp=False, smart_strings=False)
            self._block_xpath = etree.XPath(inner, regexp=False, smart_strings=False)
        except etree.XPathError as error:
            raise ValueError(str(error)) from error

    def find(self, root: etree._Element, *, block: bool) -> list[XPathMatch]:
        """Evaluates the expression at `root`: elements and texts; empty if it fails on this document.

        Raises MemoryError.
        """
        if block and self.leaves_block:
            result = evaluate(self._block_xpath, root, block=root)
        else:
            result = evaluate(self._block_xpath if block else self._page_xpath, root)
        if isinstance(result, list):
            return [item for item in result if _is_match(item)]
        if isinstance(result, bool):
            return ["true" if result else "false"]
        if isinstance(result, float):
            return [_format_number(result)] if math.isfinite(result) else []
        return [result] if isinstance(result, str) else []


def _leaves_block(text: str, step: re.Match[str]) -> bool:
    """Whether a step of an expression without strings may lead out of the block."""
    before = text[: step.start()].rstrip()
    if step[1] is None or not before.endswith(("/", "[")):
        return True
    before = before.rstrip("/[ ")
    while before.endswith("]"):
        depth, at = 1, len(before) - 1
        while depth and at:
            at -= 1
            depth += {"]": 1, "[": -1}.get(before[at], 0)
        before = before[:at].rstrip()
    return _INWARD.search(before) is None


def _is_match(item: object) -> TypeGuard[XPathMatch]:
    # Comments and processing instructions are elements too, but their tag is not a string.
    return isinstance(item, str) or (isinstance(item, etree._Element) and isinstance(item.tag, str))


def _format_number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
