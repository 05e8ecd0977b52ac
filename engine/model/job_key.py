"""Keys that identify jobs and fetches: 16-byte hashes, so that collisions are negligible."""

import hashlib


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\x00".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def link_key(group: str, url: str) -> bytes:
    """The key of a page reached by a link, within its group."""
    return _key("link", group, url)


def locator_key(group: str, name: str, url: str, method: str, body: str | None) -> bytes:
    """The key of a page of a locator."""
    return _key("locator", group, name, url, method, body or "")


def robots_key(host: str) -> bytes:
    """The key of the robots.txt of a host (`name:port`)."""
    return _key("robots", host)


def document_key(url: str, method: str = "GET", body: str | None = None) -> bytes:
    """The key of a fetch: jobs with the same key share one document."""
    return _key("document", method, url, body or "")
