"""Describes the job a page belongs to, and resolves `%{…}` variables from it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from engine.extract.page import Page
from engine.model.variables import render


@dataclass(slots=True, kw_only=True)  # not frozen: that takes five times as long, for every page
class Context:
    """The job a page belongs to."""

    group: str
    locator: str
    locator_url: str
    depth: int
    """0 for a locator's own page."""
    run: str
    run_time: str
    nofollow: bool = True
    """Whether links and pages marked `nofollow` are respected on this host."""
    meta_nofollow: bool = True
    """Whether pages marked `nofollow` are respected at all."""
    meta_noindex: bool = False
    """Whether pages marked `noindex` give no rows."""
    agent: str = ""
    """The product token by which pages address this crawler."""

    def render(self, text: str, page: Page) -> str:
        """The text with its variables replaced."""
        return render(text, lambda name: self._lookup_variable(name, page)) if "%{" in text else text

    def _lookup_variable(self, name: str, page: Page) -> str | None:
        match name:
            case "document.url":
                return page.url
            case "document.fetchedAt":
                return format_utc(page.fetched_at)
            case "document.status":
                return str(page.status)
            case "locator.name":
                return self.locator
            case "locator.group":
                return self.group
            case "locator.url":
                return self.locator_url
            case "depth":
                return str(self.depth)
            case "run.id":
                return self.run
            case "run.time":
                return self.run_time
        return None


def format_utc(seconds: float) -> str:
    """Unix time as ISO 8601 in UTC, to the second: `2024-01-31T09:05:00Z`; empty when out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
