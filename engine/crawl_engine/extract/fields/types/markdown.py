"""Converts the HTML of a selected element to Markdown, with absolute links, by html-to-markdown.

The library is imported at the first use, in an extraction process: pages with such fields are never extracted in a
node, and an input that takes too much time or memory ends that process.
"""

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from selectolax.lexbor import LexborNode

from crawl_engine.extract.fields.convert import (
    Conversion,
    Converter,
    Edit,
    NodeReader,
    StepCheck,
    TypeReader,
    keep_text,
)
from crawl_engine.extract.fields.step_values import text_of
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.node_value import JsonValue, read_node
from crawl_engine.model.definition import Field

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode

_MAX_LEVELS = 512
"""Of nested elements that the library converts."""


class MarkdownReader(TypeReader):
    """Reads the HTML of elements, and writes it as Markdown."""

    keeps_markup = True

    def converter(self, _field: Field) -> Converter:
        """A default is Markdown as it is."""
        return lambda text, _base: text

    def conversion(self, _field: Field, _path: str) -> Conversion:
        """The text itself, which `last_edit` has converted."""
        return keep_text

    def node_reader(self, field: Field) -> NodeReader:
        """The HTML of a node."""
        return partial(_read_markup, attribute=field.attribute)

    def last_edit(self, _field: Field, path: str) -> Edit:
        """HTML becomes Markdown."""
        return lambda html, reading: _to_markdown(html, path, reading)

    def step_check(self, _field: Field) -> StepCheck:
        """A text, with the white space around it."""
        return lambda value, _page: text_of(value)


def _read_markup(node: "SelectedNode", attribute: str) -> str | None:
    """The HTML of a node; None when missing.

    An element gives its own; the text of a JSON value, an XPath, an attribute, or an XML element without children, as
    in feeds, is HTML already.
    """
    if attribute != "text" or isinstance(node, str | JsonValue):
        return read_node(node, attribute)
    if isinstance(node, LexborNode):
        return node.html
    from crawl_engine.extract.documents.xpath import is_html, outer_html  # most pages do not load lxml

    return outer_html(node) if len(node) or is_html(node) else node.text


def _to_markdown(html: str, path: str, reading: PageReading) -> str:
    """The Markdown, without blank lines around it; empty if the HTML has no content. `path`: of the field.

    Charges the result. Raises ValueError, PageTooCostly and OutOfTime.
    """
    from html_to_markdown import ConversionError, convert

    reading.time_budget.check_patience()
    try:
        result = convert(html.encode("utf-8", "replace").decode(), _options(reading.page.base))
    except ConversionError as error:
        raise ValueError(f"the HTML cannot be converted to Markdown: {error}") from error
    if result.warnings:
        fault = f"`{path}`: elements nested deeper than {_MAX_LEVELS} levels may be missing in the Markdown"
        reading.page.faults[fault] = None
    text = (result.content or "").strip("\n")
    reading.charge(text)
    return text if text.strip() else ""


@lru_cache(maxsize=1)
def _options(base: str) -> Any:
    """Nothing of an element is left out but scripts, styles, drawings and hidden parts."""
    from html_to_markdown import ConversionOptions, PreprocessingOptions

    return ConversionOptions(
        base_url=base,
        compact_tables=True,  # padding repeats the longest cell in each row
        exclude_selectors=["svg", "template"],
        extract_metadata=False,
        preprocessing=PreprocessingOptions(enabled=False),  # it would drop headers, navigation and forms
    )


READER = MarkdownReader()
