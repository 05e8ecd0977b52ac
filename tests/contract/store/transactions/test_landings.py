"""Of the pages at the target of redirects one job has the rows, the first by number, in whatever order they end."""

import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_console.filter_syntax import parse
from crawl_engine.model.definition import TaskGroup
from crawl_engine.model.job import HostPlan, JobState, LeasedJob, document_key, landing_key, link_key
from crawl_engine.model.link import Carried
from crawl_engine.model.node import Role
from crawl_engine.store.tables.job import extracts, jobs
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import landings
from crawl_engine.store.tables.run.landings import Landed
from crawl_engine.store.transactions import lease
from crawl_engine.store.transactions.retry import retry
from tests.contract.store.harness import Page, StoreHarness, again, document
from tests.unit.node.leased_jobs import change

TARGET = "http://a/front"


def landed_at(url: str, **more: Any) -> Landed:
    return Landed(landing_key("g", document_key(url)), link_key("g", url), **more)


def redirected(store: StoreHarness, job: LeasedJob, target: str = TARGET, **more: Any) -> JobOutcome:
    data = [f'{{"title":"{target}"}}']
    return store.done(job, landed_at(target, **more), data=data, hops=1, target=target)


def own(store: StoreHarness, job: LeasedJob, **more: Any) -> JobOutcome:
    return store.done(job, document(job.url), data=[f'{{"title":"{job.url}"}}'], page=job.id, **more)


def states(store: StoreHarness) -> list[tuple[str, str | None]]:
    return store.jobs("state, reason")


def has_rows(store: StoreHarness) -> list[int]:
    return [job for job, _ in store.rows()]


SKIPPED, LED_TO = ("SKIPPED", "redirects to a page of this run"), ("SKIPPED", "a page of this run redirects to it")


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_first_number_has_the_row(store: StoreHarness, order: tuple[int, ...], together: bool) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    taken = store.take("http://a/")
    outcomes = [redirected(store, taken[at]) for at in order]
    for batch in [outcomes] if together else [[outcome] for outcome in outcomes]:
        store.commit(*batch)
        store.check_counters()
        store.check_sums()
    assert states(store) == [("DONE", None), SKIPPED, SKIPPED]
    assert has_rows(store) == [taken[0].id]
    assert store.row_counts() == {"book": (1, 0)}


def test_a_lease_that_fails_in_the_same_commit_changes_nothing(
    store: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such request")

    store.seed("http://a/1", TARGET, "http://a/3")
    first, second = store.take("http://a/", free=2)
    monkeypatch.setattr(lease, "to_leased_job", broken)
    store.commit(redirected(store, first), own(store, second), free=2)
    assert states(store) == [("DONE", None), LED_TO, ("READY", None)]
    found = store.db.all("SELECT job, redirected, kept FROM landings ORDER BY job")
    assert found == [(first.id, 1, 1), (second.id, 0, 0)]


def test_the_target_keeps_its_row_if_that_of_the_redirected_page_cannot_be_stored(store: StoreHarness) -> None:
    store.seed("http://a/1", TARGET)
    first, second = store.take("http://a/")
    bad = store.done(first, landed_at(TARGET), data=['{"title":"\ud800"}'], hops=1, target=TARGET)
    store.commit(bad, own(store, second))
    assert [state for state, _ in states(store)] == ["FAILED", "DONE"]
    assert has_rows(store) == [second.id]


@pytest.mark.parametrize("own_is_first", [True, False])
@pytest.mark.parametrize("comes_first", ["own", "redirected", "both"])
def test_the_job_of_the_target_counts_by_its_number(store: StoreHarness, own_is_first: bool, comes_first: str) -> None:
    store.seed(*((TARGET, "http://a/1") if own_is_first else ("http://a/1", TARGET)))
    taken = {job.url: job for job in store.take("http://a/")}
    ends = [own(store, taken[TARGET]), redirected(store, taken["http://a/1"])]
    for batch in {"own": [ends[:1], ends[1:]], "redirected": [ends[1:], ends[:1]], "both": [ends]}[comes_first]:
        store.commit(*batch)
    assert states(store) == [("DONE", None), SKIPPED if own_is_first else LED_TO]
    assert has_rows(store) == [min(job.id for job in taken.values())]
    store.check_counters()
    store.check_sums()


def test_a_job_that_a_link_makes_later_is_led_to(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(redirected(store, one))
    store.commit(store.done(two, links=[Page(TARGET)]))
    (late,) = store.take("http://a/")
    store.commit(own(store, late))
    assert states(store)[2] == LED_TO
    assert has_rows(store) == [one.id]


def test_jobs_with_values_of_their_own_keep_their_rows_and_are_no_one_s_first(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, three = store.take("http://a/")
    carried = Carried(values={"seed.sku": "1"}).to_json()
    store.db.execute("UPDATE jobs SET carried = ? WHERE id = ?", (carried, one.id))
    one = change(one, carried=carried)
    store.commit(redirected(store, three), redirected(store, one, has_values=True), redirected(store, two))
    assert states(store) == [("DONE", None), ("DONE", None), SKIPPED]
    assert sorted(has_rows(store)) == [one.id, two.id]


def test_a_group_may_skip_targets_that_nothing_leads_to(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/known")
    plan = HostPlan(group=TaskGroup(name="g", redirects="linked"))
    one, two, known = (job._replace(plan=plan) for job in store.take("http://a/"))
    store.commit(redirected(store, one, has_values=True), redirected(store, two, known.url), own(store, known))
    unlinked = "redirects to a page that no link of the group leads to"
    assert states(store) == [("SKIPPED", unlinked), ("DONE", None), LED_TO]
    assert has_rows(store) == [two.id]


def test_a_page_that_is_skipped_still_leads_on(store: StoreHarness) -> None:
    """It may be nearer to its locator than the page with the rows, whose links were too deep."""
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(redirected(store, one))
    store.commit(
        replace(redirected(store, two), effects=store.done(two, landed_at(TARGET), links=[Page("http://a/9")]).effects)
    )
    assert [url for url, _ in store.jobs()] == ["http://a/1", "http://a/2", "http://a/9"]


def test_rows_are_not_skipped_for_a_page_whose_lease_was_lost(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(redirected(store, one._replace(lease=1)), redirected(store, two))
    assert states(store) == [("TAKEN", None), ("READY", None)], "it is worked again, from the target"
    assert store.jobs("target")[1] == (TARGET,)
    (again_two,) = store.take("http://a/")
    store.commit(redirected(store, again_two))
    assert has_rows(store) == [two.id]
    store.commit(redirected(store, one))
    assert (states(store), has_rows(store)) == ([("DONE", None), SKIPPED], [one.id])


def test_a_re_extraction_of_a_page_whose_rows_are_taken_back_is_dropped(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(redirected(store, two))
    with store.db.transaction():
        extracts.queue(store.db, [two.id])
    store.commit(redirected(store, one))
    assert store.jobs("id, state") == [(one.id, "DONE"), (two.id, "SKIPPED")]
    store.check_counters()


def test_a_retry_of_the_first_one_has_the_next_one_worked_again(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, three = store.take("http://a/")
    store.commit(*(redirected(store, job) for job in (one, two, three)))
    assert retry(store.db, store.run, parse("state:done http://a/1$")) == 2
    back = {job.id: job for job in store.take("http://a/")}
    assert set(back) == {one.id, two.id}
    store.commit(own(store, back[one.id]))
    store.commit(redirected(store, back[two.id]))
    assert states(store) == [("DONE", None), ("DONE", None), SKIPPED]
    assert has_rows(store) == [one.id, two.id]


def test_many_pages_that_redirect_to_one_are_told(store: StoreHarness) -> None:
    store.seed(*(f"http://a/{number}" for number in range(12)))
    store.commit(*(redirected(store, job) for job in store.take("http://a/")))
    assert landings.list_crowded(store.db, store.run) == [landings.CrowdedPage(TARGET, "g", 11)]


@pytest.mark.parametrize("seed", range(3))
def test_pages_in_any_order_with_retries_and_dead_nodes(store: StoreHarness, seed: int) -> None:
    rng = random.Random(seed)
    targets = ["http://a/t0", "http://a/t1", "http://a/t2"]
    urls = [f"http://a/{number}" for number in range(14)]
    leads = {url: rng.choice([*targets, None]) for url in urls}
    seeds = [*urls, targets[0]]
    rng.shuffle(seeds)
    store.seed(*seeds)
    linking = rng.choice(urls)
    lost: list[JobOutcome] = []
    for step in range(300):
        outcomes = []
        for job in store.take("http://a/", free=rng.randint(1, 5)):
            target = leads.get(job.url)
            end = own(store, job) if target is None else redirected(store, job, target)
            if job.url == linking:
                end.add(*store.done(job, links=[Page(targets[1])]).effects)
            outcomes.append(again(job) if rng.random() < 0.2 else end)
        rng.shuffle(outcomes)
        if outcomes and rng.random() < 0.2:
            store.nodes[0] = store.node(Role.RUNNER)  # the jobs of the dead one are leased again
            lost += outcomes
            with store.db.transaction():
                jobs.release_all(store.db, store.run, "died")
        elif outcomes:
            cut = rng.randint(0, len(outcomes))
            for part in (outcomes[:cut] + (lost if rng.random() < 0.5 else []), outcomes[cut:]):
                if part:
                    store.commit(*part)
        if step < 60 and rng.random() < 0.2:
            retry(store.db, store.run, parse(f"state:{rng.choice(['done', 'skipped'])} http://a/{rng.choice('123t')}"))
        store.check_counters()
        store.check_sums()
        if not jobs.has_open_jobs(store.db, store.run):
            break
    assert not jobs.has_open_jobs(store.db, store.run)
    ids = {url: id_ for id_, url in store.jobs("id, url")}
    first: dict[str, int] = {}
    for url, id_ in ids.items():
        at = leads.get(url) or url
        first[at] = min(id_, first.get(at, id_))
    assert Counter(store.rows()) == Counter((id_, f'{{"title":"{at}"}}') for at, id_ in first.items())
    skipped = {url for url, state in store.jobs() if state == JobState.SKIPPED}
    assert skipped == {url for url, id_ in ids.items() if id_ not in first.values()}


def test_a_commit_that_fails_decides_again(store: StoreHarness) -> None:
    """Of a group that cannot be written as one, each page is written alone."""
    store.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, three = store.take("http://a/")
    broken = store.done(one, landed_at(TARGET), data=['{"title":"\ud800"}'], hops=1, target=TARGET)
    store.commit(broken, redirected(store, three), redirected(store, two))
    assert states(store)[1:] == [("DONE", None), SKIPPED]
    assert store.state(one.id) == "FAILED"
    assert has_rows(store) == [two.id]


def test_another_document_of_the_url_is_another_page(store: StoreHarness) -> None:
    """The job of the target has headers of its own: another document, another page."""
    store.seed("http://a/1")
    headers = '{"method":"GET","headers":[["Accept","text/plain"]],"cookies":[],"body":null,"content_type":null}'
    store.seed(TARGET, name="other", request=headers)
    one, front = store.take("http://a/")
    other = replace(document(TARGET), keys=(document_key(TARGET, variant="x"),))
    store.commit(store.done(front, other, data=['{"title":"other"}'], page=front.id))
    store.commit(redirected(store, one))
    assert [state for state, _ in states(store)] == ["DONE", "DONE"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("together", [True, False])
def test_a_page_with_a_failed_step_counts_as_any_other(store: StoreHarness, first: bool, together: bool) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    outcomes = [redirected(store, job) for job in store.take("http://a/")]
    outcomes[0 if first else 1].state = JobState.FAILED
    for batch in [outcomes] if together else [[outcome] for outcome in outcomes]:
        store.commit(*batch)
    kept = "FAILED" if first else "DONE"
    assert [state for state, _ in states(store)] == [kept, "SKIPPED", "SKIPPED"]
    assert has_rows(store) == [outcomes[0].job.id]
    assert retry(store.db, store.run, parse(f"state:{kept.lower()}")) == 2, "another one may take its place"
    assert [state for state, _ in states(store)] == ["READY", "READY", "SKIPPED"]
