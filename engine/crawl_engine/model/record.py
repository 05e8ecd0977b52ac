"""The results of extracting a page: rows, links and rejected records; and values as text."""

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from msgspec import Meta, Struct

from crawl_engine.late_regex import late_regex
from crawl_engine.model.link import LinkDetails


def to_text(value: Any, join: str = "|") -> str:
    """The text of a field's value.

    None is empty, booleans are `true` and `false`, a Decimal shows all digits without an exponent. Lists of scalars are
    joined by `join`; objects and nested lists become compact JSON.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        if any(isinstance(item, dict | list | tuple) for item in value):
            return to_json(value)
        return join.join([to_text(item) for item in value])
    if isinstance(value, dict):
        return to_json(value)
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    return str(value)


def to_json(value: Any) -> str:
    """The value as compact JSON text; a Decimal is a number with its digits."""
    # The standard encoder cannot write a Decimal as a number with its digits.
    if isinstance(value, dict):
        return "{" + ",".join([f"{_json_string(str(key))}:{to_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([to_json(item) for item in value]) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool | int | float | Decimal):
        return _scalar_text(value)
    return _json_string(str(value))


def _json_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Texts(Protocol):
    """A known number of texts; a long text may be a view of its memory in UTF-8."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str | memoryview]: ...


def as_text(text: str | memoryview) -> str:
    """One of the texts as `str`."""
    return text if isinstance(text, str) else str(text, "utf-8")


RejectCode = Literal["missing", "invalid"]
"""Why a record is rejected: a required field is missing, or a value cannot be read."""


class Rejection(Struct, frozen=True, kw_only=True):
    """A record that was not written, with the field that caused it."""

    data_def: str
    field: str
    reason: str
    place: str
    """`file:line:col` of the field in the defs."""
    code: RejectCode = "invalid"


class RejectedCount(NamedTuple):
    """How many records of a page a field rejected."""

    data_def: str
    records: Count
    field: str = ""
    """Empty: none, but the dataDef as a whole."""
    code: RejectCode = "invalid"


class PageWarning(NamedTuple):
    """A doubt about the values of a dataDef, with a value as an example. The first of a field and code is kept."""

    data_def: str
    field: str
    """Empty: it is about the whole dataDef."""
    code: str
    text: str


WORKED, SLIP, MISS, REFUSED = "worked", "slip", "miss", "refused"
"""Codes of a part of a dataDef that are no doubts, but tell the end of the run: it gave something, or nothing, and why
(a slip: the page shows it); or its value was rejected."""
SIGNS = (WORKED, SLIP, MISS, REFUSED)


class ExtractedLink(Struct, frozen=True):
    """A link of a page: absolute, normalized, without fragment."""

    url: str
    group: str
    priority: int
    max_depth: int | None
    """Links deeper than this are not followed; None: no limit of its own."""
    key: bytes = b""
    """The key of its job (`job.link_key`), cached since a link appears on many pages."""
    may_leave_host: bool = False
    """Whether its redirects may lead to any host: `sameHost: false`."""
    details: LinkDetails | None = None
    """What it sends and carries besides its URL; None: nothing."""


class RecordCounts(NamedTuple):
    """How the records of a dataDef were filled, on one page or many."""

    records: Count = 0
    """Records that became rows and rejected ones; not those that a filter dropped."""
    rejected: Count = 0
    missing: tuple[tuple[str, Count], ...] = ()
    """By field, the number of records in which it was missing, before its default. Fields with a `value` are left
    out."""
    filtered: Count = 0
    """Records that a filter dropped."""


NO_RECORDS = RecordCounts()
_OF_SELECTOR = late_regex(r".+\[[0-9]+\]", re.DOTALL)


def counts_selector(name: str) -> bool:
    """Whether the name among `RecordCounts.missing` is that of a selector of a list, not of a field."""
    return _OF_SELECTOR.fullmatch(name) is not None


class Extraction(Struct, frozen=True, kw_only=True):
    """The result of one dataDef on one page."""

    data_def: str
    rows: tuple[Mapping[str, Any], ...] = ()
    """Field name → value; values are JSON types, or `Decimal`."""
    links: tuple[ExtractedLink, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    dropped_links: int = 0
    """Links beyond the limit of a page."""
    counts: RecordCounts = NO_RECORDS
    failure: str = ""
    """Why the page fails its task, or an empty text."""
