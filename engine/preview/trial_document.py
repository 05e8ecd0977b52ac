"""A page that defs are tried on: its bytes, and where they come from."""

from msgspec import Struct


class TrialDocument(Struct, frozen=True, kw_only=True):
    """The bytes of a page, and their origin."""

    body: bytes
    content_type: str
    url: str
    status: int = 200
    fetched_at: float
    """Seconds since 1970."""
    origin: str
    """For example `fetched`, `file`, `job 12`."""
    robots_tags: tuple[str, ...] = ()
    """The values of its X-Robots-Tag headers."""
