"""Describes the job a page belongs to, and resolves `%{…}` variables from it."""

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct, field

from crawl_engine.extract.page.page import Page, header_values
from crawl_engine.model.variables import CARRIED, HEADER, SEED, SITEMAP, render


class Context(Struct, kw_only=True):
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
    agent: str = ""
    """The product token by which pages address this crawler."""
    carried: Mapping[str, str] = field(default_factory=dict)
    """Values from the page that leads to this one."""
    explains_links: bool = False
    """Whether the faults of the page explain why links are not followed."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """What each rule of the page that concerns it must know, by its name, in their order."""

    def render(self, text: str, page: Page) -> str:
        """The text with its variables replaced."""
        return render(text, lambda name: self.look_up(name, page)) if "%{" in text else text

    def look_up(self, name: str, page: Page) -> str | None:
        """The value of a variable; None for an unknown name. A value that was not carried, or no header, is empty."""
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
        if name.startswith(HEADER):
            return ", ".join(header_values(page.headers, name.removeprefix(HEADER).lower()))
        if name.startswith((SEED, SITEMAP)):
            return self.carried.get(name, "")
        return self.carried.get(name.removeprefix(CARRIED), "") if name.startswith(CARRIED) else None


def format_utc(seconds: float) -> str:
    """Unix time as ISO 8601 in UTC, to the second: `2024-01-31T09:05:00Z`; empty when out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
