"""Which entries of a sitemap are followed, and into which groups they lead."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SitemapLink:
    """Which entries of a sitemap lead into which group."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    group: str | None = None
    """None: the locator's own group."""
    priority: int | None = None
    """None: that of the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SitemapRules:
    """Which entries of a sitemap are followed, and where to: by the first of `links` that takes them."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    links: tuple[SitemapLink, ...] = ()
    """Empty: all that `allow` and `deny` leave lead into the locator's own group."""
