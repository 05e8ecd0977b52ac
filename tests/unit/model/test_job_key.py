from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.model.job import Request, document_key, link_key, locator_key, robots_key, scoped_key

URL = "http://a/1"


def test_keys_are_16_bytes_and_stay_the_same() -> None:
    assert link_key("g", URL) == link_key("g", URL)
    for key in (link_key("g", URL), locator_key("g", "l", URL, "GET", None), robots_key("a:80"), document_key(URL)):
        assert len(key) == 16


def test_kinds_of_keys_are_disjoint() -> None:
    keys = {
        link_key("g", URL), locator_key("g", "", URL, "GET", None), robots_key(URL), document_key(URL, "g"),
        robots_key("g"), link_key("", "g"),
    }  # fmt: skip
    assert len(keys) == 6


def test_a_locator_is_group_name_url_method_and_body() -> None:
    base = ("g", "l", URL, "GET", None)
    for i, other in enumerate(("h", "m", URL + "2", "POST", "x")):
        changed = [*base[:i], other, *base[i + 1 :]]
        assert locator_key(*changed) != locator_key(*base)  # type: ignore[arg-type]


def test_a_link_is_group_and_url_and_a_document_is_method_url_and_body() -> None:
    assert len({link_key("g", URL), link_key("h", URL), link_key("g", URL + "2")}) == 3
    assert document_key(URL) == document_key(URL, "GET", None)
    assert len({document_key(URL), document_key(URL, "POST"), document_key(URL, "POST", "b"), document_key("x")}) == 4


@given(st.text("ab", max_size=3), st.text("ab", max_size=3), st.text("ab", max_size=3), st.text("ab", max_size=3))
def test_parts_never_run_into_each_other(a: str, b: str, c: str, d: str) -> None:
    assert (link_key(a, b) == link_key(c, d)) is ((a, b) == (c, d))


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_any_text_has_a_key_even_a_lone_surrogate(text: str) -> None:
    assert len(link_key("g", text)) == 16


def test_cookies_that_go_along_make_another_key_whatever_their_order() -> None:
    key, cookies = link_key("g", URL), (("a", "1"), ("b", "%{env.B}"))
    assert scoped_key(key, ()) == key
    keys = {scoped_key(one, two) for one in (key, link_key("h", URL)) for two in (cookies, cookies[:1], (("a", "2"),))}
    assert len(keys | {key}) == 7
    assert scoped_key(key, cookies[::-1]) == scoped_key(key, cookies)


def test_a_plain_request_is_one_a_link_would_send() -> None:
    assert Request().is_plain_get
    assert not Request(method="POST").is_plain_get
    assert not Request(body="x").is_plain_get
    assert Request(headers=(("Accept", "x"),)).is_plain_get
