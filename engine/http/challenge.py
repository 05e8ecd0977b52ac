"""Recognizes a site's refusals of crawlers: challenges, and the signs that the defs name."""

from engine.http.response import FetchResponse
from engine.model.definition import BlockSign, HostRule

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
    b"ct.captcha-delivery.com/c.js",  # DataDome
    b"Request unsuccessful. Incapsula incident ID",  # Imperva
    b'id="anubis_challenge"',  # Anubis
    b"/.well-known/ddos-guard/js-challenge/",  # DDoS-Guard
)
"""Texts of challenges in the first 8 kB of a page, as their makers serve them."""


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
    if "html" in response.content_type:
        page = response.body[:_SEARCHED_BYTES]
        for text in _TEXTS:
            if text in page:
                return f"challenge ({text.decode()})"
    return None


def _applies(sign: BlockSign, status: int, start: bytes) -> bool:
    return (sign.status is None or sign.status == status) and (
        sign.match is None or sign.match.lower().encode() in start
    )


def _describe(sign: BlockSign, status: int) -> str:
    return f"HTTP {status}" if sign.match is None else f"HTTP {status}, {sign.match!r} on the page"
