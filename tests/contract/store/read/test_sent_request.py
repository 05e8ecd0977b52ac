"""What jobs of links send: their own request, with the headers of their locator only at its origin; and its retry."""

import orjson
import pytest
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.model.job import LeasedJob, Request, document_key, link_key, locator_key, request_key
from crawl_engine.model.link import LinkRequest
from crawl_engine.store.pages import documents
from crawl_engine.store.read.sent_request import SentRequest
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.transactions.retry import retry_jobs
from tests.contract.store.harness import StoreHarness, document
from tests.contract.store.shop import NewStore

LOCATOR = {
    "method": "POST", "headers": [["Authorization", "Bearer %{env.T}"]], "cookies": [["a", "b"]], "body": "p=1",
    "content_type": "text/x", "userinfo": "me:pw",
}  # fmt: skip
OWN = Request(
    method="POST", headers=(("Authorization", "Bearer %{env.T}"),), cookies=(("a", "b"),), body="p=1",
    content_type="text/x", userinfo="me:pw",
)  # fmt: skip
SERIES = LOCATOR | {"series": {"url": ["http://a/", ""], "body": [], "first": 3, "last": None, "width": 0}}
ROOT = "http://a/start"


def sent(link: LinkRequest | None, url: str = "http://a/x", *, located: bool = False) -> Request:
    text = None if link is None else link.to_json()
    return SentRequest.from_rows(text, orjson.dumps(LOCATOR).decode(), located=located).request(url, ROOT)


def test_a_page_of_a_locator_sends_its_request() -> None:
    assert sent(None, located=True) == OWN
    assert SentRequest.from_rows(None, None, located=True).request(ROOT, ROOT) == Request()


def test_a_link_sends_nothing_of_the_locator() -> None:
    assert sent(None) == Request()
    assert sent(LinkRequest(method="PUT", body="x", content_type="t")) == Request(
        method="PUT", body="x", content_type="t"
    )


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://a/x", True), ("https://a/x", False), ("http://a:81/x", False),
        ("http://b/x", False), ("http://a.evil/x", False), ("http://www.a/x", False),
    ],
)  # fmt: skip
def test_a_next_page_has_the_headers_of_its_locator_at_the_same_origin_only(url: str, same: bool) -> None:
    plain = sent(LinkRequest(relation="next"), url)
    assert sent(LinkRequest(relation="canonical"), url) == plain
    posted = sent(LinkRequest(method="POST", body="c=2", content_type="t", relation="next"), url)
    if same:
        assert plain == replace(OWN, method="GET", body=None, content_type=None)
        assert posted == replace(OWN, body="c=2", content_type="t")
    else:
        assert plain == Request()
        assert posted == Request(method="POST", body="c=2", content_type="t")


def test_a_page_of_a_series_sends_what_its_locator_does_with_its_own_body() -> None:
    assert sent(LinkRequest(page=2), located=True) == OWN
    assert sent(LinkRequest(page=2, body="p=2"), located=True) == replace(OWN, body="p=2")


@pytest.mark.parametrize(
    ("link", "located", "number"),
    [(None, True, 3), (LinkRequest(page=9), True, 9), (None, False, None), (LinkRequest(relation="next"), False, None)],
)
def test_the_number_of_a_page(link: LinkRequest | None, located: bool, number: int | None) -> None:
    text = None if link is None else link.to_json()
    assert SentRequest.from_rows(text, orjson.dumps(SERIES).decode(), located=located).page_number == number
    assert SentRequest.from_rows(None, orjson.dumps(LOCATOR).decode(), located=True).page_number is None


@pytest.mark.parametrize(
    ("link", "located", "scope", "along"),
    [
        (None, True, True, (("a", "b"),)),
        (None, True, False, ()),
        (None, False, True, ()),
        (LinkRequest(cookies=(("c", "d"),)), False, True, (("c", "d"),)),
        (LinkRequest(relation="next"), False, True, ()),
        (LinkRequest(page=3), True, True, (("a", "b"),)),
    ],
)
def test_what_goes_along(
    link: LinkRequest | None, located: bool, scope: bool, along: tuple[tuple[str, str], ...]
) -> None:
    fields = orjson.dumps(LOCATOR | ({"cookie_scope": "group"} if scope else {})).decode()
    text = None if link is None else link.to_json()
    request = SentRequest.from_rows(text, fields, located=located)
    assert request.cookies_along == along
    if link is not None and link.cookies:
        assert request.request("http://a/x", ROOT) == Request(cookies=along)


def test_a_page_of_a_locator_that_a_link_with_its_cookies_led_to_first_sends_its_request() -> None:
    assert sent(LinkRequest(cookies=(("a", "b"),)), located=True) == OWN


def child(url: str, link: LinkRequest) -> ChildJob:
    key = request_key("g", url, link.method, link.body)
    if link.relation == "next":
        key = locator_key("g", "l", url, link.method, link.body)
    return ChildJob("g", urls.host_key(url), urls.origin(url), url, 1, 0, key, request=link.to_json())


def take_children(store: StoreHarness, *links: LinkRequest, url: str = "http://a/api") -> list[LeasedJob]:
    """Lease the jobs of these links; the locator posts."""
    store.seed("http://a/start", method="POST", body="p=1", request=orjson.dumps(LOCATOR).decode())
    (first,) = store.take("http://a/start")
    store.commit(store.done(first, Children(tuple(child(url, link) for link in links))))
    return list(store.take(url))


def test_two_bodies_to_one_url_are_fetched_side_by_side(store: StoreHarness) -> None:
    bodies = [LinkRequest(method="POST", body=f"q={n}") for n in range(3)]
    assert [job.request.body for job in take_children(store, *bodies)] == ["q=0", "q=1", "q=2"]


def test_the_request_of_a_next_page_is_leased(new_store: NewStore) -> None:
    (plain,) = take_children(new_store(), LinkRequest(relation="next"))
    assert plain.request == replace(OWN, method="GET", body=None, content_type=None)
    assert plain.lineage.link.relation == "next"
    (other,) = take_children(new_store(), LinkRequest(method="POST", body="c", relation="next"), url="http://b/api")
    assert other.request == Request(method="POST", body="c")


@pytest.mark.parametrize("relation", ["link", "next"])
def test_a_retry_fetches_the_page_of_its_own_body_again_and_no_other(store: StoreHarness, relation: str) -> None:
    url = "http://a/api"
    links = [LinkRequest(method="POST", body=f"q={n}", relation=relation) for n in (1, 2)]  # type: ignore[arg-type]
    variant = OWN.variant if relation == "next" else ""
    keys = [document_key(url, "POST", link.body, variant) for link in links]
    keys.append(document_key(url))
    jobs = take_children(store, *links)
    store.commit(*[
        store.done(job, replace(document(url), keys=(key,)), page=number)
        for number, (job, key) in enumerate(zip(jobs, keys, strict=False), 1)
    ])  # fmt: skip
    with store.db.transaction():
        documents.add(store.db, store.run, [(9, replace(document(url), keys=(keys[2],)))])
    assert documents.list_stored(store.db, store.run, keys, float("inf")).keys() == {*keys}
    assert retry_jobs(store.db, store.run, [jobs[0].id]) == 1
    assert documents.list_stored(store.db, store.run, keys, float("inf")).keys() == {*keys[1:]}
    assert [job.request.body for job in store.take(url)] == ["q=1"]


def test_a_plain_link_to_a_page_of_its_own_key(store: StoreHarness) -> None:
    (plain,) = take_children(store, LinkRequest(relation="canonical"))
    assert (plain.request.body, plain.lineage.link.relation) == (None, "canonical")
    assert link_key("g", "http://a/api") != locator_key("g", "l", "http://a/api", "GET", None)
