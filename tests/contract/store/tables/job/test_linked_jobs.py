"""Jobs that links make: what they carry and send, and the pages of series that join them."""

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.model.job import JobState, LeasedJob, link_key, locator_key, request_key
from crawl_engine.model.link import Carried, LinkRequest
from crawl_engine.store.read import browse
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.transactions.children import commit_children
from tests.contract.store.harness import REQUEST, StoreHarness
from tests.contract.store.shop import NewStore, Shop, defs

CHILD = "http://a/child"
TWO = "http://a/2"


def carrying(**values: str) -> str | None:
    return Carried(values=values).to_json()


def link_to(url: str = CHILD, *, request: LinkRequest | None = None, **values: str) -> ChildJob:
    """A link that carries these values."""
    key = link_key("g", url) if request is None else request_key("g", url, request.method, request.body)
    return ChildJob(
        "g", urls.host_key(url), urls.origin(url), url, 1, 0, key,
        request=None if request is None else request.to_json(), carried=carrying(**values),
    )  # fmt: skip


def series_page(number: int = 2, blocks: str = "b1") -> ChildJob:
    """A page of the series of the locator `l`."""
    url = f"http://a/{number}"
    return ChildJob(
        "g", urls.host_key(url), urls.origin(url), url, 0, 0, locator_key("g", "l", url, "GET", None),
        may_leave_host=True, request=LinkRequest(page=number).to_json(), carried=Carried(blocks=blocks).to_json(),
        page_key=link_key("g", url), in_series=True,
    )  # fmt: skip


SERIES = orjson.loads(REQUEST) | {
    "series": {"url": ["http://a/", ""], "body": [], "first": 1, "last": None, "width": 0}
}


@pytest.fixture
def shop(store: StoreHarness) -> Shop:
    """Two done pages, `http://a/0` and `http://a/1`."""
    return Shop(store, pages=2)


def reextract(shop: Shop, *fields: str) -> dict[int, LeasedJob]:
    """Lease the re-extractions of all pages, by page."""
    shop.publish(defs(*fields))
    shop.queue()
    return leased(shop)


def leased(shop: Shop) -> dict[int, LeasedJob]:
    return {job.extraction.page_job: job for job in shop.lease().jobs if job.extraction.page_job is not None}


def of_child(shop: Shop, url: str = CHILD) -> tuple[int, str, str | None]:
    """Id, state and carried values."""
    return shop.store.db.all("SELECT id, state, carried FROM jobs WHERE url = ? AND page IS NULL", (url,))[0]


def crawl_child(shop: Shop, **values: str) -> int:
    """The first page leads to the child with these values, and that is done; returns its id."""
    first = reextract(shop, "title", "price")
    (one, two) = shop.done
    shop.store.commit(shop.extracted(first[one], Children((link_to(**values),))))
    shop.store.commit(shop.extracted(first[two]))
    (job,) = shop.store.take(CHILD)
    assert job.lineage.carried == carrying(**values)
    shop.store.commit(shop.fetched(job))
    return job.id


def test_a_link_creates_a_job_with_what_it_sends_and_carries(shop: Shop) -> None:
    request = LinkRequest(method="POST", body="q=1", content_type="text/x")
    jobs = reextract(shop, "title", "price")
    (one, two) = shop.done
    outcome = shop.extracted(jobs[one], Children((link_to(request=request, sku="7"), link_to(sku="8"))))
    shop.store.commit(outcome, shop.extracted(jobs[two]))
    posted, plain = shop.store.take(CHILD)
    assert (posted.request.method, posted.request.body, posted.request.content_type) == ("POST", "q=1", "text/x")
    assert (posted.lineage.link, posted.lineage.carried) == (request, carrying(sku="7"))
    assert (plain.request.method, plain.request.body, plain.lineage.carried) == ("GET", None, carrying(sku="8"))
    shop.store.check_counters()


@pytest.mark.parametrize("together", [True, False])
def test_the_first_parent_wins(shop: Shop, together: bool) -> None:
    jobs = reextract(shop, "title", "price")
    outcomes = [shop.extracted(jobs[page], Children((link_to(by=str(page)),))) for page in shop.done]
    for group in [outcomes] if together else [[outcome] for outcome in outcomes]:
        shop.store.commit(*group)
    assert of_child(shop)[1:] == ("READY", carrying(by=str(shop.done[0])))
    assert shop.store.db.value("SELECT parent FROM jobs WHERE url = ?", (CHILD,)) == shop.done[0]


def test_a_page_of_a_locator_carries_nothing(shop: Shop) -> None:
    jobs = reextract(shop, "title", "price")
    shop.store.seed("http://a/named")
    shop.store.commit(shop.extracted(jobs[shop.done[0]], Children((link_to("http://a/named", x="1"),))))
    assert of_child(shop, "http://a/named")[1:] == ("READY", None)


def test_a_changed_value_queues_the_re_extraction_of_a_done_child_in_the_same_commit(shop: Shop) -> None:
    child = crawl_child(shop, sku="1")
    jobs = reextract(shop, "title")
    shop.store.commit(shop.extracted(jobs.pop(child)))
    assert child not in dict(shop.extractions())
    shop.store.commit(shop.extracted(jobs[shop.done[0]], Children((link_to(sku="2"),))))
    assert of_child(shop) == (child, "DONE", carrying(sku="2"))
    assert dict(shop.extractions())[child] == "READY"
    again = leased(shop)[child]
    assert (again.lineage.carried, again.extraction.extracted_with) == (carrying(sku="2"), ()), "with all dataDefs"
    shop.store.commit(shop.extracted(again))
    assert child not in dict(shop.extractions())


def test_an_equal_value_or_another_parent_queues_nothing(shop: Shop) -> None:
    child = crawl_child(shop, sku="1")
    jobs = reextract(shop, "title")
    shop.store.commit(shop.extracted(jobs.pop(child)))
    shop.store.commit(shop.extracted(jobs[shop.done[1]], Children((link_to(sku="other"),))))
    shop.store.commit(shop.extracted(jobs[shop.done[0]], Children((link_to(sku="1"),))))
    assert of_child(shop) == (child, "DONE", carrying(sku="1"))
    assert shop.extractions() == []


def test_a_first_parent_that_no_longer_links_leaves_the_last_values(shop: Shop) -> None:
    child = crawl_child(shop, sku="1")
    jobs = reextract(shop, "title")
    for job in jobs.values():
        shop.store.commit(shop.extracted(job))
    assert of_child(shop) == (child, "DONE", carrying(sku="1"))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_changed_value_counts_beside_another_parent_in_one_commit(shop: Shop, order: tuple[int, int]) -> None:
    child = crawl_child(shop, sku="1")
    jobs = reextract(shop, "title")
    shop.store.commit(shop.extracted(jobs.pop(child)))
    outcomes = [
        shop.extracted(jobs[page], Children((link_to(sku=sku),))) for page, sku in zip(shop.done, "2x", strict=True)
    ]
    shop.store.commit(*[outcomes[index] for index in order])
    assert of_child(shop) == (child, "DONE", carrying(sku="2"))
    assert dict(shop.extractions())[child] == "READY"


def test_a_page_in_progress_is_queued_at_its_commit(shop: Shop) -> None:
    jobs = reextract(shop, "title", "price")
    (one, two) = shop.done
    shop.store.commit(shop.extracted(jobs[one], Children((link_to(sku="1"),))), shop.extracted(jobs[two]))
    (job,) = shop.store.take(CHILD)
    again = reextract(shop, "title")
    shop.store.commit(shop.extracted(again[one], Children((link_to(sku="2"),))))
    assert of_child(shop) == (job.id, "TAKEN", carrying(sku="2"))
    assert job.id not in dict(shop.extractions())
    shop.store.commit(shop.fetched(job))
    assert dict(shop.extractions())[job.id] == "READY"
    assert leased(shop)[job.id].lineage.carried == carrying(sku="2")


def test_a_page_in_progress_that_fails_is_not_queued(shop: Shop) -> None:
    jobs = reextract(shop, "title", "price")
    (one, two) = shop.done
    shop.store.commit(shop.extracted(jobs[one], Children((link_to(sku="1"),))), shop.extracted(jobs[two]))
    (job,) = shop.store.take(CHILD)
    again = reextract(shop, "title")
    shop.store.commit(shop.extracted(again[one], Children((link_to(sku="2"),))))
    shop.store.commit(replace(shop.store.done(job), state=JobState.FAILED))
    assert of_child(shop)[1] == "FAILED"
    assert job.id not in dict(shop.extractions())


@pytest.mark.parametrize("together", [True, False])
def test_a_running_re_extraction_is_dropped_and_ready_again(shop: Shop, together: bool) -> None:
    child = crawl_child(shop, sku="1")
    jobs = reextract(shop, "title")
    rows = [row for row in shop.row_versions() if row[0] == child]
    parent = shop.extracted(jobs[shop.done[0]], Children((link_to(sku="2"),)))
    running = shop.extracted(jobs[child])
    if together:
        shop.store.commit(parent, running)
    else:
        shop.store.commit(parent)
        assert dict(shop.extractions())[child] == "TAKEN"
        shop.store.commit(running)
        assert [row for row in shop.row_versions() if row[0] == child] == rows, "it wrote nothing"
    assert dict(shop.extractions())[child] == "READY"
    again = leased(shop)[child]
    assert again.lineage.carried == carrying(sku="2")
    shop.store.commit(shop.extracted(again))
    assert child not in dict(shop.extractions())


def test_children_in_pieces_carry_too(shop: Shop) -> None:
    child = crawl_child(shop, sku="1")
    jobs = reextract(shop, "title")
    shop.store.commit(shop.extracted(jobs.pop(child)))
    outcome = shop.extracted(jobs[shop.done[0]], Children((link_to(sku="2"), link_to("http://a/more"))))
    assert commit_children(
        shop.store.db, shop.store.nodes[0], shop.store.run, outcome, 1, shop.store.places, shop.store.now
    )
    assert of_child(shop) == (child, "DONE", carrying(sku="2"))
    assert dict(shop.extractions())[child] == "READY"


# Series


def start_series(store: StoreHarness) -> LeasedJob:
    """Lease the first page."""
    store.seed("http://a/1", priority=1, request=orjson.dumps(SERIES).decode())
    jobs = {job.url: job for job in store.take("http://a/1", free=1)}
    return jobs["http://a/1"]


def series_job(store: StoreHarness) -> dict[str, Any]:
    names = "id, state, origin, depth, root, parent, link_request, carried, may_leave_host, page_key"
    ((*values,),) = store.db.all(f"SELECT {names} FROM jobs WHERE url = ? AND page IS NULL", (TWO,))
    return dict(zip(names.split(", "), values, strict=True))


def test_a_page_of_a_series_is_a_job_of_its_locator(new_store: NewStore) -> None:
    store = new_store()
    first = start_series(store)
    store.commit(store.done(first, Children((series_page(),))))
    (job,) = store.take(TWO)
    assert (job.lineage.page_number, job.lineage.depth, job.lineage.locator_id, job.lineage.locator_url) == (
        2,
        0,
        first.lineage.locator_id,
        TWO,
    )
    assert (job.lineage.origin, job.lineage.may_leave_host) == (first.lineage.origin, True)
    assert job.lineage.carried == Carried(blocks="b1").to_json()


@pytest.mark.parametrize("state", ["READY", "TAKEN", "DONE", "FAILED", "SKIPPED"])
def test_a_job_of_a_link_joins_the_series(new_store: NewStore, state: str) -> None:
    store = new_store()
    shop = Shop(store, pages=1)
    linking = reextract(shop, "title", "price")[shop.done[0]]
    store.commit(shop.extracted(linking, Children((link_to(TWO, sku="1"),))))
    linked = None
    if state != "READY":
        (linked,) = store.take(TWO)
    if linked is not None and state == "DONE":
        store.commit(shop.fetched(linked))
    elif linked is not None and state != "TAKEN":
        store.commit(replace(store.done(linked), state=JobState(state), reason="no"))
    first = start_series(store)
    store.commit(shop.fetched(first, Children((series_page(),))))
    joined = series_job(store)
    assert (joined["state"], joined["origin"], joined["depth"], joined["root"]) == (state, "locator", 0, None)
    assert (joined["parent"], joined["carried"]) == (first.id, Carried(blocks="b1").to_json())
    assert LinkRequest.from_json(joined["link_request"]).page == 2
    assert joined["page_key"] == link_key("g", TWO)
    if state == "TAKEN" and linked is not None:
        store.commit(shop.fetched(linked))
    if state in ("TAKEN", "DONE"):
        again = leased(shop)[joined["id"]]
        assert (again.lineage.page_number, again.lineage.carried) == (2, Carried(blocks="b1").to_json())
        store.commit(shop.extracted(again))
    else:
        assert joined["id"] not in dict(shop.extractions()), "nothing is stored that could be extracted"
    if state == "READY":
        (job,) = store.take(TWO)
        assert job.lineage.page_number == 2
        store.commit(shop.fetched(job))
    assert joined["id"] not in dict(shop.extractions())
    store.check_counters()


def test_a_page_of_a_series_is_joined_once(new_store: NewStore) -> None:
    store = new_store()
    first = start_series(store)
    store.commit(store.done(first, Children((series_page(), link_to(TWO)))))
    assert store.db.value("SELECT count(*) FROM jobs WHERE url = ?", (TWO,)) == 1
    assert series_job(store)["origin"] == "locator"


def test_the_index_serves_these_statements(shop: Shop) -> None:
    child = crawl_child(shop, sku="1")
    jobs = reextract(shop, "title")
    outcome = shop.extracted(jobs[child], Children((link_to("http://a/x", sku="2"), series_page())))
    for sql, plan in shop.store.plans(lambda: shop.store.commit(outcome)):
        scans = [line for line in plan if line.startswith("SCAN") and "json_each" not in line]
        assert not [line for line in scans if " j" in line and "jobs" in line and "jobs_taken" not in line], (sql, plan)


def test_a_job_shows_what_it_carries(shop: Shop) -> None:
    child = crawl_child(shop, name="tea")
    detail = browse.get_detail(shop.store.db, child)
    assert detail is not None
    assert Carried.from_json(detail.carried).values == {"name": "tea"}
