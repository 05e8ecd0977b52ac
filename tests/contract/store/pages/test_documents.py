"""The identity of jobs and documents, and which of two equal ones is kept."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from crawl_engine.model.job import StoredPage, document_key
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.documents import CheckedDocument
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import Page, StoreHarness, again, document

ENCODED = '{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null,"userinfo":"%s"}'
NewStore = Callable[..., StoreHarness]


# Documents.


@pytest.fixture
def pages(store: StoreHarness) -> PageStore:
    return PageStore(store.folder)


def test_a_document_is_found_by_its_url_and_by_urls_redirected_to_it(store: StoreHarness, pages: PageStore) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    page = document("http://a/3", b"<p>three</p>", redirected_from=["http://a/1", "http://a/2"])
    (id_,) = pages.add([page])
    store.commit(store.done(job, page, page=id_))
    keys = [document_key(f"http://a/{i}") for i in (1, 2, 3, 4)]
    stored = documents.list_stored(store.db, store.run, keys, float("inf"))
    assert {key: [s.page for s in of_key] for key, of_key in stored.items()} == {key: [id_] for key in keys[:3]}
    assert stored[keys[0]][0].url == "http://a/3"
    assert pages.read(id_) == b"<p>three</p>"
    assert store.jobs("document") == [(id_,)]
    assert store.db.one("SELECT size, status, content_type FROM documents") == (12, 200, "text/html")


def test_the_newer_document_is_found_and_one_of_another_run_only_while_fresh_and_successful(
    store: StoreHarness, pages: PageStore
) -> None:
    url, key = "http://a/1", document_key("http://a/1")
    result = [document(url, b"1", at=10.0), document(url, b"2", at=30.0), document(url, b"3", at=20.0)]
    with store.db.transaction():
        documents.add(store.db, store.run, list(zip(pages.add(result), result, strict=True)))

    def find(run: int, since: float) -> StoredPage | None:
        return documents.list_stored(store.db, run, [key], since).get(key, [None])[-1]

    newest = find(store.run, float("inf"))
    assert newest is not None
    assert pages.read(newest.page) == b"2"
    other = store.run + 1
    assert find(other, 30.0) is None
    assert newest.of_this_run
    assert find(other, 29.9) == replace(newest, of_this_run=False)
    with store.db.transaction():
        store.db.execute("UPDATE documents SET status = 404")
    assert find(other, 0.0) is None, "an error page of another run is not reused"
    assert find(store.run, float("inf")) == replace(newest, status=404)


def test_a_document_that_is_unchanged_is_one_of_the_run_that_asked(store: StoreHarness, pages: PageStore) -> None:
    url, key = "http://a/1", document_key("http://a/1")
    found = [document(url, b"1", at=10.0), document(url, b"2", at=30.0)]
    ids = pages.add(found)
    with store.db.transaction():
        documents.add(store.db, store.run, list(zip(ids, found, strict=True)))
    other = store.run + 1
    checked = CheckedDocument(ids[1], 50.0, 7.0, (document_key("http://a/0"),))
    with store.db.transaction():
        documents.mark_checked(store.db, other, [checked])
    [stored] = documents.list_stored(store.db, other, [key], float("inf"))[key]
    assert (stored.page, stored.fetched_at, stored.asked_at, stored.recrawl_after) == (ids[1], 30.0, 50.0, 7.0)
    assert stored.of_this_run
    assert document_key("http://a/0") in documents.list_stored(store.db, other, [checked.earlier_keys[0]], 1e9)
    assert [one.page for one in documents.list_stored(store.db, other + 1, [key], 49.0)[key]] == [ids[1]]
    [[_, (newest, digest)]] = documents.list_good(store.db, [key, b"none"]).values()
    assert (newest.page, digest) == (ids[1], found[1].digest)
    with store.db.transaction():
        documents.invalidate(store.db, other, [key])
    assert not documents.list_stored(store.db, other, [key], float("inf")), "a retry asks without a version"


def test_a_document_has_the_headers_of_its_last_answer(store: StoreHarness, pages: PageStore) -> None:
    url, key = "http://a/1", document_key("http://a/1")
    found = document(url, b"1", at=10.0)
    (id_,) = pages.add([found])
    with store.db.transaction():
        documents.add(store.db, store.run, [(id_, found)])
    changed = (("etag", '"2"'), ("etag", "é"))
    for number, headers in enumerate([None, changed, None]):  # an answer that changes nothing keeps what one changed
        with store.db.transaction():
            checked = CheckedDocument(id_, 50.0 + number, headers=headers)
            documents.mark_checked(store.db, store.run + number, [checked])
        [(stored, _)] = documents.list_good(store.db, [key])[key]
        assert stored.headers == (changed if number else None)
        assert documents.get_changed_headers(store.db, id_) == (changed if number else ())
    assert pages.list_headers([id_]) == {id_: found.headers}


def test_a_document_belongs_to_the_job_that_had_it_in_this_run_or_in_an_earlier_one(
    store: StoreHarness, pages: PageStore
) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    page = document("http://a/1", b"1")
    page.loader = "a"
    (id_,) = pages.add([page])
    store.commit(store.done(one, page, page=id_))
    [stored] = documents.list_stored(store.db, store.run, [document_key("http://a/1")], 0.0)[document_key("http://a/1")]
    assert stored.loader == "a"
    assert documents.is_of_job(store.db, one.id, id_)
    assert not documents.is_of_job(store.db, two.id, id_)
    with store.db.transaction():
        later = runs.create(store.db, None, 1.0).seq
        store.db.execute(
            "INSERT INTO jobs (id, run, sequence, origin, url, identity) SELECT id + 100, ?, sequence, origin, url,"
            " identity FROM jobs",
            (later,),
        )
    one, two = one._replace(id=one.id + 100), two._replace(id=two.id + 100)
    assert documents.is_of_job(store.db, one.id, id_)
    assert not documents.is_of_job(store.db, two.id, id_)


def test_only_the_document_of_a_lost_lease_is_deleted(store: StoreHarness, pages: PageStore) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    result = [document(f"http://a/{i}", str(i).encode()) for i in range(5)]
    ids = pages.add(result)
    store.commit(store.done(job, result[2], page=ids[2]))
    store.end_nodes()
    assert pages.delete_orphans(store.db, batch=2) == 4
    assert [pages.read(i) for i in ids] == [None, None, b"2", None, None]
    assert pages.delete_orphans(store.db) == 0


def test_bodies_keep_their_order(pages: PageStore) -> None:
    result = [document(f"http://a/{i}", str(i).encode()) for i in range(150)]
    ids = pages.add(result)
    assert [pages.read(i) for i in ids] == [d.body.plain for d in result]
    assert pages.read(ids[-1] + 1) is None


def test_many_keys_are_read_at_once(store: StoreHarness, pages: PageStore) -> None:
    result = [document(f"http://a/{i}") for i in range(100)]
    with store.db.transaction():
        documents.add(store.db, store.run, list(zip(pages.add(result), result, strict=True)))
    keys = [document_key(f"http://a/{i}") for i in range(200)]
    assert len(documents.list_stored(store.db, store.run, keys, 0.0)) == 100
    assert documents.list_stored(store.db, store.run, [], 0.0) == {}


# Identity.


def test_a_link_makes_one_job_per_group_however_often_it_occurs(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    again_ = [Page("http://a/3"), Page("http://a/3"), Page("http://a/3", group="h"), Page("http://a/4")]
    store.commit(store.done(one, links=again_), store.done(two, links=[Page("http://a/3", priority=9)]))
    assert store.jobs("url, priority, origin")[2:] == [
        ("http://a/3", 0, "link"), ("http://a/3", 0, "link"), ("http://a/4", 0, "link"),
    ]  # fmt: skip
    three, *_ = store.take("http://a/")
    store.commit(store.done(three, links=again_))
    assert len(store.jobs()) == 5


def test_a_link_to_a_plain_locator_of_its_group_makes_no_job(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, _ = store.take("http://a/")
    store.commit(store.done(one, links=[Page("http://a/1"), Page("http://a/2"), Page("http://a/2", group="h")]))
    assert store.jobs("url, origin")[2:] == [("http://a/2", "link")], "another group has its own job for the page"


def test_a_link_is_no_post(store: StoreHarness) -> None:
    store.seed("http://a/1")
    store.seed("http://a/form", name="post", method="POST", body="q=1")
    store.seed("http://a/form", name="get with a body", body="q=1")
    one = store.take("http://a/")[0]
    store.commit(store.done(one, links=[Page("http://a/form")]))
    assert [o for u, o in store.jobs("url, origin") if u == "http://a/form"] == ["locator", "locator", "link"]


def test_locators_differ_by_group_name_url_method_and_body(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/1", "http://a/2", name="x")
    store.seed("http://a/1", name="y")
    store.seed("http://a/1", name="x", group="h")
    store.seed("http://a/1", name="x", method="POST")
    store.seed("http://a/1", name="x", method="POST", body="1")
    store.seed("http://a/1", name="x", method="POST", body="1")
    assert len(store.jobs()) == 6


def _with_a_link(store: StoreHarness) -> int:
    """A READY job of a link: http://a/2 in g, on the page http://a/1."""
    store.seed("http://a/1")
    (one,) = store.take("http://a/")
    store.commit(store.done(one, links=[Page("http://a/2", depth=4, priority=2)]))
    return int(store.db.value("SELECT id FROM jobs WHERE url = 'http://a/2'"))


@pytest.mark.parametrize("priority", [1, 2, 7])
def test_a_locator_takes_over_the_unstarted_job_of_a_link(store: StoreHarness, priority: int) -> None:
    job = _with_a_link(store)
    store.seed("http://a/2", name="new", priority=priority)
    assert store.jobs("id, origin, depth, root, priority") == [
        (1, "locator", 0, None, 0), (job, "locator", 0, None, max(2, priority)),
    ]  # fmt: skip
    store.check_counters()
    (taken,) = store.take("http://a/")
    assert (taken.lineage.locator, taken.lineage.locator_url, taken.lineage.root) == ("new", "http://a/2", job)
    store.commit(store.done(taken, links=[Page("http://a/2")]))
    assert len(store.jobs()) == 2, "a link to it still creates no job"


@pytest.mark.parametrize("state", ["READY", "TAKEN", "DONE"])
def test_a_locator_whose_request_changed_gives_its_jobs_the_new_one(store: StoreHarness, state: str) -> None:
    old, new = ENCODED % "old", ENCODED % "new"
    store.seed("http://a/1", request=old)
    jobs = store.take("http://a/") if state != "READY" else []
    if state == "DONE":
        store.commit(store.done(jobs[0]))
    counters = store.db.all("SELECT ready, taken, done FROM sequences")
    store.seed("http://a/1", request=new)
    assert store.db.all("SELECT state, request FROM jobs j JOIN locators l ON l.id = j.locator") == [(state, new)]
    assert store.db.all("SELECT ready, taken, done FROM sequences") == counters


def test_two_users_of_one_url_are_two_jobs_with_two_documents(store: StoreHarness, pages: PageStore) -> None:
    for user in ("ann", "bob", "ann"):
        store.seed("http://a/1", request=ENCODED % f"{user}:pw", account=user)
    (first,) = store.take("http://a/")  # one URL is fetched by one job at a time
    store.commit(store.done(first))
    (second,) = store.take("http://a/")
    assert [first.request.account, second.request.account] == ["ann", "bob"]
    keys = [document_key(job.url, "GET", None, job.request.account) for job in (first, second)]
    assert len({*keys, document_key("http://a/1")}) == 3
    assert document_key("http://a/1", "GET", None, "") == document_key("http://a/1")


def test_a_locator_seeded_again_after_it_took_a_link_over_makes_no_second_job(store: StoreHarness) -> None:
    _with_a_link(store)
    for _ in range(2):
        store.seed("http://a/2", name="new")
    assert len(store.jobs()) == 2


@pytest.mark.parametrize("started", ["taken", "done", "tried"])
def test_a_link_job_that_was_started_stays_and_the_locator_gets_its_own(store: StoreHarness, started: str) -> None:
    job = _with_a_link(store)
    (taken,) = store.take("http://a/")
    if started != "taken":
        store.commit(store.done(taken) if started == "done" else again(taken))
    store.seed("http://a/2", name="new")
    assert store.jobs("url, origin")[1:] == [("http://a/2", "link"), ("http://a/2", "locator")]
    if started != "tried":
        assert store.state(job) == started.upper()
    store.check_counters()


@pytest.mark.parametrize("kind", [{"method": "POST"}, {"body": "x"}, {"group": "h"}])
def test_only_a_plain_locator_of_the_same_group_takes_a_link_over(store: StoreHarness, kind: dict[str, str]) -> None:
    _with_a_link(store)
    store.seed("http://a/2", name="new", **kind)  # type: ignore[arg-type]
    assert [o for u, o in store.jobs("url, origin") if u == "http://a/2"] == ["link", "locator"]


def test_two_locators_on_one_link_take_it_over_once(store: StoreHarness) -> None:
    _with_a_link(store)
    store.seed("http://a/2", name="x")
    store.seed("http://a/2", name="y")
    assert [o for u, o in store.jobs("url, origin") if u == "http://a/2"] == ["locator", "locator"]
