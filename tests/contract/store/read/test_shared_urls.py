"""A run warns of a URL that locators ask for with other cookies or headers, where links lead on from there."""

from typing import Any

import orjson
import pytest

from crawl_engine import urls
from crawl_engine.model.job import link_key, locator_key
from crawl_engine.model.link import LinkRequest
from crawl_engine.store.read.data_warnings import DataWarning, find_warnings, store_found
from crawl_engine.store.tables.job import jobs, locators
from crawl_engine.store.tables.job.jobs import NewLocator
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness

URL = "http://a/list"
COOKIES = {"cookies": [["s", "n"]]}, {"cookies": [["s", "s"]]}
HEADERS = {"headers": [["A", "n"]]}, {"headers": []}
LINK, NEXT = LinkRequest(), LinkRequest(relation="next")


def child(link: LinkRequest, name: str, number: int) -> ChildJob:
    url = f"http://a/{number}"
    key = locator_key("g", name, url, "GET", None) if link.relation == "next" else link_key("g", url)
    page_key = link_key("g", url) if link.relation == "next" else None
    return ChildJob(
        "g", urls.host_key(url), urls.origin(url), url, 1, 0, key, request=link.to_json(), page_key=page_key
    )


def warn(store: StoreHarness, sent: tuple[dict[str, Any], ...], link: LinkRequest | None) -> list[DataWarning]:
    plain = {"method": "GET", "headers": [], "cookies": [], "body": None, "content_type": None}
    for name, more in zip(("north", "south"), sent, strict=True):
        store.seed(URL, name=name, request=orjson.dumps(plain | more).decode())
    for _ in sent:
        for job in store.take(URL):
            links = () if link is None else (child(link, job.lineage.locator, 2),)
            store.commit(store.done(job, Children(links)))
    with store.db.transaction():
        store.db.execute("UPDATE runs SET state = 'DONE' WHERE seq = ?", (store.run,))
        store_found(store.db, runs.get(store.db, store.run))
    found = find_warnings(store.db, runs.get(store.db, store.run), {})
    return [one for one in found if one.code == "shared-url"]


@pytest.mark.parametrize("sent", [COOKIES, HEADERS], ids=["cookies", "headers"])
@pytest.mark.parametrize("link", [LINK, NEXT], ids=["link", "next"])
def test_it_warns_where_pages_are_shared(
    store: StoreHarness, sent: tuple[dict[str, Any], ...], link: LinkRequest
) -> None:
    (warning,) = warn(store, sent, link)
    part = "cookies" if sent is COOKIES else "headers"
    assert warning.subject == URL
    assert warning.text.startswith(f"the locators north, south ask for {URL} with other {part}, but the pages")


@pytest.mark.parametrize(
    ("sent", "link"),
    [
        (COOKIES, None),
        (COOKIES, LinkRequest(headers=(("Cookie", "s=n"),))),
        ((COOKIES[0], COOKIES[0]), LINK),
        (tuple(one | {"cookie_scope": "group"} for one in COOKIES), LinkRequest(cookies=(("s", "n"),))),
    ],
    ids=["no links", "own headers", "same", "scope"],
)
def test_nothing_is_said_where_none_are(
    store: StoreHarness, sent: tuple[dict[str, Any], ...], link: LinkRequest | None
) -> None:
    assert warn(store, sent, link) == []


def test_a_seed_of_a_known_url_with_other_values_changes_nothing_and_is_found(store: StoreHarness) -> None:
    store.seed(URL, name="shops", request='{"cookies":[["s","n"]]}')
    sequence, identity = store.db.one("SELECT sequence, identity FROM jobs")
    with store.db.transaction():
        other = locators.ensure(store.db, store.run, "g", "shops", '{"cookies":[["s","s"]]}')
        late = NewLocator(store.run, sequence, 0, other, URL, None, bytes(identity), '[{"seed.s":"s"}]')
        jobs.add_locators(store.db, [late])
    assert store.jobs("carried") == [(None,)]
    assert jobs.list_shared(store.db, [late]) == [(URL, "shops", '{"cookies":[["s","s"]]}', '{"cookies":[["s","n"]]}')]
