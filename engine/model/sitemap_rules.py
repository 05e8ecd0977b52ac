"""Which entries of a sitemap are followed, into which groups they lead, and which are asked for."""

from typing import Literal

from msgspec import Struct

from engine.model.stored_form import Later


class SitemapLink(Struct, frozen=True, kw_only=True):
    """Which entries of a sitemap lead into which group."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    group: str | None = None
    """None: the locator's own group."""
    priority: int | None = None
    """None: that of the group."""


class SitemapRules(Struct, frozen=True, kw_only=True):
    """Which entries of a sitemap are followed, and where to: by the first of `links` that takes them."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    links: tuple[SitemapLink, ...] = ()
    """Empty: all that `allow` and `deny` leave lead into the locator's own group."""
    since: Later[Literal["lastRun"] | None] = None
    """`lastRun`: a page is asked for if it was modified after its stored document was; None: as its group says."""

    @property
    def takes_all(self) -> bool:
        """Whether all entries lead into the locator's own group."""
        return not (self.allow or self.deny or self.links)
