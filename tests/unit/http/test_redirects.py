"""Following redirects: which hop comes next, and which are rejected."""

from copy import copy
from typing import Any

import pytest

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.redirects import RedirectChain, RedirectRejected, TooManyRedirects, follow_redirects
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import Request, document_key
from crawl_engine.urls import QueryStripper


def response(
    status: int, location: str | None = None, problem: str | None = None, cookie_header: str = ""
) -> FetchResponse:
    return FetchResponse(
        url="", status=status, headers=(), body=b"", received=0, elapsed=0.0, content_type="", location=location,
        location_problem=problem, retry_after=None, cookie_header=cookie_header,
    )  # fmt: skip


def test_each_hop_moves_to_the_target_and_keeps_its_key() -> None:
    chain = RedirectChain("http://a/1", Request(), limit=5, hops=1, earlier={document_key("http://a/0"): ""})
    chain.advance(response(302, "http://a/2"))
    assert (chain.url, chain.hops) == ("http://a/2", 2)
    assert chain.keys == [document_key(url) for url in ("http://a/0", "http://a/1", "http://a/2")]


@pytest.mark.parametrize("target", ["http://a/1", "http://a/0"])
def test_a_loop_is_rejected_at_the_repeated_url(target: str) -> None:
    chain = RedirectChain("http://a/1", Request(), limit=5, hops=1, earlier={document_key("http://a/0"): ""})
    with pytest.raises(RedirectRejected, match="redirect loop"):
        chain.advance(response(302, target))
    assert (chain.url, chain.hops) == (target, 2)


def cookie_chain(jar: dict[str, str], *earlier: str, limit: int = 5) -> RedirectChain:
    """A chain at `/1` of a site whose cookies are in `jar`, by URL."""
    return RedirectChain(
        "http://a/1", Request(), limit=limit, hops=len(earlier),
        earlier={document_key(url): jar.get(url, "") for url in earlier}, find_cookies=lambda url, _: jar.get(url, ""),
    )  # fmt: skip


def test_a_page_is_asked_again_once_its_cookies_have_changed() -> None:
    jar = {"http://a/1": "ok=1"}
    chain = cookie_chain(jar)
    chain.advance(response(302, "http://a/1"))
    assert (chain.url, chain.hops, chain.keys) == ("http://a/1", 1, [document_key("http://a/1")])
    with pytest.raises(RedirectRejected, match="redirect loop"):
        chain.advance(response(302, "http://a/1", cookie_header="ok=1"))


def test_cookies_that_change_each_time_end_at_the_limit() -> None:
    jar: dict[str, str] = {}
    chain = cookie_chain(jar, limit=3)
    for number in range(3):
        sent, jar["http://a/1"] = jar.get("http://a/1", ""), f"n={number}"
        chain.advance(response(302, "http://a/1", cookie_header=sent))
    with pytest.raises(TooManyRedirects):
        chain.advance(response(302, "http://a/1", cookie_header="n=2"))


def test_another_page_may_set_the_cookie_and_lead_back() -> None:
    jar: dict[str, str] = {}
    chain = cookie_chain(jar)
    chain.advance(response(302, "http://a/set"))
    jar["http://a/1"] = "ok=1"
    chain.advance(response(302, "http://a/1"))
    assert chain.keys == [document_key("http://a/set"), document_key("http://a/1")]
    with pytest.raises(RedirectRejected, match="redirect loop"):
        chain.advance(response(302, "http://a/set", cookie_header="ok=1"))


def test_a_job_that_was_put_back_at_its_own_url_is_asked_again() -> None:
    jar = {"http://a/1": "ok=1", "http://a/0": "ok=1"}
    again = cookie_chain(jar, "http://a/1")
    assert again.keys == [document_key("http://a/1")]
    with pytest.raises(RedirectRejected, match="redirect loop"):
        again.advance(response(302, "http://a/1", cookie_header="ok=1"))


def test_a_job_that_was_put_back_notes_the_cookies_that_its_first_url_would_get() -> None:
    jar = {"http://a/0": "ok=1"}
    bounced = cookie_chain(jar, "http://a/0")
    jar["http://a/0"] = "ok=1; session=2"
    bounced.advance(response(302, "http://a/0"))
    assert bounced.keys == [document_key("http://a/1"), document_key("http://a/0")]
    with pytest.raises(RedirectRejected, match="redirect loop"):
        cookie_chain(jar, "http://a/0").advance(response(302, "http://a/0"))


def test_the_limit_is_of_all_hops() -> None:
    chain = RedirectChain("http://a/1", Request(), limit=2, hops=1)
    chain.advance(response(302, "http://a/2"))
    with pytest.raises(TooManyRedirects, match="more than 2 redirects"):
        chain.advance(response(302, "http://a/3"))
    assert chain.url == "http://a/2"


def test_a_redirect_without_a_valid_target_says_why() -> None:
    with pytest.raises(RedirectRejected, match="redirect without a Location"):
        RedirectChain("http://a/1", Request(), limit=2).advance(response(302, problem="redirect without a Location"))


def test_a_secret_in_the_body_stops_the_chain_before_it_moves() -> None:
    chain = RedirectChain("http://a/1", Request(method="POST", body="%{env.KEY}"), limit=2)
    with pytest.raises(FetchFailed):
        chain.advance(response(307, "http://b/2"))
    assert (chain.url, chain.hops) == ("http://a/1", 0)


async def test_following_ends_at_the_limit_with_the_redirect_itself() -> None:
    sent: list[str] = []

    async def send(url: str, request: Request) -> FetchResponse:
        sent.append(url)
        return response(302, f"http://a/{len(sent)}")

    url, last = await follow_redirects("http://a/0", Request(), send, limit=2)
    assert sent == ["http://a/0", "http://a/1", "http://a/2"]
    assert (url, last.status) == ("http://a/2", 302)


async def test_following_returns_the_final_response_and_its_url() -> None:
    pages: dict[str, Any] = {"http://a/0": response(301, "http://a/1"), "http://a/1": response(200)}

    async def send(url: str, request: Request) -> FetchResponse:
        answer: FetchResponse = pages[url]
        return answer

    url, last = await follow_redirects("http://a/0", Request(), send, limit=5)
    assert (url, last.status) == ("http://a/1", 200)


def stripped_chain(*, earlier: str = "http://a/0", url: str = "http://a/1") -> RedirectChain:
    stripper = QueryStripper({"a": ["sid", "utm_*"]})
    return RedirectChain(url, Request(), limit=9, earlier={document_key(earlier): ""}, query_stripper=stripper)


def test_a_target_loses_the_keys_that_its_host_drops() -> None:
    chain = stripped_chain()
    for target, followed in (
        ("http://a/2?sid=7&x=1&utm_a", "http://a/2?x=1"),
        ("http://b/?sid=7", "http://b/?sid=7"),
        ("http://a/3?sid=8", "http://a/3"),
    ):
        chain.advance(response(302, target))
        assert chain.url == followed
        assert chain.keys[-1] == document_key(followed)


@pytest.mark.parametrize("visited", ["http://a/1", "http://a/0"])
def test_a_target_that_was_asked_for_without_its_keys_keeps_them(visited: str) -> None:
    chain = stripped_chain()
    chain.advance(response(302, f"{visited}?sid=7"))
    assert chain.url == f"{visited}?sid=7"
    assert chain.keys[-1] == document_key(chain.url)
    chain.advance(response(302, f"{visited}?sid=8"))
    assert chain.url == f"{visited}?sid=8", "another one may answer"
    for target in (f"{visited}?sid=7", visited):
        with pytest.raises(RedirectRejected, match="redirect loop"):
            stripped_again(chain).advance(response(302, target))


def stripped_again(chain: RedirectChain) -> RedirectChain:
    again = copy(chain)
    again.keys = [*chain.keys]
    return again


def test_a_post_that_becomes_a_get_was_not_asked_for() -> None:
    stripper = QueryStripper({"a": ["sid"]})
    chain = RedirectChain("http://a/1", Request(method="POST", body="q=1"), limit=3, query_stripper=stripper)
    chain.advance(response(303, "http://a/1?sid=7"))
    assert (chain.url, chain.request.method) == ("http://a/1", "GET")
    repeated = RedirectChain("http://a/1", Request(method="POST", body="q=1"), limit=3, query_stripper=stripper)
    repeated.advance(response(307, "http://a/1?sid=7"))
    assert (repeated.url, repeated.request.method) == ("http://a/1?sid=7", "POST")
