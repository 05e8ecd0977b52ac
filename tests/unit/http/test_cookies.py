"""The cookies of a site: those that the standard library would send."""

from collections.abc import Sequence
from email.message import Message
from http.cookiejar import CookieJar
from typing import Any
from unittest.mock import patch
from urllib.request import Request as UrllibRequest

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from crawl_engine.http.cookies import SessionCookies, SiteCookies, _SitePolicy
from crawl_engine.http.exchange import OutgoingRequest

HOSTS = ["https://shop.example", "http://shop.example", "https://a.shop.example", "https://shop.example:8443"]
PATHS = ["/", "/x", "/dir/", "/dir/page", "/dir/sub/page?q=/a/b", "/d%C3%BCr/page", "/a|b/c"]


def request(url: str) -> OutgoingRequest:
    return OutgoingRequest("GET", url, CIMultiDict(), b"")


def never_public(domain: str) -> bool:
    return False


class PlainJar:
    """What the standard library makes of the same responses, without memory of earlier ones."""

    def __init__(self) -> None:
        self.jar = CookieJar(_SitePolicy(never_public))

    def take(self, url: str, set_cookies: Sequence[str]) -> None:
        message = Message()
        for text in set_cookies:
            message["Set-Cookie"] = text
        response: Any = type("Response", (), {"info": lambda _: message})()
        self.jar.extract_cookies(response, UrllibRequest(str(httpx.URL(url))))
        for _ in range(len(self.jar) - 150):
            oldest = next(iter(self.jar))
            self.jar.clear(oldest.domain, oldest.path, oldest.name)

    def header(self, url: str) -> str:
        asked = UrllibRequest(str(httpx.URL(url)))
        self.jar.add_cookie_header(asked)
        return str(asked.get_header("Cookie", ""))


NAMES = st.sampled_from(["sid", "csrf", "a", "A", " sid", "$x", ""])
VALUES = st.sampled_from(["1", "2", "", " 3 ", '"q"', "a=b", "ü", "x,y"]) | st.text("ab=\"' ", max_size=3)
ATTRIBUTES = st.sampled_from(
    [
        "", "; Path=/", ";path=/", "; Path=/dir", "; Path=/dir/; HttpOnly", "; Path=", "; Domain=shop.example",
        "; Domain=.shop.example; Path=/", "; Domain=other.example", "; Secure; Path=/", "; HttpOnly",
        "; SameSite=Lax; Path=/",
        "; Max-Age=60", "; Max-Age=3; Path=/", "; Max-Age=0; Path=/", "; Max-Age=x", "; Max-Age=-1",
        "; Expires=Wed, 21 Oct 2099 07:28:00 GMT; Path=/", "; Expires=Wed, 21 Oct 2015 07:28:00 GMT; Path=/",
        "; Expires=Wed, 21 Oct 2099 07:28:00 GMT; Max-Age=5; Path=/", "; expires=soon; path=/", "; Version=1; Path=/",
        "; Port=\"80\"; Path=/", "; Max-Age=5; Max-Age=90; Path=/", "; xpath=/dir",
        "; Path=/max-age=5; Comment=max-age",
    ]
)  # fmt: skip
SET_COOKIE = st.builds(
    lambda name, value, attributes, bare: f"{name}{attributes}" if bare else f"{name}={value}{attributes}",
    NAMES, VALUES, ATTRIBUTES, st.booleans().map(lambda b: b and False) | st.just(False) | st.booleans(),
)  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.sampled_from(HOSTS), st.sampled_from(PATHS), st.lists(SET_COOKIE, max_size=3), st.integers(0, 4),
        st.sampled_from(HOSTS), st.sampled_from(PATHS),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(STEPS, st.lists(SET_COOKIE, min_size=1, max_size=2))
def test_it_sends_what_the_standard_library_sends(steps: Any, usual: list[str]) -> None:
    cookies, plain = SiteCookies(never_public), PlainJar()
    now = 1_800_000_000.0
    with patch("time.time", lambda: now):
        for index, (host, path, set_cookies, seconds, next_host, next_path) in enumerate(steps):
            now += seconds
            texts = [text.replace("=1", f"={index}", 1) for text in usual] if index % 2 else set_cookies
            cookies.take(request(host + path), texts)
            plain.take(host + path, texts)
            url = next_host + next_path
            assert cookies.header(request(url)) == plain.header(url), (index, texts, url)


def test_the_newer_of_two_cookies_stays_and_a_deleted_one_stays_deleted() -> None:
    one, two = SiteCookies(never_public), SiteCookies(never_public)
    asked = request("https://shop.example/")
    now = 1_800_000_000.0
    with patch("time.time", lambda: now):
        one.take(asked, ["sid=1; Path=/", "old=1; Path=/"])
        two.merge(one.export())
        now += 1
        two.take(asked, ["sid=2; Path=/", "old=; Path=/; Max-Age=0"])
        now += 1
        one.take(asked, ["own=1; Path=/"])
        one.merge(two.export())
        two.merge(one.export())
        assert sorted(one.header(asked).split("; ")) == ["own=1", "sid=2"]
        assert sorted(two.header(asked).split("; ")) == ["own=1", "sid=2"]
        one.merge([{"cookie": {**one.export()[0]["cookie"], "value": "stale"}, "at": 1.0}])
        assert "stale" not in one.header(asked)


def test_many_long_cookies_are_sent_in_part() -> None:
    cookies, asked = SiteCookies(never_public), request("https://shop.example/")
    cookies.take(asked, ["sid=1; Path=/"])
    cookies.take(asked, [f"c{n}={'x' * 3_000}; Path=/" for n in range(60)])
    assert [pair.partition("=")[0] for pair in cookies.header(asked).split("; ")] == ["sid", "c0", "c1"]
    cookies.take(asked, ["sid=2; Path=/"])
    assert "sid=2" in cookies.header(asked)


@pytest.mark.parametrize("bad", ["x=" + "a" * 4_096, "x=a\x01b", "x=a\nb", "x\x7f=a", "x=a; Path=/\x00"])
def test_a_cookie_that_no_request_could_send_is_ignored(bad: str) -> None:
    cookies, asked = SiteCookies(never_public), request("https://shop.example/")
    assert not cookies.take(asked, [bad])
    assert cookies.take(asked, ["good=1; Path=/", bad])
    assert cookies.header(asked) == "good=1"
    entry = cookies.export()[0]
    other = SiteCookies(never_public)
    other.merge([{**entry, "cookie": {**entry["cookie"], "name": "bad", "value": "a\x01b"}}, entry])
    assert other.header(asked) == "good=1"


def test_a_jar_that_is_very_large_is_shared_in_part() -> None:
    cookies = SiteCookies(never_public)
    with patch("time.time", side_effect=range(1, 10_000)):
        for n in range(100):
            cookies.take(request("https://shop.example/"), [f"c{n}={'x' * 2000}; Path=/"])
        entries = cookies.export()
    assert 20 < len(entries) < 40
    assert entries[0]["cookie"]["name"] == "c99"


def test_cookies_that_nodes_share_are_not_dropped_for_those_of_other_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.http.cookies._MAX_SITES", 3)
    cookies = SessionCookies()
    for name in ("member", *(f"s{n}" for n in range(9))):
        cookies.extract_cookies(request(f"https://{name}.example/"), ["sid=1"])
        if name == "member":
            assert len(cookies.export("member.example")) == 1
    kept = [name for name in ("member", "s0", "s5", "s6", "s7", "s8") if _sends(cookies, f"https://{name}.example/")]
    assert kept == ["member", "s6", "s7", "s8"]


def _sends(cookies: SessionCookies, url: str) -> bool:
    asked = request(url)
    cookies.set_cookie_header(asked)
    return "Cookie" in asked.headers
