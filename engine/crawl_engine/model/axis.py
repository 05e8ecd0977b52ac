"""A dataDef in axis mode: a table of items, dimensions and facts, as its defs describe it."""

from typing import Annotated, Literal, NamedTuple

from msgspec import Struct

from crawl_engine.model.declaration import AnyText, Constant, Constants, DefKey, Text, Wrapper
from crawl_engine.model.stored_form import NO_POSITION, SourcePosition

ITEM, FACT = "item", "fact"
LEADING_COLUMNS = ("locator", "group", ITEM)
"""Columns of each table, in front of its dimensions; the fact comes last."""
SelectorFlavour = Literal["css", "xpath"]
FROM_DATE_SCRIPT = "document.getFromDate()"
"""The one script that needs no interpreter: when the document was fetched."""
FROM_DATE_PATTERN = "yyyy-MM-dd'T'HH:mm:ss'Z'"
"""Its form where the setting `date_time_pattern` has no value."""


class AxisFilter(Struct, frozen=True, kw_only=True):
    """Drops the rows in which the value of the axis equals the pattern, or matches it as a whole."""

    type: Annotated[Literal["value", "match"], DefKey("Whether the pattern is a value, or a regular expression.")]
    pattern: Annotated[AnyText, DefKey("What the whole value equals or matches; one blank means blank.")]


class Axis(Struct, frozen=True, kw_only=True):
    """One column of the table, and the indexes it runs through. Its value is the first one set here."""

    name: Annotated[Text, DefKey("The name; of a dim, that of its column.")]
    value: Annotated[Constant | None, DefKey("A constant.")] = None
    match: Annotated[Constant | None, DefKey("A text, taken without its backslashes.")] = None
    script: Annotated[AnyText | None, DefKey("When the page was fetched.", examples=(FROM_DATE_SCRIPT,))] = None
    selector: Annotated[AnyText | None, DefKey("Selects the value in the blocks.")] = None
    first: int = 1
    last: int | None = 1
    """None: up to the row of `break_after`, or the end of the data."""
    break_after: Annotated[Constants, DefKey("Values; the row with one of them is the last.")] = ()
    prefix: Annotated[Constants, DefKey("Texts before the value, the last one first.")] = ()
    filters: Annotated[
        tuple[AxisFilter, ...], Wrapper("filter", "{type: value|match, pattern: …}"), DefKey("Which rows to drop.")
    ] = ()
    link_group: Annotated[Text | None, DefKey("The value is a link into that group.")] = None
    link_break_on: Annotated[Constants, DefKey("Values that are not links.")] = ()
    place: SourcePosition = NO_POSITION


class IndexRange(NamedTuple):
    """The indexes of an axis."""

    first: int
    last: int | None
    """None: open."""


class DateConverter(Struct, frozen=True, kw_only=True):
    """Writes the dates of one column in another form."""

    column: str
    in_patterns: tuple[str, ...]
    """Java date patterns, tried in order."""
    out_pattern: str
    roll: str | None = None
    """The day of the month: `ceil`, `floor`, `round` or a number; None: as it is."""


class AxisTable(Struct, frozen=True, kw_only=True):
    """Each row is one item, a value of each dimension, and a fact."""

    block: str
    items: tuple[Axis, ...]
    dims: tuple[Axis, ...] = ()
    facts: tuple[Axis, ...] = ()
    makes_links: bool = False
    """Whether each item with a `link_group` is a link."""
    converters: tuple[DateConverter, ...] = ()
    flavour: SelectorFlavour | None = None
    """None: that of the setting `default_steps`."""
    fact_blank: str = "-"
    fact_not_found: str = "not found"
    date_pattern: str | None = None
    """A Java date pattern for the document's fetch date; None: ISO 8601."""
    from_date: str | None = None
    """The date to give instead of the document's fetch date."""
    base_url: str | None = None
    """Of relative links; None: the URL of their page."""
    place: SourcePosition = NO_POSITION
