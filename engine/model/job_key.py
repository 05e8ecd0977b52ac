"""Keys that identify jobs and fetches: 16-byte hashes, so that collisions are negligible."""

import hashlib

KEY_BYTES = 16


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\x00".join(parts).encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def link_key(group: str, url: str) -> bytes:
    """The key of a page reached by a link, within its group."""
    return _key("link", group, url)


def request_key(group: str, url: str, method: str, body: str | None) -> bytes:
    """The key of a page reached by a link that sends another request than a plain GET, within its group."""
    return _key("request", group, url, method, body or "")


def locator_key(group: str, name: str, url: str, method: str, body: str | None, account: str = "") -> bytes:
    """The key of a page of a locator, for the user whose credentials are sent."""
    return _key("locator", group, name, url, method, body or "", *([account] if account else ()))


def sitemap_key(group: str, name: str, url: str, body: str | None, account: str = "", rules: str = "") -> bytes:
    """The key of a sitemap of a locator. `rules`: a hash of those for its entries; with others it is read again."""
    plain = locator_key(group, name, url, "sitemap", body, account)
    return _key("sitemap", plain.hex(), rules) if rules else plain


def account_of(userinfo: str) -> str:
    """The user of a `user:password`, part of the keys of what is fetched with it: each user may see another page."""
    return userinfo.partition(":")[0]


def robots_key(host: str) -> bytes:
    """The key of the robots.txt of a host (`name:port`)."""
    return _key("robots", host)


def login_key(host: str) -> bytes:
    """The key of the login to a host (`name:port`)."""
    return _key("login", host)


def file_key(url: str) -> bytes:
    """The key of a file that a field names: one of a run, whatever pages name it."""
    return _key("file", url)


def document_key(url: str, method: str = "GET", body: str | None = None, variant: str = "") -> bytes:
    """The key of a fetch: jobs with the same key share one document. `variant`: of the request, such as its headers."""
    return _key("document", method, url, body or "", *([variant] if variant else ()))
