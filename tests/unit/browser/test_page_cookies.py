"""Which cookies a page begins with, and which of its changes the site keeps."""

from multidict import CIMultiDict

from crawl_engine.browser.messages import BrowserCookie
from crawl_engine.browser.page_cookies import list_changes, list_cookies
from crawl_engine.http.cookies import SessionCookies
from crawl_engine.http.exchange import OutgoingRequest, RequestTerms


def ask(url: str, cookie: str = "") -> OutgoingRequest:
    return OutgoingRequest("GET", url, CIMultiDict({"Cookie": cookie} if cookie else {}), b"", RequestTerms(url=url))


def jar(*set_cookies: str, url: str = "http://www.shop.test/a/b") -> SessionCookies:
    cookies = SessionCookies()
    cookies.extract_cookies(ask(url), set_cookies)
    return cookies


def test_a_page_has_the_cookies_of_its_site_with_their_domains_and_paths() -> None:
    cookies = jar("own=1; Path=/a", "all=2; Domain=shop.test; Path=/", "same=jar")
    listed = list_cookies(ask("http://www.shop.test/", "same=defs"), cookies.list_fitting("api.shop.test"))
    assert sorted((one.name, one.value, one.domain, one.path) for one in listed) == [
        ("all", "2", ".shop.test", "/"), ("own", "1", "www.shop.test", "/a"), ("same", "defs", "www.shop.test", "/"),
    ]  # fmt: skip
    assert cookies.list_fitting("shop.other") == []


def test_a_name_without_a_dot_stays_as_it_is() -> None:
    cookies = jar("own=1", url="http://shop/")
    [one] = list_cookies(ask("http://shop/"), cookies.list_fitting("shop"))
    assert one.domain == "shop"


def test_what_a_page_changes_is_kept_for_its_site_alone() -> None:
    request = ask("http://www.shop.test/")
    sent = [BrowserCookie(name=name, value="1", domain="www.shop.test") for name in ("same", "changed", "gone")]
    now = [
        sent[0],
        BrowserCookie(name="changed", value="2", domain="www.shop.test"),
        BrowserCookie(name="new", value="3", domain=".shop.test", path="/x", secure=True),
        BrowserCookie(name="track", value="4", domain=".ads.test"),
        BrowserCookie(name="other", value="5", domain="api.shop.test"),
    ]
    assert list_changes(request, sent, now) == [
        "changed=2; Path=/", "new=3; Path=/x; Domain=shop.test; Secure", "gone=; Path=/; Max-Age=0",
    ]  # fmt: skip
    assert list_changes(request, sent, sent) == []


def test_a_page_begins_with_no_more_cookies_than_fit_a_header() -> None:
    cookies = jar("session=1; Path=/", *[f"c{n}={'v' * 3000}; Path=/" for n in range(100)])
    cookies.extract_cookies(ask("http://a.shop.test/"), [f"d{n}={'v' * 1900}; Domain=shop.test" for n in range(9)])
    listed = list_cookies(ask("http://www.shop.test/"), cookies.list_fitting("www.shop.test"))
    for host in ("www.shop.test", "a.shop.test", "b.shop.test"):
        sent = [one for one in listed if one.belongs_to(host)]
        assert sum(len(f"{one.name}={one.value}; ") for one in sent) <= 8_000
    assert "session" in {one.name for one in listed}
    assert {one.name for one in listed if one.belongs_to("b.shop.test")} == {"d0"}
