"""The information that plugin code gets about its page, and its reports."""

from collections.abc import Callable, Mapping
from typing import Any

from crawl_engine.errors import quote_text
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import resolve_url
from crawl_engine.model.job import link_key
from crawl_engine.model.record import ExtractedLink
from crawl_engine.plugins.plugin_errors import StepError
from crawl_engine.urls import QueryStripper

MAX_WARNINGS = 1_000
"""Of one step on one page; more are left out."""
_MAX_TEXT = 500
NodeCall = Callable[[str, str, Any], Any]
"""Asks the node: the call (`get`, `set`, `checkpoint`), a key, a value; returns its answer."""


class NodeStore:
    """Values that the steps of a run share, stored by the node."""

    def __init__(self, call: NodeCall) -> None:
        self._call = call

    def get(self, key: str, default: Any = None) -> Any:
        """The JSON value of a key; `default` if none is stored."""
        value = self._call("get", _checked_key(key), None)
        return default if value is None else value

    def set(self, key: str, value: Any) -> None:
        """Write a JSON value of at most 64 kB with the job's own commit."""
        problem = self._call("set", _checked_key(key), value)
        if problem is not None:
            raise StepError(f"store: {problem}", "bad-value")


class PageContext:
    """The `StepContext` of one task on one page."""

    def __init__(
        self,
        context: Context,
        *,
        url: str,
        base: str,
        status: int,
        fetched_at: float,
        task: str,
        data_def: str,
        fields: tuple[str, ...],
        priorities: Mapping[str, int],
        max_links: int,
        call: NodeCall,
        query_stripper: QueryStripper | None = None,
    ) -> None:
        """`base`: what relative URLs are joined to. `priorities`: by group. `query_stripper`: for URLs to follow."""
        self.url = url
        self.status = status
        self.fetched_at = fetched_at
        self.group = context.group
        self.task = task
        self.data_def = data_def
        self.locator = context.locator
        self.depth = context.depth
        self.run = context.run
        self.fields = fields
        self.store = NodeStore(call)
        self.links: dict[tuple[str, str], ExtractedLink] = {}
        """By group and URL."""
        self.base = base
        self._priorities = priorities
        self._max_links = max_links
        self._call = call
        self._query_stripper = query_stripper
        self._warnings: list[tuple[str, str]] = []

    def warning(self, text: str, code: str = "") -> None:
        """Record a warning; the rows stay."""
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings.append((cut_text(text), cut_text(code)))

    def take_warnings(self) -> list[tuple[str, str]]:
        """Text and code of the warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def follow(self, url: object, group: str | None = None) -> None:
        """Make the page of this URL a job of the group; None: of this page's group. Raises StepError."""
        group = group or self.group
        resolved = resolve_url(self.base, url, self._query_stripper, group) if isinstance(url, str) else None
        if resolved is None:
            raise StepError(f"follow: {quote_text(str(url))} is not an http URL", "bad-link")
        if group not in self._priorities:
            raise StepError(f"follow: no task group {quote_text(str(group))}", "bad-link")
        if len(self.links) < self._max_links:
            key = link_key(group, resolved)
            self.links[group, resolved] = ExtractedLink(resolved, group, self._priorities[group], None, key)

    def checkpoint(self, key: str | None = None) -> str | None:
        """Store a text at once for the next attempt at this job; without a text, return the stored one."""
        stored = self._call("checkpoint", "", None if key is None else cut_text(str(key), 4_096))
        return None if stored is None else str(stored)


def cut_text(text: object, limit: int = _MAX_TEXT) -> str:
    """The text on one line, valid in UTF-8 and cut to `limit`."""
    line = " ".join(str(text).split()).encode("utf-8", "replace").decode()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _checked_key(key: str) -> str:
    if not isinstance(key, str) or not 0 < len(key) <= 200:
        raise StepError(f"store: {quote_text(str(key))} is not a key: a text of at most 200 characters", "bad-key")
    return key
