"""What one page gives: rows, links, and records that were turned away."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A record that was not written, and the field that was the reason."""

    data_def: str
    field: str
    reason: str
    place: str
    """`file:line:col` of the field in the defs."""


@dataclass(frozen=True, slots=True)
class ExtractedLink:
    """A link a page makes: absolute, normalized, without fragment."""

    url: str
    group: str
    priority: int
    max_depth: int | None
    """Links deeper than this are not followed; None: no limit of the link's own."""
    key: bytes = field(default=b"", compare=False)
    """What its job will be known by (`identity.link_key`): kept here since a link is met on many pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What one dataDef made of one page."""

    data_def: str
    rows: tuple[Mapping[str, Any], ...] = ()
    """Field name → value; values are JSON types, or `Decimal`."""
    links: tuple[ExtractedLink, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    filtered: int = 0
    """Records a filter dropped."""
