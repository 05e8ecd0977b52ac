"""The keys of requests and documents of before: a resumed run finds its jobs, a later one its documents."""

import pytest

from crawl_engine.model.job import (
    Request,
    document_key,
    file_key,
    link_key,
    locator_key,
    login_key,
    request_key,
    robots_key,
    scoped_key,
    sitemap_key,
)

URL = "https://shop.example/list?page=2"
LINK_HEADERS = (("X-Shop", "%{env.SHOP}"), ("Cookie", "store=north"))
KEYS = {
    "link": link_key("shop", URL),
    "request get": request_key("shop", URL, "GET", None),
    "request post": request_key("shop", URL, "POST", "q=1&p=2"),
    "request headers": request_key("shop", URL, "GET", None, LINK_HEADERS),
    "locator": locator_key("shop", "north", URL, "GET", None),
    "locator unnamed": locator_key("shop", "", URL, "GET", None),
    "locator post": locator_key("shop", "north", URL, "POST", '{"page": 1}'),
    "locator account": locator_key("shop", "north", URL, "GET", None, "ann"),
    "sitemap": sitemap_key("shop", "map", URL, None),
    "sitemap account": sitemap_key("shop", "map", URL, None, "ann"),
    "sitemap rules": sitemap_key("shop", "map", URL, None, "", "abc"),
    "sitemap body": sitemap_key("shop", "map", URL, "x"),
    "robots": robots_key("shop.example:443"),
    "login": login_key("shop.example:443"),
    "file": file_key(URL),
    "cookies of a link": scoped_key(link_key("shop", URL), (("store", "north"), ("a", "%{env.A}"))),
}
COOKIES = (("store", "north"), ("a", "%{env.A}"))
REQUESTS = {
    "plain": Request(),
    "post": Request(method="POST", body="q=1", content_type="application/x-www-form-urlencoded"),
    "post without body": Request(method="POST"),
    "headers": Request(headers=(("X-B", "2"), ("accept-language", "de"))),
    "cookies": Request(cookies=COOKIES),
    "headers and cookies": Request(headers=(("X-B", "2"),), cookies=COOKIES[:1]),
    "account": Request(userinfo="ann:%{env.PASSWORD}"),
    "account and headers": Request(userinfo="ann:x", headers=(("X-B", "2"),)),
    "browser": Request(in_browser=True),
    "browser, cookies and account": Request(in_browser=True, cookies=COOKIES[:1], userinfo="ann:x"),
}
KNOWN = {
    "link": "37995e36bca624a0c0c55dd615b0d40f",
    "request get": "fa708e941c0ede1f8c72cc4ca5e11bca",
    "request post": "ffe2b6120f9f55273f45e76567eada9f",
    "request headers": "0e57c20e44b9937869d64d0075d4d88a",
    "locator": "68e958beb3083985a34403a210ccbbc1",
    "locator unnamed": "d47c572266ffc53fac560adbeecaa637",
    "locator post": "2c26908d2224fe79453a5e1c68b58526",
    "locator account": "218e8f699c9be48d2fdd23707b54a310",
    "sitemap": "2cb98c52d706fd2428109938c2eeaa24",
    "sitemap account": "632923f07c70edb2dae26beee00adb41",
    "sitemap rules": "c7d1af324545a9ac522cea53560e5d84",
    "sitemap body": "03aa10024e833803fa48d24927259534",
    "robots": "cf16e1e8a443733414a18cbe36d09575",
    "login": "c2579b81f51aa8b477fdbf3e5146e90b",
    "cookies of a link": "27321b6a29ad2b7e3989fcf87114b327",
    "file": "d779ceeac111c64f9c721ab73768b2c9",
    "document plain": "a75a043822485681dacefa8676aeec30",
    "document post": "f708ad947b99cf3b4494196a7d3ea6ac",
    "document post without body": "a8045905bb066e2569b1fe6c5f6fcd9a",
    "document headers": "8470e0ba3316defe53e5dfd480d559c7",
    "document cookies": "f3cdb40e1dae688c639f34966c301a94",
    "document headers and cookies": "0e80d205791c639d33ab6e2542b2fdc1",
    "document account": "6665d2fbe2d590f3076c8525d58db92b",
    "document account and headers": "e31ab91c11cfc19762c08308e38b0fe0",
    "document browser": "3f2888993f49204448c47e4ae523f026",
    "document browser, cookies and account": "c6a80acec5f9d55b9c674f0e6e405179",
}


def made() -> dict[str, bytes]:
    documents = {
        f"document {name}": document_key(URL, request.method, request.body, request.variant)
        for name, request in REQUESTS.items()
    }
    return KEYS | documents


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_keys_of_before_stay(name: str) -> None:
    assert made()[name].hex() == KNOWN[name]


def test_all_kinds_are_known_and_differ() -> None:
    assert made().keys() == KNOWN.keys()
    assert len({*KNOWN.values()}) == len(KNOWN)
