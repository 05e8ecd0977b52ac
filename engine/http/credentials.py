"""Decides what of a host's rule goes along with a request: headers, cookies, authentication, and the route."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from engine import urls
from engine.model.definition import HostRule
from engine.model.host import SAFE_HEADERS, HostAuth, HostRoute

_NO_COOKIES: Mapping[str, str] = MappingProxyType({})


class HostPart(NamedTuple):
    """What the rule of a host adds to a request."""

    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    auth: HostAuth | None = None
    route: HostRoute | None = None
    """How it travels: that is no credential, and the same for robots.txt and sitemaps."""


NOTHING = HostPart(_NO_COOKIES, _NO_COOKIES)


def host_part(rule: HostRule, *, with_credentials: bool) -> HostPart:
    """What the rule adds; without credentials, only the route and the headers that are safe to send anywhere."""
    if with_credentials:
        return HostPart(rule.headers, rule.cookies, rule.auth, rule.route)
    safe = {name: value for name, value in rule.headers.items() if name.lower() in SAFE_HEADERS}
    return HostPart(safe, _NO_COOKIES, None, rule.route)


def may_carry_credentials(rule: HostRule, url: str, start_url: str, plain_hosts: frozenset[str]) -> bool:
    """Whether a request for `url` may carry the credentials of its host's rule.

    Over https always. Over http only where the defs ask for it: the page's locator (`start_url`) or another one
    (`plain_hosts`) names the host with http, or the rule names port 80. A link from an https page cannot ask.
    """
    if url.startswith("https:"):
        return True
    host = urls.host_of(url)
    return (
        host in plain_hosts
        or rule.name.endswith(":80")
        or (start_url.startswith("http:") and urls.host_of(start_url) == host)
    )
