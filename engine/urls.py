"""URLs by the WHATWG rules, as browsers read them: normalize, join, name the host. Fetches nothing, knows no defs."""

import re

from ada_url import URL, join_url, normalize_url

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_USERINFO = re.compile(r"^\s*([a-z][a-z0-9+.-]*:[/\\]+)?.*@", re.IGNORECASE | re.DOTALL)


def normalize(url: str) -> str | None:
    """The absolute http(s) URL without its fragment, space around it stripped; None when it is no such URL.

    Normalizing twice changes nothing. Costs about 1.8 µs.
    """
    try:
        href = normalize_url(url)
    except ValueError:
        return None
    return _strip_fragment(href)


def join(base: str, href: str, keep_fragment: bool = False) -> str | None:
    """What `href` means on a page at `base`, like `normalize`; None when it is invalid or not http(s).

    With `keep_fragment` the fragment stays, and so does any scheme: the value of a url field, not a link to follow.
    Costs about 1.8 µs.
    """
    try:
        joined = join_url(base, href)
    except ValueError:
        return None
    return joined if keep_fragment else _strip_fragment(joined)


def is_http_url(url: str) -> bool:
    """Whether the text begins as an absolute http(s) URL; it may still be invalid."""
    return url[:8].lower().startswith(("http://", "https://"))


def host_of(url: str) -> str:
    """The host name of a normalized URL without port: lower case, punycode, IPv6 in brackets. Below 1 µs."""
    authority = _authority(url)
    colon = authority.rfind(":")
    return authority if colon < 0 or authority[-1] == "]" else authority[:colon]


def host_key(url: str) -> str:
    """`name:port` of a normalized URL, the default port filled in: the key for clocks and robots. Below 1 µs."""
    authority = _authority(url)
    if ":" in authority and authority[-1] != "]":
        return authority
    return authority + _DEFAULT_PORTS[url[: url.index(":")]]


def origin(url: str) -> str:
    """`https://name[:port]` of a normalized URL: what must stay the same for credentials to travel on."""
    return url[: url.index("://") + 3] + _authority(url)


def userinfo_of(url: str) -> str:
    """The `user:password` of a normalized URL, percent-encoded as written; empty when it has none."""
    start = url.index("://") + 3
    end = url.find("/", start)
    before_path = url[start:] if end < 0 else url[start:end]
    return before_path[: max(before_path.rfind("@"), 0)]


def without_credentials(url: str) -> str:
    """The URL without `user:password@`, for logs and events; an invalid one loses all up to its last `@`."""
    if "@" not in url:
        return url
    try:
        parsed = URL(url)
        if not (parsed.username or parsed.password):
            return url
        parsed.username = parsed.password = ""
        return parsed.href
    except ValueError:
        return _USERINFO.sub(r"\1", url)


def _strip_fragment(href: str) -> str | None:
    if not href.startswith(("http://", "https://")):
        return None
    # A normalized http URL has a raw "#" only where its fragment begins.
    mark = href.find("#")
    return href if mark < 0 else href[:mark]


def _authority(url: str) -> str:
    start = url.index("://") + 3
    end = url.find("/", start)
    authority = url[start:] if end < 0 else url[start:end]
    return authority[authority.rfind("@") + 1 :] if "@" in authority else authority
