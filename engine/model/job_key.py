"""What makes two jobs, or two fetches, the same. Keys are 16 bytes: no two things of one crawl meet by chance."""

import hashlib


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\x00".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def link_key(group: str, url: str) -> bytes:
    """A page reached by a link, within its group."""
    return _key("link", group, url)


def locator_key(group: str, name: str, url: str, method: str, body: str | None) -> bytes:
    """A page asked for by a locator."""
    return _key("locator", group, name, url, method, body or "")


def robots_key(host: str) -> bytes:
    """The robots.txt of a host (`name:port`)."""
    return _key("robots", host)


def document_key(url: str, method: str = "GET", body: str | None = None) -> bytes:
    """What one fetch answers: jobs that agree on it share one document."""
    return _key("document", method, url, body or "")
