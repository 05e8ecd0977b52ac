"""The commit: fenced job by job, all or nothing, and one job that cannot be written never harms the others."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from store_house import House, Page, again, child, document, failed, moved

from engine.errors import Fenced
from engine.model.identity import document_key
from engine.model.job import JobState, LeasedJob, StoredPage
from engine.model.node import NodeState, Role
from engine.store import documents, events, jobs, nodes, rows, sequences
from engine.store.commit import Finished, commit
from engine.store.connector import Busy, Database
from engine.store.documents import Pages
from engine.store.events import Event
from engine.store.hosts import Manners
from engine.store.schema import CRAWL

Houses = Callable[..., House]


# Fences.


def test_a_commit_writes_all_that_a_page_made(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    told = Event(5.0, "INFO", "n1", "page", "fine", job.id)
    done = house.done(job, data=['{"title":"A"}', '{"title":"B"}'], links=[Page("http://a/2")], events=(told,))
    assert house.commit(done).won == {job.id}
    assert house.jobs() == [("http://a/1", "DONE"), ("http://a/2", "READY")]
    assert house.rows() == [(job.id, '{"title":"A"}'), (job.id, '{"title":"B"}')]
    assert rows.counts(house.db, house.run) == {"book": (2, 0)}
    assert events.after(house.db, house.run, 0, 9) == [(1, told)]
    assert house.jobs("attempts, defs, lease") == [(1, 1, None), (0, None, None)]
    house.check_counters()


def test_a_result_under_a_lease_that_was_lost_changes_nothing(house: House) -> None:
    house.seed("http://a/1")
    (old,) = house.take("http://a/")
    with house.db.transaction():
        assert jobs.release(house.db, house.nodes[0], "it hung", crashed=True) == 1
    (new,) = house.take("http://a/")
    assert new.lease != old.lease
    for late in (
        house.done(old, data=["{}"], links=[Page("http://z/1")], rejected=(("book", 3),)),
        failed(old),
        again(old, 2000.0),
        Finished(job=old, state=JobState.INCOMPLETE, reason="cut off"),
        Finished(job=old, state=JobState.READY, backoff_until=5000.0),
    ):
        before = _all_tables(house)
        assert house.commit(late).won == frozenset()
        assert _all_tables(house) == before
    assert house.commit(house.done(new, data=['{"title":"new"}'])).won == {new.id}
    assert house.rows() == [(new.id, '{"title":"new"}')]


def _all_tables(house: House) -> dict[str, list[tuple[object, ...]]]:
    names = [row[0] for row in house.db.all("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: house.db.all(f"SELECT * FROM {name}") for name in names}


def test_the_same_result_committed_twice_counts_once(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    done = house.done(job, data=["{}"])
    assert [len(house.commit(done).won) for _ in range(2)] == [1, 0]
    assert len(house.rows()) == 1


def test_a_failure_of_the_first_attempt_is_not_held_against_the_second(house: House) -> None:
    """The same node, the same job: only the lease tells them apart."""
    house.seed("http://a/1")
    (first,) = house.take("http://a/")
    house.commit(again(first))
    (second,) = house.take("http://a/")
    assert house.commit(failed(first)).won == frozenset()
    assert house.state(second.id) == "TAKEN"


@pytest.mark.parametrize("state", ["DEAD", "FAILED", "TERMINATED", "SHUTDOWN"])
def test_a_node_whose_epoch_is_over_writes_nothing(house: House, state: str) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    with house.db.transaction():
        house.db.execute("UPDATE nodes SET state = ?", (state,))
    before = _all_tables(house)
    with pytest.raises(Fenced, match="is over"):
        house.commit(house.done(job, data=["{}"], links=[Page("http://new/1")]))
    assert _all_tables(house) == before


@pytest.mark.parametrize("state", ["STARTING", "READY", "DONE", "STANDBY", "DRAINING"])
def test_a_living_node_may_write(house: House, state: str) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    with house.db.transaction():
        house.db.execute("UPDATE nodes SET state = ?", (state,))
    assert house.commit(house.done(job)).won == {job.id}


def test_in_a_mixed_group_only_results_whose_lease_holds_count(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, three = house.take("http://a/")
    with house.db.transaction():
        house.db.execute("UPDATE jobs SET state = 'READY', lease = NULL WHERE id = ?", (two.id,))
    group = [house.done(j, data=[f'"{j.id}"'], links=[Page(f"{j.url}/next")]) for j in (one, two, three)]
    assert house.commit(*group).won == {one.id, three.id}
    assert house.rows() == [(one.id, f'"{one.id}"'), (three.id, f'"{three.id}"')]
    assert {url for url, _ in house.jobs()} >= {"http://a/1/next", "http://a/3/next"}
    assert ("http://a/2/next", "READY") not in house.jobs()
    house.check_counters()


def test_release_names_the_reason_and_counts_crashes_where_there_was_one(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    house.take("http://a/")
    for crashed, crashes in ((True, 1), (False, 1), (True, 2)):
        with house.db.transaction():
            assert jobs.release(house.db, house.nodes[0], "n1 died", crashed=crashed) == 2
        assert house.jobs("crashes, reason, lease, attempts") == [(crashes, "n1 died", None, 0)] * 2
        house.take("http://a/")
    house.check_counters()


def test_release_leaves_the_jobs_of_others_alone(houses: Houses) -> None:
    house = houses(nodes_=2)
    house.seed("http://a/1", "http://a/2")
    (mine,) = house.take("http://a/", node=house.nodes[0], free=1)
    (other,) = house.take("http://a/", node=house.nodes[1], free=1)
    with house.db.transaction():
        assert jobs.release(house.db, house.nodes[0], "x", crashed=True) == 1
    assert (house.state(mine.id), house.state(other.id)) == ("READY", "TAKEN")


# Verdicts.


def test_a_redirect_moves_the_job_under_the_target_hosts_clock(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    told = house.commit(moved(job, "http://b/2"))
    b = house.sequence("http://b/2")
    assert told.ring == (b,)
    assert [c["ready"] for c in house.counted().values()] == [0, 1]
    (there,) = house.take("http://b/")
    assert (there.id, there.url, there.target, there.hops, there.attempts) == (job.id, "http://a/1", "http://b/2", 1, 0)
    house.check_counters()


def test_a_retry_keeps_its_target_and_its_document_and_adds_its_attempt(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    house.commit(replace(again(job), target="http://a/2", hops=1, page=7))
    (job,) = house.take("http://a/")
    assert (job.attempts, job.target, job.hops) == (1, "http://a/2", 1)
    house.commit(replace(house.done(job), hops=1, target="http://a/2"))
    assert house.jobs("attempts, document, target") == [(2, 7, "http://a/2")]


def test_the_reason_of_a_failure_is_kept_and_errors_are_counted_by_host(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    house.commit(failed(one, "HTTP 500"), again(two, 1100.0))
    assert house.jobs("state, reason") == [("FAILED", "HTTP 500"), ("READY", "timeout")]
    assert house.db.value("SELECT errors FROM hosts") == 2


def test_turned_away_records_are_counted_by_data_def(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    house.commit(house.done(one, data=["{}"], rejected=(("book", 2), ("other", 1))), house.done(two, data=["{}"]))
    assert rows.counts(house.db, house.run) == {"book": (2, 2), "other": (0, 1)}


# Documents.


@pytest.fixture
def pages(house: House) -> Pages:
    return Pages(house.folder)


def test_a_document_answers_for_its_url_and_for_those_redirected_to_it(house: House, pages: Pages) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    page = document("http://a/3", b"<p>three</p>", came_by=["http://a/1", "http://a/2"])
    (id_,) = pages.add([page])
    house.commit(replace(house.done(job), document=page, page=id_))
    keys = [document_key(f"http://a/{i}") for i in (1, 2, 3, 4)]
    found = documents.stored(house.db, house.run, keys, float("inf"))
    assert {key: s.page for key, s in found.items()} == dict.fromkeys(keys[:3], id_)
    assert found[keys[0]].url == "http://a/3"
    assert pages.read(id_) == b"<p>three</p>"
    assert house.jobs("document") == [(id_,)]
    stored = house.db.one("SELECT size, digest, status, content_type FROM documents")
    assert stored == (12, documents.digest(b"<p>three</p>"), 200, "text/html")


def test_of_two_documents_the_newer_answers_and_another_runs_only_while_fresh_and_good(
    house: House, pages: Pages
) -> None:
    url, key = "http://a/1", document_key("http://a/1")
    told = [document(url, b"1", at=10.0), document(url, b"2", at=30.0), document(url, b"3", at=20.0)]
    with house.db.transaction():
        documents.add(house.db, house.run, list(zip(pages.add(told), told, strict=True)))

    def find(run: int, since: float) -> StoredPage | None:
        return documents.stored(house.db, run, [key], since).get(key)

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


def test_the_document_of_a_lost_lease_is_swept_and_no_other(house: House, pages: Pages) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    told = [document(f"http://a/{i}", str(i).encode()) for i in range(5)]
    ids = pages.add(told)
    house.commit(replace(house.done(job), document=told[2], page=ids[2]))
    assert pages.sweep(house.db, batch=2) == 4
    assert [pages.read(i) for i in ids] == [None, None, b"2", None, None]
    assert pages.sweep(house.db) == 0


def test_bodies_come_back_in_the_order_they_were_given(pages: Pages) -> None:
    told = [document(f"http://a/{i}", str(i).encode()) for i in range(150)]
    ids = pages.add(told)
    assert [pages.read(i) for i in ids] == [d.body for d in told]
    assert pages.read(ids[-1] + 1) is None


def test_a_key_is_asked_for_many_at_once(house: House, pages: Pages) -> None:
    told = [document(f"http://a/{i}") for i in range(100)]
    with house.db.transaction():
        documents.add(house.db, house.run, list(zip(pages.add(told), told, strict=True)))
    keys = [document_key(f"http://a/{i}") for i in range(200)]
    assert len(documents.stored(house.db, house.run, keys, 0.0)) == 100
    assert documents.stored(house.db, house.run, [], 0.0) == {}


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


# A part that cannot be written.


def _unwritable(house: House, job: LeasedJob, how: str) -> Finished:
    match how:
        case "row":
            return house.done(job, data=['{"title":"\ud800"}'], links=[Page("http://never/1")])
        case "event":
            return house.done(job, events=(Event(1.0, "INFO", "n1", "page", "\udfff", job.id),))
        case "reason":
            return failed(job, "no such page: \udc80")
        case "number":
            return replace(house.done(job), page=2**70)
        case "level":
            return house.done(job, events=(Event(1.0, "LOUD", "n1", "page", "x", job.id),))  # type: ignore[arg-type]
        case "document":
            return replace(house.done(job), document=replace(document("http://a/x"), url="\ud800"), page=1)
        case "link":
            bad = child(Page("http://a/9"))._replace(url="http://a/\ud800")
            return replace(house.done(job), children=(bad,))
    raise AssertionError(how)


@pytest.mark.parametrize("how", ["row", "event", "reason", "number", "level", "document", "link"])
def test_one_result_that_cannot_be_stored_fails_alone(house: House, how: str) -> None:
    house.seed(*[f"http://a/{i}" for i in range(4)])
    one, bad, two, back = house.take("http://a/")
    group = [
        house.done(one, data=['"one"'], links=[Page("http://b/1"), Page("http://c/1")]),
        _unwritable(house, bad, how),
        house.done(two, data=['"two"'], links=[Page("http://b/2")]),
        again(back, 1009.0),
    ]
    told = house.commit(*group)
    assert told.won == {one.id, bad.id, two.id, back.id}
    states = dict(house.jobs("id, state"))
    assert [states[j.id] for j in (one, bad, two, back)] == ["DONE", "FAILED", "DONE", "READY"]
    reason = house.db.value("SELECT reason FROM jobs WHERE id = ?", (bad.id,))
    assert reason.startswith("its result cannot be stored: ")
    assert house.rows() == [(one.id, '"one"'), (two.id, '"two"')]
    assert {u for u, _ in house.jobs()} == {f"http://a/{i}" for i in range(4)} | {
        "http://b/1", "http://b/2", "http://c/1",
    }  # fmt: skip
    ((_, event),) = events.after(house.db, house.run, 0, 9)
    assert (event.level, event.job, event.text) == ("ERROR", bad.id, reason)
    assert house.db.value("SELECT errors FROM hosts") == 1, "the retried one's, and no other"
    house.check_counters()


def test_what_an_unwritable_result_would_have_made_is_not_remembered_as_there(house: House) -> None:
    """The host it named was rolled back: the next job that names it must make it."""
    house.seed("http://a/1", "http://a/2")
    bad, good = house.take("http://a/")
    house.commit(replace(_unwritable(house, bad, "event"), children=(child(Page("http://b/1")),)))
    assert house.db.all("SELECT key FROM hosts") == [("a:80",)]
    house.commit(house.done(good, links=[Page("http://b/2")]))
    assert [j.url for j in house.take("http://b/")] == ["http://b/2"]
    house.check_counters()


def test_an_unwritable_result_of_a_lost_lease_fails_nobodys_job(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    old, other = house.take("http://a/")
    house.commit(again(old))
    (new,) = house.take("http://a/")
    assert house.commit(_unwritable(house, old, "reason"), house.done(other)).won == {other.id}
    assert house.state(new.id) == "TAKEN"


def test_several_unwritable_results_fail_and_all_others_are_kept(house: House) -> None:
    house.seed(*[f"http://a/{i}" for i in range(6)])
    taken = house.take("http://a/")
    hows = ["row", "number", "link"]
    group = [_unwritable(house, j, hows[i // 2]) if i % 2 else house.done(j) for i, j in enumerate(taken)]
    house.commit(*group)
    assert [s for _, s in house.jobs()] == ["DONE", "FAILED"] * 3
    house.check_counters()


# A database that cannot be written now.


def test_a_locked_database_keeps_the_group_for_another_try(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    hurried = Database.open(house.folder / CRAWL, durable=False, busy_seconds=0.05)
    done = house.done(job, data=["{}"], links=[Page("http://b/1")])
    before = _all_tables(house)
    with house.db.transaction(), pytest.raises(Busy, match="locked"):
        commit(hurried, house.nodes[0], house.run, [done], house.places, house.now)
    assert _all_tables(house) == before
    assert commit(hurried, house.nodes[0], house.run, [done], house.places, house.now).won == {job.id}
    hurried.close()
    assert len(house.jobs()) == 2


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("room", [1, 5, 40])
def test_a_full_disk_keeps_the_group_and_fails_nothing(house: House, apart: bool, room: int) -> None:
    """A job that cannot be written beside it does not change that: full means try again, not failed."""
    house.seed("http://a/1", "http://a/2")
    one, bad = house.take("http://a/")
    large = house.done(one, data=['"' + "x" * 1_000_000 + '"'], links=[Page(f"http://b/{i}") for i in range(200)])
    group = [_unwritable(house, bad, "row"), large] if apart else [large]
    before = _all_tables(house)
    full = int(house.db.value("PRAGMA page_count")) + room
    house.db.execute("PRAGMA cache_size = 10")
    house.db.execute(f"PRAGMA max_page_count = {full}")
    with pytest.raises(Busy, match="full"):
        house.commit(*group)
    assert _all_tables(house) == before
    house.db.execute("PRAGMA max_page_count = 1000000")
    assert one.id in house.commit(*group).won
    assert house.state(one.id) == "DONE"
    assert house.state(bad.id) == ("FAILED" if apart else "TAKEN")
    assert len(house.rows()) == 1
    house.check_counters()


def test_a_commit_waits_for_another_writer(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    other = Database.open(house.folder / CRAWL, durable=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    timer.start()
    assert house.commit(house.done(job)).won == {job.id}
    timer.join()
    other.close()


def test_a_run_is_open_while_any_job_is(house: House) -> None:
    house.seed("http://a/1")
    assert jobs.any_open(house.db, house.run)
    (job,) = house.take("http://a/")
    assert jobs.any_open(house.db, house.run)
    house.commit(again(job, 1005.0))
    assert jobs.any_open(house.db, house.run), "waiting is open"
    with house.db.transaction():
        jobs.promote(house.db, house.run, 1005.0)
    (job,) = house.take("http://a/")
    house.commit(Finished(job=job, state=JobState.INCOMPLETE, reason="cancelled"))
    assert jobs.any_open(house.db, house.run), "it is to be resumed"
    with house.db.transaction():
        jobs.resume(house.db, house.run)
    house.finish_all("http://a/")
    assert not jobs.any_open(house.db, house.run)
    assert not jobs.any_open(house.db, house.run + 1)


def test_an_open_robots_job_keeps_the_run_open_too(house: House) -> None:
    house.places = house.new_places({"a:80": Manners(0.0, 8, True)})
    house.place("http://a/")
    assert jobs.any_open(house.db, house.run)
    assert sequences.total(house.db, house.run, "ready") == 0, "but it is no page"


def test_the_first_living_backup_is_the_lowest_numbered(house: House) -> None:
    one, two = house.node(Role.BACKUP_RUNNER), house.node(Role.BACKUP_RUNNER)
    assert nodes.first_backup(house.db, house.run) == (one, 2)
    with house.db.transaction():
        nodes.move(house.db, one, NodeState.DEAD)
    assert nodes.first_backup(house.db, house.run) == (two, 3)
    assert nodes.runners(house.db, house.run) == 1
    with house.db.transaction():
        nodes.set_role(house.db, two, Role.RUNNER)
    assert nodes.first_backup(house.db, house.run) is None
    assert nodes.runners(house.db, house.run) == 2
