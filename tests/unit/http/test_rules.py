"""Redirect requests, waits, and the limits of the cookie jar."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from crawl_engine.http.cookies import SessionCookies
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest
from crawl_engine.http.redirects import build_redirect_request
from crawl_engine.model.job import Request
from crawl_engine.model.retry_policy import classify_status, host_backoff, retry_wait, retryable_status

POST = Request(
    method="POST",
    headers=(
        ("Authorization", "s"),
        ("X-Api-Key", "s"),
        ("Accept-Language", "en"),
        ("user-agent", "u"),
        ("Referer", "r"),
    ),
    cookies=(("sid", "s"),),
    body="a=1",
    content_type="application/x-www-form-urlencoded",
)


@pytest.mark.parametrize(
    ("method", "status", "becomes", "keeps_body"),
    [
        ("POST", 301, "GET", False),
        ("POST", 302, "GET", False),
        ("POST", 303, "GET", False),
        ("POST", 307, "POST", True),
        ("POST", 308, "POST", True),
        ("PUT", 301, "PUT", True),
        ("PUT", 303, "GET", False),
        ("HEAD", 303, "HEAD", True),
    ],
)
def test_the_method_after_a_redirect(method: str, status: int, becomes: str, keeps_body: bool) -> None:
    request = Request(
        method=method, headers=(("Content-Language", "de"), ("X-A", "1")), body="b", content_type="text/plain"
    )
    hop = build_redirect_request(request, status, "https://h/a", "https://h/b")
    assert hop.method == becomes
    assert (hop.body, hop.content_type) == (("b", "text/plain") if keeps_body else (None, None))
    assert hop.headers == (request.headers if keeps_body else (("X-A", "1"),))


@pytest.mark.parametrize(
    "target", ["https://other.example/", "http://h/b", "https://h:8443/b", "https://sub.h/b", "https://h.evil.example/"]
)
def test_secrets_are_not_sent_to_another_origin(target: str) -> None:
    hop = build_redirect_request(POST, 307, "https://h/a", target)
    assert hop.headers == (("Accept-Language", "en"), ("user-agent", "u"))
    assert hop.cookies == ()
    assert (hop.body, hop.content_type) == (POST.body, POST.content_type)


def test_secrets_are_kept_within_the_origin() -> None:
    assert build_redirect_request(POST, 307, "https://h/a", "https://h/b") is POST
    assert build_redirect_request(POST, 307, "https://u:p@h/a", "https://h/b") is POST
    assert build_redirect_request(POST, 302, "https://h/a", "https://h/b").headers == POST.headers


def test_variables_are_not_sent_to_another_origin() -> None:
    secret = Request(method="POST", headers=(("Accept-Language", "%{env.LANG}"),), body="pw=%{env.PW}")
    assert build_redirect_request(secret, 302, "https://h/", "https://other.example/") == Request()
    with pytest.raises(FetchFailed, match=r"https://other\.example") as failed:
        build_redirect_request(secret, 307, "https://h/", "https://other.example/")
    assert not failed.value.retryable


@pytest.mark.parametrize(
    ("statuses", "meaning"),
    [
        ((200, 201, 203), "ok"),
        ((204, 205, 206), "no-page"),
        ((301, 302, 303, 307, 308), "redirect"),
        ((404, 410), "gone"),
        ((408, 425, 429, 500, 502, 503, 504, 599), "retry"),
        ((100, 300, 304, 305, 400, 401, 403, 451, 600), "refused"),
    ],
)
def test_status_classes(statuses: tuple[int, ...], meaning: str) -> None:
    for status in statuses:
        assert classify_status(status) == meaning
        assert retryable_status(status) == (meaning == "retry")


def test_waits_double_up_to_a_minute() -> None:
    assert [retry_wait(n, 0.0) for n in (1, 2, 3, 6, 7, 100, 10**9)] == [1, 2, 4, 32, 60, 60, 60]
    assert [host_backoff(n, None) for n in (0, 1, 2, 7, 10**9)] == [1, 1, 2, 60, 60]


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_jitter_reduces_a_wait_by_at_most_half(attempt: int, random: float) -> None:
    assert retry_wait(attempt, 0.0) / 2 <= retry_wait(attempt, random) <= retry_wait(attempt, 0.0)


def test_retry_after_counts_up_to_an_hour() -> None:
    assert [host_backoff(5, s) for s in (0.5, 90.0, 86400.0, float("inf"))] == [0.5, 90, 3600, 3600]


def _request(url: str) -> OutgoingRequest:
    return OutgoingRequest("GET", url, CIMultiDict(), b"")


def _cookie_header(cookies: SessionCookies, url: str) -> str | None:
    request = _request(url)
    cookies.set_cookie_header(request)
    return request.headers.get("Cookie")


def _set(cookies: SessionCookies, url: str, *values: str) -> None:
    cookies.extract_cookies(_request(url), values)


def test_cookies_are_limited_to_their_domain() -> None:
    cookies = SessionCookies()
    _set(cookies, "https://shop.example/", "own=1", "wide=1; Domain=shop.example", "foreign=1; Domain=other.example")
    _set(cookies, "https://a.shop.co.uk/", "super=1; Domain=co.uk", "safe=1; Secure")
    assert _cookie_header(cookies, "https://shop.example/x") == "own=1; wide=1"
    assert _cookie_header(cookies, "https://sub.shop.example/") == "wide=1"
    assert _cookie_header(cookies, "https://other.example/") is None
    assert _cookie_header(cookies, "https://b.shop.co.uk/") is None
    assert _cookie_header(cookies, "http://a.shop.co.uk/") is None
    assert _cookie_header(cookies, "https://a.shop.co.uk/") == "safe=1"


def test_cookies_of_one_registrable_domain_are_not_sent_to_another() -> None:
    cookies = SessionCookies()
    _set(cookies, "https://a.co.uk/", "own=1", "site=1; Domain=a.co.uk", "suffix=1; Domain=co.uk", "tld=1; Domain=uk")
    _set(cookies, "https://me.github.io/", "page=1; Domain=me.github.io", "all=1; Domain=github.io")
    assert _cookie_header(cookies, "https://a.co.uk/") == "own=1; site=1"
    assert _cookie_header(cookies, "https://www.a.co.uk/") == "site=1"
    assert _cookie_header(cookies, "https://b.co.uk/") is None
    assert _cookie_header(cookies, "https://co.uk/") is None
    assert _cookie_header(cookies, "https://me.github.io/") == "page=1"
    assert _cookie_header(cookies, "https://other.github.io/") is None


def test_a_host_that_is_a_public_suffix_keeps_its_cookies_for_itself() -> None:
    cookies = SessionCookies()
    _set(cookies, "https://github.io/", "a=1; Domain=github.io", "b=2")
    assert _cookie_header(cookies, "https://github.io/") == "a=1; b=2"
    assert _cookie_header(cookies, "https://me.github.io/") is None


def test_a_short_registrable_domain_may_set_cookies() -> None:
    cookies = SessionCookies()
    _set(cookies, "https://www.info.tv/", "a=1; Domain=info.tv")
    assert _cookie_header(cookies, "https://info.tv/") == "a=1"


def test_the_limit_of_cookies_counts_per_registrable_domain() -> None:
    cookies = SessionCookies()
    _set(cookies, "https://b.co.uk/", "b=1")
    for n in range(200):
        _set(cookies, "https://a.co.uk/", f"c{n}={n}")
    assert _cookie_header(cookies, "https://b.co.uk/") == "b=1"
    assert len((_cookie_header(cookies, "https://a.co.uk/") or "").split("; ")) == 150


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "shop.example"])
def test_cookies_of_addresses_and_single_labels(host: str) -> None:
    cookies = SessionCookies()
    _set(cookies, f"http://{host}:8000/", "a=1")
    assert _cookie_header(cookies, f"http://{host}:8000/x") == "a=1"


def test_the_list_of_public_suffixes_is_loaded_with_the_first_cookie() -> None:
    code = """
import sys
from multidict import CIMultiDict
from crawl_engine.http.client import Fetcher
from crawl_engine.http.cookies import SessionCookies
from crawl_engine.http.exchange import OutgoingRequest
cookies = SessionCookies()
request = OutgoingRequest("GET", "http://shop.example/", CIMultiDict(), b"")
cookies.set_cookie_header(request)
assert "publicsuffixlist" not in sys.modules
cookies.extract_cookies(request, ["a=1"])
assert "publicsuffixlist" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_cookies_can_be_deleted() -> None:
    cookies = SessionCookies()
    _set(cookies, "https://shop.example/", "a=1", "b=2")
    _set(cookies, "https://shop.example/", "a=; Max-Age=0")
    assert _cookie_header(cookies, "https://shop.example/") == "b=2"


def test_cookies_per_site_are_limited() -> None:
    cookies = SessionCookies()
    for n in range(400):
        _set(cookies, "https://shop.example/", f"c{n}={n}")
    header = _cookie_header(cookies, "https://shop.example/")
    assert header is not None
    assert len(header.split("; ")) == 150
    assert header.endswith("c399=399")
