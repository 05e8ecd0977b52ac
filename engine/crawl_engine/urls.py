"""URLs by the WHATWG rules: normalize, join, host, origin, credentials, dropped keys."""

import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import translate
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, unquote, unquote_plus

from ada_url import URL, join_url, normalize_url

from crawl_engine.host_rules import HostRules
from crawl_engine.late_regex import late_regex

if TYPE_CHECKING:
    from crawl_engine.model.definition import Definitions

FILE_HOST_KEY = "file:0"
"""The host key of all `file:` URLs."""
_MAX_SHOWN = 200
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_START = late_regex(r"(?!mailto:|sips?:|xmpp:|data:|javascript:|urn:)[^/?#]*", re.IGNORECASE)
"""Where `user:password@` stands in a text that lacks the scheme of a URL."""
_NESTED = late_regex(r"(?!https?:)[^/\\?#@]{1,200}?(?=https?:[/\\])", re.IGNORECASE)
"""A scheme or other text in front of a whole http URL."""
_ENCODED_SEPARATOR = late_regex("%(?:2f|5c|00)", re.IGNORECASE)
_BEFORE_AT = late_regex(r"^\s*([a-z][a-z0-9+.-]*:[/\\]+)?.*@", re.IGNORECASE | re.DOTALL)
_PATH = late_regex(r"\s*(?:[?#.]|/(?![/\\]))")
"""The start of a relative URL without a host."""
_IGNORED = late_regex(r"^[\x00-\x20]+|[\t\n\r]")
"""Characters that have no meaning in a URL."""
_OCTET = r"(?:25[0-5]|(?:2[0-4]|1[0-9]|[1-9])?[0-9])"
_NORMAL = late_regex(
    rf"https?://(?:[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*\.[a-z]{{2,}}(?<!-)|{_OCTET}(?:\.{_OCTET}){{3}})(?::[1-9][0-9]{{3}})?"
    r"(?:/(?!\.)[A-Za-z0-9_~!$&()*+,;=:@.-]*)+(?:\?[A-Za-z0-9_~!$&()*+,;=:@./-]*)?",
)
"""Most URLs as they are written, which normalizing would not change."""
_USERINFO = late_regex(
    r"(https?:[/\\]*|socks5h?://|[/\\]{2,})((?:[^/\\?#%]|%\{[^{}]*\}|%(?!\{[^{}]*\})|\\[{},])*)@", re.IGNORECASE
)
"""The start of a URL up to the last `@` of its authority, as browsers find it; a `%{…}` is one character."""
_SCHEME = late_regex(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_HOST_WITHOUT_SCHEME = late_regex(
    r"""\s*(?!\.)(?:localhost|\[[0-9a-f:.]+\]|(?:[\w-]+\.)+(?:(?!(?:html?|php|aspx?|jsp|json|xml|csv|txt|pdf)$)[\w-]+))
    (?::[0-9]+)?(?:[/?\#]|$)""",
    re.IGNORECASE | re.VERBOSE,
)
"""A host, and what follows it in a URL. `page.html` is a file."""
_QUERY_VALUE = late_regex(r"(?<=[?&])([^?&#=\s]+)=[^&#\s]*")
_SECRET_KEY = late_regex(r"password|secret|scram_", re.IGNORECASE)
"""In the names of libpq's parameters: of `password`, `sslpassword`, `scram_client_key`, …"""
_PATH_PARAMETER = late_regex(r";([^;/=]*)=[^;/]*")
"""`;jsessionid=7`, which a segment of a path may hold besides its name."""
_SOCKS = late_regex(r"(socks5h?)://", re.IGNORECASE)
_HOMES = ("#/", "#!", "#!/")
"""Fragments of the page that has none."""


def normalize(url: str, *, keeps_route: bool = False) -> str | None:
    """The absolute http(s) URL without fragment and surrounding space; None for any other text.

    `keeps_route`: with the fragment that is a route. Normalizing twice changes nothing.
    """
    if is_normal(url):
        return url
    try:
        href = normalize_url(url)
    except ValueError:
        return None
    return _strip_fragment(href, keeps_route=keeps_route)


def is_normal(url: str) -> bool:
    """Whether normalizing would not change the URL. False for some that it would not change either."""
    return _NORMAL.fullmatch(url) is not None and "xn--" not in url


def route_of(url: str) -> str:
    """The fragment by which scripts choose what a document shows: `#/tea/1`, `#!tea`. Empty: another one, or none."""
    mark = url.find("#")
    return "" if mark < 0 or url[mark + 1 : mark + 2] not in ("/", "!") or url[mark:] in _HOMES else url[mark:]


def join(base: str, href: str, keep_fragment: bool = False, *, keeps_route: bool = False) -> str | None:
    """The URL of `href` on a page at `base`, normalized; None when it is invalid or not http(s).

    With `keep_fragment`, for the value of a url field, the fragment stays and any scheme is allowed.
    `keeps_route`: as of `normalize`.
    """
    try:
        joined = join_url(base, href)
    except ValueError:
        return None
    return joined if keep_fragment else _strip_fragment(joined, keeps_route=keeps_route)


def is_http_url(url: str) -> bool:
    """Whether the text starts like an absolute http(s) URL; it may still be invalid."""
    return url[:8].lower().startswith(("http://", "https://"))


def split_socks(url: str) -> tuple[str, str]:
    """The scheme of a SOCKS proxy, `socks5` or `socks5h`, and the URL that an HTTP proxy would have there.

    The scheme of another URL is empty, and the URL as it is.
    """
    match = _SOCKS.match(url)
    return ("", url) if match is None else (match[1].lower(), f"http{url[match.end(1) :]}")


def is_absolute(url: str) -> bool:
    """Whether the text is a whole http(s) or `file:` URL."""
    return normalize(url) is not None or (is_file_url(url) and _file_url(url) is not None)


def is_file_url(url: str) -> bool:
    """Whether the text is a `file:` URL; it may still be invalid."""
    return url[:5].lower() == "file:"


def host_of(url: str) -> str:
    """The host name of a normalized URL without port: lower case, punycode, IPv6 in brackets."""
    authority = _authority(url)
    colon = authority.rfind(":")
    return authority if colon < 0 or authority[-1] == "]" else authority[:colon]


def similar_host(name: str, keys: Iterable[str]) -> str | None:
    """The host (`name:port`) that was probably meant: another port of this name, else a name that differs by a typo.

    Names that differ in digits alone, or in their number of labels, are probably meant.
    """
    from difflib import get_close_matches  # rarely needed

    names = {key.rpartition(":")[0]: key for key in sorted(keys)}
    host, _, port = name.rpartition(":")
    if not port.isdigit() or "]" in port:
        host = name
    if host in names:
        return names[host]
    digits = str.maketrans("", "", "0123456789")
    like = [
        one for one in names if one.count(".") == host.count(".") and one.translate(digits) != host.translate(digits)
    ]
    close = get_close_matches(host, like, n=1, cutoff=0.85)
    return close[0] if close else None


def host_without_www(url: str) -> str:
    """The host name of a normalized URL without a leading `www.` and a trailing dot: most sites answer under both."""
    return bare_host(host_of(url)).removeprefix("www.")


def parameter_of(url: str, name: str) -> str | None:
    """The value of the first parameter of that name in the query, decoded; None: there is none."""
    pair = next((pair for pair in url.partition("?")[2].split("&") if _key_of(pair) == name), None)
    return None if pair is None else unquote_plus(pair.partition("=")[2])


def with_parameter(url: str, name: str, value: str) -> str:
    """A URL without fragment in which that parameter, the first of its name, has another value; the rest stays."""
    bare, _, query = url.partition("?")
    pairs = query.split("&") if query else []
    place = next((place for place, pair in enumerate(pairs) if _key_of(pair) == name), len(pairs))
    key = pairs[place].partition("=")[0] if place < len(pairs) else quote_plus(name)
    return f"{bare}?{'&'.join([*pairs[:place], f'{key}={quote_plus(value)}', *pairs[place + 1 :]])}"


def bare_host(host: str) -> str:
    """A host name without trailing dots; an IPv4 address mapped to IPv6 in its IPv4 form."""
    if host.startswith("[::ffff:"):
        from ipaddress import IPv6Address  # slow to import, for a rare spelling

        mapped = IPv6Address(host[1:-1]).ipv4_mapped
        return host if mapped is None else str(mapped)
    return host.rstrip(".")


def host_key(url: str) -> str:
    """`name:port` of a normalized URL, the default port filled in: the key for clocks and robots.

    All spellings of a name are one host: see `bare_host`.
    """
    authority = _authority(url)
    if not authority:
        return FILE_HOST_KEY
    if authority[-1] == "." or ".:" in authority or authority.startswith("[::ffff:"):
        host = host_of(url)
        authority = bare_host(host) + authority[len(host) :]
    if ":" in authority and authority[-1] != "]":
        return authority
    return authority + _DEFAULT_PORTS[url[: url.index(":")]]


def origin(url: str) -> str:
    """`https://name[:port]` of a normalized URL: credentials are sent on only while it stays the same."""
    return url[: url.index("://") + 3] + _authority(url)


def userinfo_of(url: str) -> str:
    """The `user:password` of a normalized URL, percent-encoded as written, or an empty text."""
    start = url.index("://") + 3
    end = url.find("/", start)
    before_path = url[start:] if end < 0 else url[start:end]
    return before_path[: max(before_path.rfind("@"), 0)]


def split_userinfo(url: str) -> tuple[str, str]:
    """A URL as written, without `user:password@`, and its `user:password` or an empty text."""
    if "@" not in url:
        return url, ""
    bare = _IGNORED.sub("", url)
    match = _USERINFO.match(bare)
    return (url, "") if match is None else (match[1] + bare[match.end() :], match[2])


def resolve(url: str, base: str | None, *, keeps_route: bool = False) -> str | None:
    """The URL of a seed as written, normalized; `base`: of relative ones. None if it is not an http, https or file URL.

    `keeps_route`: as of `normalize`.
    A `file:` URL without a slash is relative to the current folder. None, too, for a list that was not in UTF-8:
    U+FFFD, which stands for its bytes, is not part of any URL.
    """
    if "\ufffd" in url:
        return None
    if is_file_url(url):
        return _file_url(url)
    if base and is_file_url(base) and not is_http_url(url):
        folder = _file_url(base)
        return None if folder is None else resolve_below(folder.rstrip("/") + "/", url)
    return join(base, url, keeps_route=keeps_route) if base else normalize(url, keeps_route=keeps_route)


def scheme_hint(url: str) -> str:
    """` (http:// missing?)` for a text that starts with the name of a host, else nothing."""
    return " (http:// missing?)" if _HOST_WITHOUT_SCHEME.match(url) else ""


def describe_unusable(written: str, base: str | None) -> str:
    """Why `resolve` gives no URL for a text: `no usable URL: x.example (http:// missing?)`."""
    shown = without_credentials(written)[:_MAX_SHOWN]
    return f"no usable URL: {shown} ({_why_unusable(shown, base)})"


def _why_unusable(url: str, base: str | None) -> str:
    if hint := scheme_hint(url):
        return hint.strip(" ()")
    scheme = _SCHEME.match(url)
    if scheme is not None and not is_http_url(url.strip()):
        return f"{scheme[1]}: is not http or https"
    return "a relative URL, and no base is set" if base is None and scheme is None else "not a valid URL"


def resolve_below(folder: str, path: str) -> str | None:
    """The `file:` URL of a path below a folder, which stands for a site: `/a` is in it. None for a path outside."""
    try:
        href = join_url(folder, path.lstrip("/"))
    except ValueError:
        return None
    href = href.partition("#")[0]
    # no name of a file has a slash or NUL, however written: `..%2f` would lead out of the folder
    return href if href.startswith(folder) and _ENCODED_SEPARATOR.search(href, len(folder)) is None else None


def without_credentials(url: str) -> str:
    """The URL without `user:password@`, for every text; of an invalid URL, all up to the last `@` is removed."""
    if "@" not in url or _PATH.match(url):
        return url
    start = _START.match(url)
    login = "" if start is None else start[0]
    if ":" in login.partition("@")[0] and "@" in login:  # no URL: a parser would take `user:` for its scheme
        return url[login.rindex("@") + 1 :]
    nested = _NESTED.match(url)
    if nested is not None:  # `view-source:http://user:password@host`: all behind the scheme is opaque to a parser
        return url[: nested.end()] + without_credentials(url[nested.end() :])
    try:
        parsed = URL(url)
        if not (parsed.username or parsed.password):
            return url
        parsed.username = parsed.password = ""
        return parsed.href
    except ValueError:
        return _BEFORE_AT.sub(r"\1", url)


def without_passwords(url: str) -> str:
    """A URL of a database without `user:password@`, and without passwords in its query."""
    return _QUERY_VALUE.sub(
        lambda item: f"{item[1]}=…" if _SECRET_KEY.search(unquote(item[1])) else item[0], without_credentials(url)
    )


def _file_url(url: str) -> str | None:
    try:
        href = join_url(Path.cwd().as_uri() + "/", url if url[5:6] == "/" else url[5:])
    except ValueError:
        return None
    return href.partition("#")[0] if href.startswith("file:///") else None


def _strip_fragment(href: str, *, keeps_route: bool) -> str | None:
    if not href.startswith(("http://", "https://")):
        return None
    # A normalized http URL has a raw "#" only where its fragment begins.
    mark = href.find("#")
    if mark < 0:
        return href
    return href[:mark] + route_of(href) if keeps_route else href[:mark]


def _authority(url: str) -> str:
    authority = url.split("/", 3)[2]
    return authority[authority.rfind("@") + 1 :] if "@" in authority else authority


class QueryStripper:
    """What a def version says of URLs: its compiled `drop` rules, and groups whose URLs have routes. Thread-safe."""

    def __init__(self, rules: Mapping[str, Iterable[str]], routed: Iterable[str] = ()) -> None:
        """`rules`: patterns of keys by names of `HostRules`; an empty one: these hosts drop nothing."""
        self.routed = frozenset(routed)
        """The groups whose URLs keep their routes."""
        plain = repr((sorted((name, sorted(patterns)) for name, patterns in rules.items()), sorted(self.routed)))
        self.key = blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        """Strippers with the same key do the same."""
        self._keys_by_host = HostRules({name: _compile(patterns) for name, patterns in rules.items()})
        self._has_rules = bool(rules)

    @classmethod
    def from_rules(cls, rules: Mapping[str, Iterable[str]], routed: Collection[str] = ()) -> "QueryStripper | None":
        """The stripper of these rules; None without a rule, so that URLs cost nothing then."""
        return cls(rules, routed) if rules or routed else None

    @classmethod
    def from_definitions(cls, definitions: "Definitions") -> "QueryStripper | None":
        """As `from_rules`, of the hosts and groups of the defs."""
        from crawl_engine.model.fingerprint import list_query_rules, list_routed_groups

        return cls.from_rules(list_query_rules(definitions), list_routed_groups(definitions))

    def strip_url(self, url: str) -> str:
        """A normalized URL without the keys that its host drops; the rest stays byte for byte, its route too."""
        if not self._has_rules:
            return url
        url, mark, route = url.partition("#")
        return f"{self._strip(url)}{mark}{route}"

    def _strip(self, url: str) -> str:
        bare, mark, query = url.partition("?")
        if not mark and ";" not in bare:
            return url
        host = host_key(url)
        keys = None if host == FILE_HOST_KEY else self._keys_by_host.find(host)
        if keys is None:
            return url
        if ";" in bare:
            bare = _strip_path(bare, keys)
        pairs = query.split("&") if mark else []
        kept = [pair for pair in pairs if not keys.fullmatch(_key_of(pair))]
        if len(kept) < len(pairs):
            query = "&".join(kept)
            mark = "?" if query else ""
        return f"{bare}{mark}{query}"


def _strip_path(url: str, keys: re.Pattern[str]) -> str:
    """A normalized URL without query and without the path parameters of these keys."""
    start = url.index("/", url.index("://") + 3)
    path = _PATH_PARAMETER.sub(lambda found: "" if keys.fullmatch(unquote(found[1])) else found[0], url[start:])
    stripped = url[:start] + path
    return stripped if stripped == url else normalize(stripped) or stripped  # `/a/..;x=1` was no way up


def _key_of(pair: str) -> str:
    key = pair.partition("=")[0]
    return unquote_plus(key) if "%" in key or "+" in key else key


def _compile(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """One expression for all patterns, None without patterns. It does not backtrack on any keys of a page."""
    # brackets are common in keys, such as `filter[size]`, and stand for themselves
    parts = [translate(pattern.replace("[", "[[]")) for pattern in patterns]
    return re.compile("|".join(parts)) if parts else None
