"""The sums of rows and documents are exact after every commit, retry and re-extraction, in any order."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from crawl_console.filter_syntax import parse
from crawl_engine.model.job import JobState, document_key
from crawl_engine.store.pages import documents
from crawl_engine.store.tables.outcome import Effect
from crawl_engine.store.tables.row import content_sums
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.transactions.retry import retry
from tests.contract.store.harness import StoreHarness, document, failed, unwritable
from tests.contract.store.shop import Shop, defs

NewStore = Callable[..., StoreHarness]


def read(store: StoreHarness) -> dict[str, tuple[int, int]]:
    """By group: documents and rows of the sums, which must be exact."""
    store.check_sums()
    return {group: (s.documents, s.rows) for group, s in content_sums.list_sums(store.db, store.run).items()}


def test_a_commit_adds_the_rows_and_documents_of_each_group(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    store.seed("http://a/3", group="h")
    one, two = store.take("http://a/")
    (three,) = store.take("http://a/", "h")
    store.commit(
        store.done(one, document("http://a/1"), data=["{}", '{"title":"é"}'], page=1),
        store.done(three, document("http://a/3"), data=["{}"], page=2),
        failed(two),
    )
    assert read(store) == {"g": (1, 2), "h": (1, 1)}


def test_equal_rows_count_each_time_and_in_any_order(new_store: NewStore) -> None:
    sums = []
    for rows in (["1", "2", "2"], ["2", "1", "2"], ["1", "2"]):
        store = new_store()
        store.seed("http://a/1")
        (job,) = store.take("http://a/")
        store.commit(store.done(job, data=rows))
        assert read(store) == {"g": (0, len(rows))}
        sums.append(content_sums.list_sums(store.db, store.run)["g"].row_sum)
    assert sums[0] == sums[1] != sums[2]


def test_the_name_of_the_data_def_and_url_and_status_of_a_document_count(store: StoreHarness) -> None:
    one = document("http://a/1")
    digests = {one.digest, replace(one, url="http://a/2").digest, replace(one, status=404).digest}
    assert len(digests | {document("http://a/1", b"other").digest}) == 4
    store.seed("http://a/1", "http://a/2")
    first, second = store.take("http://a/")
    store.commit(store.done(first, data=["{}"]))
    store.commit(store.done(second, NewRows("other", store.book, ("{}",))))
    assert len({row[0] for row in store.db.all("SELECT digest FROM rows")}) == 2


def test_a_large_row_has_the_digest_of_its_text(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    text = '{"title":"' + "x" * 70_000 + '"}'
    large = NewRows("book", store.book, (memoryview(text.encode()), text))  # type: ignore[arg-type]
    store.commit(store.done(job, large))
    assert read(store) == {"g": (0, 2)}


def test_a_document_used_by_jobs_of_two_groups_counts_in_each(store: StoreHarness) -> None:
    store.seed("http://a/1")
    store.seed("http://a/1", group="h")
    (one,) = store.take("http://a/")
    store.commit(store.done(one, document("http://a/1"), page=7))
    (two,) = store.take("http://a/", "h")
    store.commit(store.done(two, page=7))
    assert read(store) == {"g": (1, 0), "h": (1, 0)}


def test_a_retried_job_takes_its_rows_back_and_its_old_document_when_it_has_a_new_one(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(
        store.done(one, document("http://a/1"), data=["{}"], page=1),
        store.done(two, document("http://a/2"), data=["{}"], page=2),
    )
    assert retry(store.db, store.run, parse("state:done /1")) == 1
    assert read(store) == {"g": (2, 1)}
    (again,) = store.take("http://a/")
    changed = document("http://a/1", b"<p>new</p>")
    store.commit(store.done(again, changed, data=["{}", "{}"], page=3))
    assert read(store) == {"g": (2, 3)}


def test_damaged_rows_are_taken_back_as_they_were_added(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(store.done(job, data=["{}"]))
    with store.db.transaction():
        store.db.execute("UPDATE rows SET data = 'damaged'")
    retry(store.db, store.run, parse("state:done"))
    assert read(store) == {"g": (0, 0)}


def test_a_re_extraction_replaces_the_rows_of_changed_data_defs(store: StoreHarness) -> None:
    shop = Shop(store, pages=3)
    assert read(store) == {"g": (3, 6)}
    shop.publish(defs("title", "price"))
    shop.queue()
    store.commit(*map(shop.extracted, shop.lease().jobs))
    assert read(store) == {"g": (3, 6)}


@pytest.mark.parametrize("how", ["row", "event", "document", "link"])
def test_an_outcome_that_cannot_be_written_adds_nothing(store: StoreHarness, how: str) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(unwritable(store, one, how), store.done(two, document("http://a/2"), data=["{}"], page=2))
    assert store.state(one.id) == "FAILED"
    assert read(store) == {"g": (1, 1)}


def test_a_lost_lease_and_a_second_outcome_add_nothing(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    stale = store.done(job._replace(lease=999), document("http://a/1"), data=["{}"], page=1)
    store.commit(stale)
    assert read(store) == {}
    store.commit(
        store.done(job, document("http://a/1"), data=["{}"], page=2),
        store.done(job, document("http://a/1"), data=["{}"], page=3),
    )
    assert read(store) == {"g": (1, 1)}


steps = st.lists(
    st.tuples(
        st.sampled_from(["fetch", "fetch", "reuse", "fail", "retry", "publish", "extract", "lose"]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_any_order_of_commits_retries_and_re_extractions(listed: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = StoreHarness(Path(folder))
        try:
            _Steps(store).play(listed)
        finally:
            store.close()


class _Steps:
    """Plays random steps on pages of two groups, and compares the sums after each."""

    def __init__(self, store: StoreHarness) -> None:
        self.store, self.shop = store, Shop(store, pages=1)
        self.pages = 100

    def play(self, listed: list[tuple[str, int, int]]) -> None:
        for step, number, rows in listed:
            getattr(self, f"_{step}")(number, rows)
            self.store.check_sums()
            self.store.check_counters()

    def _fetch(self, number: int, rows: int, *effects: Effect) -> None:
        group, url = ("g", "h")[number % 2], f"http://a/{number}"
        self.store.seed(url, group=group)
        self.pages += 1
        outcomes = []
        for job in self.store.take(url, group):
            self.pages += 1
            data = [f'{{"n":{i % 2}}}' for i in range(rows)]
            content = document(job.url, f"<p>{self.pages % 3}</p>".encode())
            outcomes.append(self.store.done(job, content, *effects, data=data, page=self.pages))
        self.store.commit(*outcomes)

    def _reuse(self, number: int, rows: int) -> None:
        url = f"http://a/{number}"
        stored = documents.list_stored(self.store.db, self.store.run, [document_key(url)], 0.0)
        self.store.seed(url, group="h", name="again")
        for job in self.store.take(url, "h"):
            page = next((of_key[-1].page for of_key in stored.values()), None)
            self.store.commit(self.store.done(job, data=["{}"] * rows, page=page))

    def _fail(self, number: int, _: int) -> None:
        self.store.seed(f"http://a/{number}", group="g")
        for job in self.store.take(f"http://a/{number}", "g"):
            self.pages += 1
            kept = document(job.url, b"HTTP 500")
            self.store.commit(replace(failed(job).add(replace(kept, keys=())), page=self.pages))

    def _retry(self, number: int, _: int) -> None:
        retry(self.store.db, self.store.run, parse(f"state:done,failed,skipped /{number}$"))

    def _publish(self, number: int, _: int) -> None:
        self.shop.publish(defs("title", *[f"f{i}" for i in range(number)]))

    def _extract(self, _: int, rows: int) -> None:
        self.shop.queue()
        if not self.store.db.value("SELECT count(*) FROM sequences WHERE kind = 'extract'"):
            return
        for job in self.shop.lease().jobs:
            outcome = self.shop.extracted(job)
            self.store.commit(outcome if rows else replace(outcome, state=JobState.FAILED, effects=()))

    def _lose(self, number: int, rows: int) -> None:
        self.store.seed(f"http://a/{number}", group="h")
        for job in self.store.take(f"http://a/{number}", "h"):
            self.pages += 1
            lost = self.store.done(job._replace(lease=7), data=["{}"] * rows, page=self.pages)
            self.store.commit(lost)
            self.store.commit(failed(job))
