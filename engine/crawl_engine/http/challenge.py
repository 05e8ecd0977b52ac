"""Recognizes a site's refusals of crawlers: challenges, and the signs that the defs name."""

import re
from collections.abc import Sequence

from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import BlockSign, HostRule
from crawl_engine.rare_words import RareWords

REFUSAL_STATUSES = frozenset({401, 403, 407})
"""They refuse one page, until most of a host's answers are such."""
_SEARCHED_BYTES = 8_192

_HEADERS = {
    "cf-mitigated": ("challenge",),
    "x-amzn-waf-action": ("challenge", "captcha"),
    "x-vercel-mitigated": ("challenge",),
    "sg-captcha": ("challenge",),
}
"""Headers of challenges, with their values.

Sources: Cloudflare, "Detect a Challenge Page response"; AWS WAF, "How the CAPTCHA and Challenge actions work"; Vercel,
"Attack Challenge Mode"; SiteGround's anti-bot page, as served with status 202.
"""

_TEXTS = (
    b"window._cf_chl_opt",  # Cloudflare; `challenge-platform` alone stands in ordinary pages, too
    b"window.gokuProps",  # AWS WAF
    b'id="px-captcha"',  # HUMAN, formerly PerimeterX
    b"ct.captcha-delivery.com/",  # DataDome
    b"Request unsuccessful. Incapsula incident ID",  # Imperva
    b'id="anubis_challenge"',  # Anubis
    b"/.well-known/ddos-guard/js-challenge/",  # DDoS-Guard
)
"""Texts of challenges in the first 8 kB of a page, as their makers serve them."""

_TEXTS_OF_SMALL = (
    b"Please consult with your administrator.<br><br>Your support ID is",  # F5 BIG-IP ASM
    b"Please enable JavaScript to view the page content.<br/>Your support ID is",  # F5 Shape, formerly TSPD
    b"<title>Pardon Our Interruption",  # Imperva, formerly Distil
    b"/_Incapsula_Resource?",  # Imperva; in ordinary pages, too: see `_CONFIRMED`
    b"sucuri_cloudproxy_js",  # Sucuri
    b"<script>var arg1='",  # Alibaba Cloud WAF, which sets the cookie acw_sc__v2
    b"/errors/validateCaptcha",  # Amazon
    b"/_sec/verify?provider=interstitial",  # Akamai Bot Manager
    b"<title>Checking you are not a bot",  # go-away
)
"""Further ones, in pages of at most 32 kB."""
_MAX_SMALL = 32_768
ALL_TEXTS = RareWords(*_TEXTS, *_TEXTS_OF_SMALL)
_CONFIRMED = {
    b"/_Incapsula_Resource?": re.compile(
        rb"noindex,\s*nofollow[\"']?\s*/?>\s*(?:<[^<>]*>\s*){0,8}?<(?:script|iframe)[^<>]*/_Incapsula_Resource\?",
        re.IGNORECASE,
    ),
    b"<script>var arg1='": re.compile(rb"<script>var arg1='[0-9A-F]{16,}'"),
}
"""What a page with such a text must match: the text alone is no sign."""
_ACCEPTED = 202


def find_challenge(response: FetchResponse, rule: HostRule) -> str | None:
    """Why the response is a challenge, by the rule of its host and the built-in signs; None for a page."""
    start: bytes | None = None
    for sign in rule.blocked:
        if sign.match is not None and start is None:
            start = response.body[:_SEARCHED_BYTES].lower()
        if _applies(sign, response.status, start or b""):
            return _describe(sign, response.status)
    if not rule.challenges:
        return None
    for name, value in response.headers:
        if name in _HEADERS and value.strip().lower() in _HEADERS[name]:
            return f"challenge ({name}: {value.strip().lower()})"
    if response.status == _ACCEPTED and not response.body:  # AWS WAF; browsers get a script by further headers
        return "challenge (HTTP 202 without a page)"
    if "html" in response.content_type and (text := _find_text(response.body)) is not None:
        return f"challenge ({text.decode()})"
    return None


def find_retry_text(body: bytes, texts: Sequence[str]) -> str | None:
    """The first of these texts of the defs that the beginning of a page has, in capitals or not."""
    start = body[:_SEARCHED_BYTES].lower()
    return next((text for text in texts if text.lower().encode() in start), None)


def _find_text(body: bytes) -> bytes | None:
    page = body[:_SEARCHED_BYTES]
    found = ALL_TEXTS.find(page)
    for text in _TEXTS if len(body) > _MAX_SMALL else ALL_TEXTS.words:
        if text in found and (text not in _CONFIRMED or _CONFIRMED[text].search(page)):
            return text
    return None


def _applies(sign: BlockSign, status: int, start: bytes) -> bool:
    return (sign.status is None or sign.status == status) and (
        sign.match is None or sign.match.lower().encode() in start
    )


def _describe(sign: BlockSign, status: int) -> str:
    return f"HTTP {status}" if sign.match is None else f"HTTP {status}, {sign.match!r} on the page"
