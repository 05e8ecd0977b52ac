"""Which credentials go along with a request, and which of a response are not stored."""

import asyncio
from base64 import b64decode
from collections.abc import Iterator

import pytest

from crawl_engine.http.redirects import build_redirect_request
from crawl_engine.http.request import host_part, may_carry_credentials
from crawl_engine.http.response import FetchResponse, redact_headers
from crawl_engine.model.definition import Definitions
from crawl_engine.model.host import HostRule
from crawl_engine.model.job import Request
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.robots.host_policy import find_plain_hosts
from tests.unit.http.server import LoopbackFetcher, Site, serving

SHOP = HostRule(name="shop.example", headers={"Authorization": "x", "Accept-Language": "de"}, cookies={"c": "1"})


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        site.pages["/"] = lambda x: x.respond()
        yield site


def fetch(url: str, request: Request, *, url_from_defs: bool = False) -> FetchResponse:
    async def once() -> FetchResponse:
        fetcher = LoopbackFetcher(user_agent="tester/1", deadline=5, max_body=1000, connections=4)
        try:
            return await fetcher.send(url, request, url_from_defs=url_from_defs)
        finally:
            await fetcher.aclose()

    return asyncio.run(once())


def test_the_userinfo_of_a_request_is_basic_authorization(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "p@/s%s")
    fetch(site.url("/"), Request(userinfo="us%3Aer:%{env.PW}"), url_from_defs=True)
    assert b64decode(site.requests[0].headers["authorization"].removeprefix("Basic ")) == b"us:er:p@/s%s"
    fetch(site.url("/"), Request(userinfo="u:p", headers=(("authorization", "Bearer t"),)))
    assert site.requests[1].headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    "target", ["http://us:pw@other.example/", "//us:pw@other.example/", "http://:pw@other.example"]
)
def test_the_credentials_in_a_location_are_dropped(site: Site, target: str) -> None:
    site.pages["/"] = lambda x: x.respond(b"", f"Location: {target}", status="301 Moved")
    assert fetch(site.url("/"), Request()).location == "http://other.example/"


@pytest.mark.parametrize(
    "target",
    ["https://h.example/", "http://h.example:81/", "http://www.h.example/", "http://other.example/"],
    ids=["scheme", "port", "subdomain", "host"],
)
def test_a_locators_credentials_stay_on_its_scheme_host_and_port(target: str) -> None:
    request = Request(userinfo="u:p", headers=(("X-Key", "k"), ("Accept", "a")), cookies=(("c", "1"),))
    assert build_redirect_request(request, 302, "http://h.example/", "http://h.example/b") is request
    sent = build_redirect_request(request, 302, "http://h.example/", target)
    assert (sent.userinfo, sent.headers, sent.cookies) == ("", (("Accept", "a"),), ())


@pytest.mark.parametrize(
    ("url", "start", "plain", "allowed"),
    [
        ("https://shop.example/", "", set(), True),
        ("https://shop.example:8443/", "http://other.example/", set(), True),
        ("http://shop.example/", "https://shop.example/", set(), False),
        ("http://shop.example/", "http://other.example/", set(), False),
        ("http://shop.example/", "http://shop.example/a", set(), True),
        ("http://shop.example:81/", "http://shop.example/a", set(), True),
        ("http://shop.example/", "https://shop.example/", {"shop.example"}, True),
        ("http://shop.example/", "", {"www.shop.example"}, False),
    ],
)
def test_a_hosts_credentials_go_over_http_only_where_the_defs_name_it(
    url: str, start: str, plain: set[str], allowed: bool
) -> None:
    assert may_carry_credentials(SHOP, url, start, frozenset(plain)) is allowed


def test_a_rule_for_port_80_names_http() -> None:
    assert may_carry_credentials(HostRule(name="shop.example:80"), "http://shop.example/", "", frozenset())
    assert not may_carry_credentials(HostRule(name="shop.example:8080"), "http://shop.example:8080/", "", frozenset())


def test_without_credentials_a_rule_adds_only_harmless_headers() -> None:
    part = host_part(SHOP, with_credentials=False)
    assert (dict(part.headers), dict(part.cookies)) == ({"Accept-Language": "de"}, {})
    assert host_part(SHOP, with_credentials=True) == (SHOP.headers, SHOP.cookies, None, None)


def test_hosts_that_locators_name_with_http_are_found() -> None:
    locators = (
        Locator(name="a", urls=("HTTP://A.example/{1..3}", "https://b.example/", "/relative")),
        Locator(name="c", sitemap=" http://u:%{file./a/b}@c.example:81/s.xml"),
    )
    defs = Definitions(locator_groups=(LocatorGroup(name="g", locators=locators),), base_url="http://d.example/")
    assert find_plain_hosts(defs) == {"a.example", "c.example", "d.example"}


def test_secret_values_of_response_headers_are_not_stored() -> None:
    headers = (
        ("content-type", "text/html"),
        ("set-cookie", "sid=canary; Path=/; HttpOnly"),
        ("set-cookie", "canary"),
        ("location", "http://us:canary@h.example/next?at=a@b"),
        ("location", "//us:canary@h.example/x?to=http://us:canary@h.example/"),
        ("refresh", "0; url=//us:canary@h.example/"),
        ("link", "<https://canary@h.example/a>; rel=next, <https://h.example/@x>; rel=prev"),
        ("authentication-info", "canary"),
        ("www-authenticate", "Basic realm=shop"),
    )
    assert redact_headers(headers) == (
        ("content-type", "text/html"),
        ("set-cookie", "sid=[not stored]; Path=/; HttpOnly"),
        ("set-cookie", "[not stored]"),
        ("location", "http://h.example/next?at=a@b"),
        ("location", "//h.example/x?to=http://h.example/"),
        ("refresh", "0; url=//h.example/"),
        ("link", "<https://h.example/a>; rel=next, <https://h.example/@x>; rel=prev"),
        ("authentication-info", "[not stored]"),
        ("www-authenticate", "Basic realm=shop"),
    )


def test_headers_without_secrets_are_stored_as_they_are() -> None:
    headers = (("content-type", "text/html"), ("server", "x"))
    assert redact_headers(headers) is headers


@pytest.mark.parametrize(
    "start", ["http://", "//", "http:/", "HTTPS:", "http:\\\\", "htp://", "url: http://", "http://u:a/"]
)
def test_a_location_that_does_not_parse_shows_no_password(start: str) -> None:
    written = f"{start}u:secret@h.example:99999/x"
    headers = (("location", written), ("content-location", written), ("refresh", "0;url=http:/u:secret@h/"))
    assert "secret" not in str(redact_headers(headers))
    assert redact_headers((("location", "/users/@me"),)) == (("location", "/users/@me"),)
