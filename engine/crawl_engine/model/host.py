"""A host: its rules in the defs, the classes and latencies of its answers, our name for it."""

import math
import re
import time
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from msgspec import Struct, field

from crawl_engine.late_regex import late_regex
from crawl_engine.model.declaration import (
    Attempts,
    Concurrency,
    DefKey,
    Delay,
    Duration,
    HeaderValue,
    Hours,
    HttpStatus,
    LoginCheck,
    LoginText,
    LoginUrl,
    PositiveInteger,
    ProxyUrl,
    QueryKey,
    SelectorText,
    Shape,
    Text,
)
from crawl_engine.model.stored_form import NO_POSITION, OMIT_DEFAULT, SourcePosition

_PRODUCT = late_regex(r"[^\s/();,]+")
_COMPATIBLE = late_regex(r"\(compatible;\s*([^\s/();,]+)", re.IGNORECASE)


def product_token(user_agent: str) -> str:
    """The name by which robots.txt and `<meta>` address a User-Agent, in lower case.

    `acme-prices` of `acme-prices/1.0 (+https://acme.example)`; `Mozilla/5.0 (compatible; acmebot/1.0)` has it in its
    comment.
    """
    match = _COMPATIBLE.search(user_agent)
    if match is not None:
        return match[1].lower()
    product = _PRODUCT.search(user_agent)
    return product[0].lower() if product is not None else ""


AuthKind = Literal["basic", "bearer", "digest"]


CookieJarMode = Literal["shared", "perNode", "off"]
"""Who keeps the cookies that a site sets: all nodes, the node that got them, or nobody."""
SAFE_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "dnt",
        "pragma",
        "save-data",
        "upgrade-insecure-requests",
        "user-agent",
    }
)
"""Headers that are safe to send to any origin and to store as written. Any other header may hold a secret."""
FIXED_HEADERS = frozenset({"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding",
                           "upgrade", "proxy-connection", "proxy-authorization"})  # fmt: skip
"""Headers that defs cannot set: they depend on the URL, the body or one connection."""
REDACTED = "[not stored]"
"""Stands for the value of a header that is not stored."""
STATUS_CLASSES = ("2xx", "3xx", "4xx", "429", "5xx", "none")
"""`4xx` is without 429; `none`: a request without an answer."""
_SHORTEST = 0.001
"""Seconds: the upper bound of bucket 0."""
_PER_DOUBLING = 8
_LAST_BUCKET = 160
"""The bucket of 1000 seconds and more."""


class HostAuth(Struct, frozen=True):
    """The authentication for the pages of a host."""

    kind: AuthKind
    credential: str
    """`user:password`, or the token of `bearer`; may hold `%{env.NAME}`."""

    def __repr__(self) -> str:
        return f"HostAuth({self.kind})"


class SignRule(Struct, frozen=True, kw_only=True):
    """How the requests to a host are signed, so that it knows who asks."""

    key: Annotated[
        HeaderValue,
        DefKey("The private key, Ed25519 in PEM form, in a variable.", examples=("%{file.bot.pem}", "%{env.BOT_KEY}")),
    ]
    agent: Annotated[
        Text, DefKey("The https URL below which the public key is found.", examples=("https://bot.example",))
    ]
    when: Annotated[
        Literal["always", "asked"],
        DefKey("Which requests are signed: all (default), or those to hosts that refuse one and ask for a signature."),
    ] = "always"


SIGNED_AUTHORITY, SIGNED_AGENT = "@authority", "signature-agent"
"""What each signature of a request covers: its host, and who asks."""


class RequestedSignature(NamedTuple):
    """What a signature of a request covers, as a site asks for it (RFC 9421, 5)."""

    label: str = "sig1"
    components: tuple[str, ...] = (SIGNED_AUTHORITY, SIGNED_AGENT)
    nonce: str | None = None


class BlockSign(Struct, frozen=True, kw_only=True):
    """An answer by which the site refuses the crawler: all keys of a sign must apply."""

    status: Annotated[HttpStatus | None, DefKey("The HTTP status.", examples=(403,))] = None
    match: Annotated[
        Text | None,
        DefKey("A text in the first 8 kB of the body, in capitals or not.", examples=("verify you are human",)),
    ] = None


class TlsRule(Struct, frozen=True, kw_only=True):
    """Which certificates are accepted from the host, and which one the crawler shows."""

    verify: Annotated[bool, DefKey("Whether the certificate of the host is checked; default true.")] = True
    ca: Annotated[
        Text | None,
        DefKey(
            "A PEM file with the authorities to trust in place of the system's, relative to this file.",
            examples=("ca.pem",),
        ),
    ] = None
    client: Annotated[
        Text | None,
        DefKey(
            "A PEM file with a client certificate and its private key, relative to this file.",
            examples=("client.pem",),
        ),
    ] = None


class HostRoute(Struct, frozen=True, kw_only=True):
    """What requests for a host need besides a plain connection."""

    proxies: Annotated[
        tuple[ProxyUrl, ...],
        Shape.ITEM_OR_LIST,
        DefKey(
            "The URL of an HTTP or SOCKS5 proxy, or a list of them, which requests take in turn.",
            name="proxy",
            examples=("%{env.PROXY}", "socks5h://127.0.0.1:9050", ["%{env.PROXY_1}", "%{env.PROXY_2}"]),
        ),
    ] = ()
    tls: Annotated[TlsRule | None, DefKey("Which certificates are accepted and shown.")] = None
    http2: Annotated[bool, DefKey("Whether to offer HTTP/2 over https; default false.")] = False

    def __repr__(self) -> str:
        return f"HostRoute({len(self.proxies)} proxies, tls={self.tls}, http2={self.http2})"


class DelayRange(Struct, frozen=True, kw_only=True):
    """Seconds between two requests to a host: drawn for each one from `min` to `max`."""

    min: Annotated[Delay, DefKey("The shortest time, in seconds; Crawl-delay and throttle raise it.", examples=(1,))]
    max: Annotated[Delay | None, DefKey("The longest time, in seconds; default: `min`.", examples=(3,))] = None


class RetryRule(Struct, frozen=True, kw_only=True):
    """Which answers of a host are asked for again, and how often."""

    statuses: Annotated[
        tuple[HttpStatus, ...],
        Shape.ITEM_OR_LIST,
        DefKey("Statuses to retry besides 5xx, 408, 425 and 429.", examples=([403, 404],)),
    ] = ()
    attempts: Annotated[
        Attempts | None, DefKey("Attempts at a page; default: the setting `max_attempts`.", examples=(6,))
    ] = None
    match: Annotated[
        tuple[Text, ...],
        OMIT_DEFAULT,
        Shape.ITEM_OR_LIST,
        DefKey(
            "Texts in the first 8 kB of a page that is asked for again, in capitals or not.",
            examples=("please try again", ["THROTTLED", "too busy"]),
        ),
    ] = ()
    missing: Annotated[
        SelectorText | None,
        OMIT_DEFAULT,
        DefKey(
            "Pages in which a selector matches nothing; required: pages that lack a required field.",
            examples=(".price", "required"),
        ),
    ] = None


class GiveUpRule(Struct, frozen=True, kw_only=True):
    """When a host is given up that refuses each request: both must be reached."""

    refusals: Annotated[PositiveInteger, DefKey("Refusals in a row; default 20.", examples=(50,))] = 20
    after: Annotated[
        Duration,
        DefKey(
            "The time without a good answer, without waits that the host asked for; default PT30M.", examples=("PT2H",)
        ),
    ] = 1_800.0


def seconds_until_open(hours: str, now: float) -> float:
    """Seconds until these hours begin (`HH:MM-HH:MM`, local time); 0 within them. `now`: wall clock."""
    begin, end = (60 * int(text[:2]) + int(text[3:]) for text in hours.split("-"))
    local = time.localtime(now)
    minute = 60 * local.tm_hour + local.tm_min
    is_open = begin <= minute < end if begin < end else minute >= begin or minute < end
    if is_open:
        return 0.0
    day = local.tm_mday + (minute >= begin)
    opening = time.mktime((local.tm_year, local.tm_mon, day, begin // 60, begin % 60, 0, 0, 0, -1))
    return max(1.0, opening - now)


class LoginRule(Struct, frozen=True, kw_only=True):
    """How to log in to a host, before its first page and when the login is lost."""

    url: Annotated[
        LoginUrl,
        DefKey(
            "The login page, relative to the host or absolute.",
            examples=("/login", "https://id.shop.example/login"),
        ),
    ]
    form: Annotated[
        Mapping[str, LoginText],
        DefKey(
            "The fields to fill in; the others keep what the page has, hidden ones too.",
            examples=({"user": "%{env.SHOP_USER}", "password": "%{env.SHOP_PASSWORD}"},),
        ),
    ]
    selector: Annotated[
        SelectorText | None,
        DefKey("Selects the form; default: the first one that has these fields.", examples=("form#login",)),
    ] = None
    submit: Annotated[
        Text | None,
        DefKey(
            "The button that sends it, by its name or id, or none, as scripts send it; default: the first one.",
            examples=("signin", "none"),
        ),
    ] = None
    check: Annotated[
        LoginCheck | None,
        DefKey(
            "What each page has while the login lasts; a page without it is asked for again.",
            examples=(".logout", "a[href='/logout']"),
        ),
    ] = None
    on_lost: Annotated[
        Literal["relogin", "pause"],
        DefKey(
            "What follows when the login is lost: relogin (default), or pause, until an operator resumes the host.",
            name="on_lost",
        ),
    ] = "relogin"


def _status_class(status: int) -> str:
    """The class of a status; 0: there was no answer."""
    if status == 429:
        return "429"
    return f"{status // 100}xx" if 200 <= status <= 599 else "none"


def count_by_class(answers: Mapping[int, int]) -> dict[str, int]:
    """The answers of each class that occurs, in the order of `STATUS_CLASSES`; `answers`: by status."""
    counts = dict.fromkeys(STATUS_CLASSES, 0)
    for status, count in answers.items():
        counts[_status_class(status)] += count
    return {name: count for name, count in counts.items() if count}


def bucket_of(seconds: float) -> int:
    if seconds <= _SHORTEST:
        return 0
    return min(_LAST_BUCKET, math.ceil(math.log2(seconds / _SHORTEST) * _PER_DOUBLING))


def quantile(histogram: Mapping[int, int], share: float) -> float | None:
    """The latency, in seconds, that `share` (0..1) of the answers do not exceed; None without answers.

    Interpolated within its bucket: at most 9 % off between 1 ms and 1000 s.
    """
    total = sum(histogram.values())
    if total <= 0:
        return None
    rank, below = share * total, 0
    for bucket in sorted(histogram):
        count = histogram[bucket]
        if count > 0 and below + count >= rank:
            within = max(0.0, (rank - below) / count)
            return _lower_bound(bucket) + (_upper_bound(bucket) - _lower_bound(bucket)) * within
        below += count
    return _upper_bound(max(histogram))


def difference(now: Mapping[int, int], before: Mapping[int, int]) -> dict[int, int]:
    """The additions to a histogram since an earlier one."""
    return {bucket: count - before.get(bucket, 0) for bucket, count in now.items() if count > before.get(bucket, 0)}


def _upper_bound(bucket: int) -> float:
    return _SHORTEST * 2 ** (bucket / _PER_DOUBLING)


def _lower_bound(bucket: int) -> float:
    return 0.0 if bucket == 0 else _upper_bound(bucket - 1)


def _no_pairs() -> Mapping[str, str]:
    return MappingProxyType({})


class HostRule(Struct, frozen=True, kw_only=True):
    """Request policy for one host."""

    name: str
    """A name without a port matches every port; one with `*` is a pattern."""
    delay: Annotated[
        DelayRange | None,
        Shape.MAPPING_OR_MIN,
        DefKey("Seconds between two requests, or their bounds.", examples=(0.5, {"min": 1, "max": 3})),
    ] = None
    retry: Annotated[RetryRule | None, DefKey("Which answers are asked for again, and how often.")] = None
    give_up: Annotated[
        GiveUpRule | None,
        OMIT_DEFAULT,
        Shape.MAPPING_OR_FALSE,
        DefKey("When a host that refuses each request is given up; false: never.", name="giveUp"),
    ] = GiveUpRule()
    hours: Annotated[Hours | None, DefKey("The local time in which the host is asked.", examples=("22:00-06:00",))] = (
        None
    )
    concurrency: Annotated[
        Concurrency | None, DefKey("The maximum number of concurrent requests.", examples=(2, 8))
    ] = None
    shared: Annotated[
        bool,
        OMIT_DEFAULT,
        DefKey("Whether all hosts of a pattern have one limit together: delay, concurrency and rests; default false."),
    ] = False
    headers: Annotated[
        Mapping[str, HeaderValue], DefKey("Headers to send to this host.", examples=({"Accept-Language": "en"},))
    ] = field(default_factory=_no_pairs)
    cookies: Annotated[
        Mapping[str, HeaderValue], DefKey("Cookies to send to this host.", examples=({"consent": "yes"},))
    ] = field(default_factory=_no_pairs)
    robots: Annotated[bool | None, DefKey("Whether to obey robots.txt.")] = None
    nofollow: Annotated[bool, DefKey("Whether to skip links marked nofollow; default true.")] = True
    private: Annotated[
        bool | None,
        DefKey("Whether the host may be at a private, loopback or other guarded address; default false."),
    ] = None
    throttle: Annotated[
        Literal["auto", "off"] | None,
        DefKey("With auto, the delay follows the time the host takes to respond."),
    ] = None
    blocked: Annotated[
        tuple[BlockSign, ...],
        Shape.LIST_OR_FALSE,
        DefKey("Further signs of an answer that blocks the crawler; false turns off the built-in ones."),
    ] = ()
    challenges: bool = True
    """Whether the built-in signs of a refusal apply."""
    cookie_jar: Annotated[
        CookieJarMode | None,
        DefKey(
            "Who keeps the cookies of the site: all nodes (default with `login`), each node its own (default), nobody."
        ),
    ] = None
    login: Annotated[LoginRule | None, DefKey("How to log in before the first page of the host.")] = None
    drop: Annotated[
        tuple[QueryKey, ...],
        DefKey(
            "Keys of queries and paths, with `*` and `?` as wildcards, to remove from URLs that pages name.",
            examples=(["utm_*", "gclid", "jsessionid"],),
        ),
    ] = ()
    middleware: Annotated[
        tuple[Text, ...],
        Shape.ITEM_OR_LIST,
        DefKey(
            "Plugin classes around the requests for the pages of this host, the first outermost.",
            examples=(["sign.Sign"],),
        ),
    ] = ()
    sign: Annotated[
        SignRule | None, OMIT_DEFAULT, DefKey("How requests are signed, those for robots.txt and sitemaps too.")
    ] = None
    auth: Annotated[HostAuth | None, DefKey("HTTP authentication for the pages of this host.")] = None
    route: Annotated[HostRoute | None, Shape.INLINE] = None
    """None: directly, by HTTP/1.1, with the certificates that the system trusts."""
    place: SourcePosition = NO_POSITION

    @property
    def jar_mode(self) -> CookieJarMode:
        """Who keeps the cookies that the site sets."""
        return self.cookie_jar or ("perNode" if self.login is None else "shared")


class HostPolicy(Struct, frozen=True):
    """Limits of a host: seconds between requests, concurrent requests, whether robots.txt applies.

    `throttle`: whether the delay follows the host's latency.
    """

    delay: float
    concurrency: int
    robots: bool
    agent: str = ""
    """The product token for robots.txt."""
    throttle: bool = False
    login: LoginRule | None = None
    """How to log in before its pages."""
    delay_max: float = 0.0
    """Up to which each delay is drawn; 0: it is `delay`."""
    pool: str | None = None
    """The pattern whose hosts have these limits together; None: the host has them for itself."""


class HostState(StrEnum):
    """How a host is. The words are those of the console, of `status` and of JSON; `docs/glossary.md` explains them."""

    OK = "ok"
    SHAKY = "shaky"
    FAILING = "failing"
    REFUSED = "refused"
    SILENT = "silent"
    RESTING = "resting"
    PAUSED = "paused"
    WAITING = "waiting"
    UNASKED = "unasked"
    FINISHED = "finished"


TROUBLE = (HostState.FAILING, HostState.REFUSED, HostState.SILENT, HostState.RESTING)
