"""The work that an extraction process gets for a page."""

from typing import Any

import msgspec
from msgspec import Struct

from crawl_engine.extract.page.context import Context

SHOWN_REJECTIONS = 5
"""Rejections of a page that are described; a crawl only needs the number of the others."""


class PageTask(Struct, frozen=True, kw_only=True):
    """What an extraction process needs of a page, besides its bytes."""

    defs: int
    """Key of the defs, which the process got before."""
    data_defs: tuple[tuple[str, bool], ...]
    """DataDefs by name, and whether their rows are wanted or only their links."""
    url: str
    content_type: str
    status: int
    fetched_at: float
    context: Context
    headers: tuple[tuple[str, str], ...] = ()
    """Of its answer, names in lower case."""
    max_rejections: int = SHOWN_REJECTIONS
    tasks: tuple[str, ...] = ()
    """By dataDef, the task whose chain its rows go through; empty: the default chain. Without entries: all default."""

    @property
    def units(self) -> tuple[tuple[str, bool, str], ...]:
        """By unit: dataDef, whether its rows are wanted, and task."""
        tasks = self.tasks or ("",) * len(self.data_defs)
        return tuple((name, wants_rows, task) for (name, wants_rows), task in zip(self.data_defs, tasks, strict=True))

    def to_header(self) -> dict[str, Any]:
        return {"kind": "page", **msgspec.to_builtins(self)}

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> "PageTask":
        return msgspec.convert(header, cls)
