"""What makes two jobs or two documents the same, and which of them there is when both are asked for."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.model.job import StoredPage
from engine.model.job_key import document_key
from engine.store.pages import documents
from engine.store.pages.documents import PageStore
from tests.contract.store.house import House, Page, again, document

Houses = Callable[..., House]


# Documents.


@pytest.fixture
def pages(house: House) -> PageStore:
    return PageStore(house.folder)


def test_a_document_answers_for_its_url_and_for_those_redirected_to_it(house: House, pages: PageStore) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    page = document("http://a/3", b"<p>three</p>", came_by=["http://a/1", "http://a/2"])
    (id_,) = pages.add([page])
    house.commit(replace(house.done(job), document=page, page=id_))
    keys = [document_key(f"http://a/{i}") for i in (1, 2, 3, 4)]
    found = documents.find_stored(house.db, house.run, keys, float("inf"))
    assert {key: s.page for key, s in found.items()} == dict.fromkeys(keys[:3], id_)
    assert found[keys[0]].url == "http://a/3"
    assert pages.read(id_) == b"<p>three</p>"
    assert house.jobs("document") == [(id_,)]
    assert house.db.one("SELECT size, status, content_type FROM documents") == (12, 200, "text/html")


def test_of_two_documents_the_newer_answers_and_another_runs_only_while_fresh_and_good(
    house: House, pages: PageStore
) -> None:
    url, key = "http://a/1", document_key("http://a/1")
    told = [document(url, b"1", at=10.0), document(url, b"2", at=30.0), document(url, b"3", at=20.0)]
    with house.db.transaction():
        documents.add(house.db, house.run, list(zip(pages.add(told), told, strict=True)))

    def find(run: int, since: float) -> StoredPage | None:
        return documents.find_stored(house.db, run, [key], since).get(key)

    newest = find(house.run, float("inf"))
    assert newest is not None
    assert pages.read(newest.page) == b"2"
    other = house.run + 1
    assert find(other, 30.0) is None
    assert find(other, 29.9) == newest
    with house.db.transaction():
        house.db.execute("UPDATE documents SET status = 404")
    assert find(other, 0.0) is None, "a bad answer of another run is asked again"
    assert find(house.run, float("inf")) == replace(newest, status=404)


def test_the_document_of_a_lost_lease_is_swept_and_no_other(house: House, pages: PageStore) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    told = [document(f"http://a/{i}", str(i).encode()) for i in range(5)]
    ids = pages.add(told)
    house.commit(replace(house.done(job), document=told[2], page=ids[2]))
    assert pages.delete_orphans(house.db, batch=2) == 4
    assert [pages.read(i) for i in ids] == [None, None, b"2", None, None]
    assert pages.delete_orphans(house.db) == 0


def test_bodies_come_back_in_the_order_they_were_given(pages: PageStore) -> None:
    told = [document(f"http://a/{i}", str(i).encode()) for i in range(150)]
    ids = pages.add(told)
    assert [pages.read(i) for i in ids] == [d.body for d in told]
    assert pages.read(ids[-1] + 1) is None


def test_a_key_is_asked_for_many_at_once(house: House, pages: PageStore) -> None:
    told = [document(f"http://a/{i}") for i in range(100)]
    with house.db.transaction():
        documents.add(house.db, house.run, list(zip(pages.add(told), told, strict=True)))
    keys = [document_key(f"http://a/{i}") for i in range(200)]
    assert len(documents.find_stored(house.db, house.run, keys, 0.0)) == 100
    assert documents.find_stored(house.db, house.run, [], 0.0) == {}


# Identity.


def test_a_link_makes_one_job_a_group_however_often_it_is_found(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    again_ = [Page("http://a/3"), Page("http://a/3"), Page("http://a/3", group="h"), Page("http://a/4")]
    house.commit(house.done(one, links=again_), house.done(two, links=[Page("http://a/3", priority=9)]))
    assert house.jobs("url, priority, origin")[2:] == [
        ("http://a/3", 0, "link"), ("http://a/3", 0, "link"), ("http://a/4", 0, "link"),
    ]  # fmt: skip
    three, *_ = house.take("http://a/")
    house.commit(house.done(three, links=again_))
    assert len(house.jobs()) == 5


def test_a_link_to_a_plain_locator_of_its_group_makes_no_job(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, _ = house.take("http://a/")
    house.commit(house.done(one, links=[Page("http://a/1"), Page("http://a/2"), Page("http://a/2", group="h")]))
    assert house.jobs("url, origin")[2:] == [("http://a/2", "link")], "another group wants its own look at the page"


def test_a_link_is_no_post(house: House) -> None:
    house.seed("http://a/1")
    house.seed("http://a/form", name="post", method="POST", body="q=1")
    house.seed("http://a/form", name="get with a body", body="q=1")
    one = house.take("http://a/")[0]
    house.commit(house.done(one, links=[Page("http://a/form")]))
    assert [o for u, o in house.jobs("url, origin") if u == "http://a/form"] == ["locator", "locator", "link"]


def test_locators_differ_by_group_name_url_method_and_body(house: House) -> None:
    house.seed("http://a/1", "http://a/1", "http://a/2", name="x")
    house.seed("http://a/1", name="y")
    house.seed("http://a/1", name="x", group="h")
    house.seed("http://a/1", name="x", method="POST")
    house.seed("http://a/1", name="x", method="POST", body="1")
    house.seed("http://a/1", name="x", method="POST", body="1")
    assert len(house.jobs()) == 6


def _with_a_link(house: House) -> int:
    """A READY job that a link made: http://a/2 in g, found on http://a/1."""
    house.seed("http://a/1")
    (one,) = house.take("http://a/")
    house.commit(house.done(one, links=[Page("http://a/2", depth=4, priority=2)]))
    return int(house.db.value("SELECT id FROM jobs WHERE url = 'http://a/2'"))


@pytest.mark.parametrize("priority", [1, 2, 7])
def test_a_locator_takes_over_the_unstarted_job_of_a_link(house: House, priority: int) -> None:
    job = _with_a_link(house)
    house.seed("http://a/2", name="new", priority=priority)
    assert house.jobs("id, origin, depth, root, priority") == [
        (1, "locator", 0, None, 0), (job, "locator", 0, None, max(2, priority)),
    ]  # fmt: skip
    house.check_counters()
    (taken,) = house.take("http://a/")
    assert (taken.locator, taken.locator_url, taken.root) == ("new", "http://a/2", job)
    house.commit(house.done(taken, links=[Page("http://a/2")]))
    assert len(house.jobs()) == 2, "a link to it still makes no job"


def test_a_locator_seeded_again_after_it_took_a_link_over_makes_no_second_job(house: House) -> None:
    _with_a_link(house)
    for _ in range(2):
        house.seed("http://a/2", name="new")
    assert len(house.jobs()) == 2


@pytest.mark.parametrize("started", ["taken", "done", "tried"])
def test_a_link_job_that_was_started_stays_and_the_locator_gets_its_own(house: House, started: str) -> None:
    job = _with_a_link(house)
    (taken,) = house.take("http://a/")
    if started != "taken":
        house.commit(house.done(taken) if started == "done" else again(taken))
    house.seed("http://a/2", name="new")
    assert house.jobs("url, origin")[1:] == [("http://a/2", "link"), ("http://a/2", "locator")]
    if started != "tried":
        assert house.state(job) == started.upper()
    house.check_counters()


@pytest.mark.parametrize("kind", [{"method": "POST"}, {"body": "x"}, {"group": "h"}])
def test_only_a_plain_locator_of_the_same_group_takes_a_link_over(house: House, kind: dict[str, str]) -> None:
    _with_a_link(house)
    house.seed("http://a/2", name="new", **kind)  # type: ignore[arg-type]
    assert [o for u, o in house.jobs("url, origin") if u == "http://a/2"] == ["link", "locator"]


def test_two_locators_on_one_link_take_it_over_once(house: House) -> None:
    _with_a_link(house)
    house.seed("http://a/2", name="x")
    house.seed("http://a/2", name="y")
    assert [o for u, o in house.jobs("url, origin") if u == "http://a/2"] == ["locator", "locator"]
