"""What one of many hosts lacks is seen, though the others hide it in the sums of the dataDef."""

import pytest
from msgspec.structs import replace

from crawl_engine.model.definition import Task, TaskGroup
from crawl_engine.model.record import RecordCounts
from crawl_engine.store.read import host_rows
from crawl_engine.store.read.data_warnings import find_warnings
from crawl_engine.store.tables.row import health
from crawl_engine.store.tables.row.health import PageCounts
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.supervise.analysis import health_watch
from crawl_engine.supervise.analysis.health_watch import HealthWatch
from tests.contract.store.harness import DEFS, StoreHarness


class Sites:
    """A run of several hosts with one dataDef, whose pages have one record each."""

    def __init__(self, store: StoreHarness, count: int) -> None:
        group = TaskGroup(name="g", tasks=(Task(name="t", data_def="book"),))
        with store.db.transaction():
            version = versions.publish(store.db, replace(DEFS, task_groups=(group,)), 1.0)
            runs.set_version(store.db, store.run, version)
        self.store, self.count, self.page = store, count, 0
        self.watch = HealthWatch(store.context())

    def crawl(self, pages: int, *lacking: int) -> list[tuple[str | None, str, bool]]:
        """Pages of each host; those of some lack the price. Returns the warnings about it: host, text, ended."""
        answered = set[int]()
        for _ in range(pages):
            self.page += 1
            for number in range(self.count):
                url = f"http://h{number}/{self.page}"
                self.store.seed(url)
                (job,) = self.store.take(url)
                answered.add(job.host)
                counts = RecordCounts(1, 0, (("price", int(number in lacking)), ("title", 0)))
                self.store.commit(self.store.done(job, PageCounts(self.store.book, counts)))
            if not self.page % 5:
                self.watch.update(sorted(answered))
        run = runs.get(self.store.db, self.store.run)
        found = find_warnings(self.store.db, run, health.read(self.store.db, self.store.run))
        return [(one.host, one.text, one.ended) for one in found if one.code == "dropped-field"]


@pytest.fixture(autouse=True)
def compares_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "_HOSTS_SECONDS", 0.0)
    monkeypatch.setattr(health_watch, "_COST_SHARE", 1e9)


def test_one_of_sixteen_sites_is_redesigned_and_repaired(store: StoreHarness) -> None:
    sites = Sites(store, 16)
    assert sites.crawl(30) == []
    text = "book.price on h5:80 was filled in 100% of the records, and is empty since its page 31; {}% in all"
    assert sites.crawl(40, 5) == [("h5:80", text.format(43), False)]
    whole = health.read(store.db, store.run)["book"]
    assert whole.filled["price"] / whole.records > 0.9, "the sums hide it"
    [(host, text, ended)] = sites.crawl(60)
    assert (host, text[:11], ended) == ("h5:80", "recovered: ", True)


def test_a_resume_heals_no_field(store: StoreHarness) -> None:
    sites = Sites(store, 16)
    sites.crawl(30)
    lost = sites.crawl(40, 5)
    assert [(host, ended) for host, _, ended in lost] == [("h5:80", False)]
    sites.watch = HealthWatch(store.context())
    assert sites.crawl(60, 5) == lost, "the good pages of others say nothing of this host"
    [(host, text, ended)] = sites.crawl(60)
    assert (host, text, ended) == ("h5:80", f"recovered: {lost[0][1]}", True)


@pytest.mark.parametrize("lacking", [(0, 1, 2, 3), tuple(range(9))])
def test_a_resume_heals_no_field_of_many_hosts(store: StoreHarness, lacking: tuple[int, ...]) -> None:
    sites = Sites(store, 9)
    sites.crawl(70)
    [(host, text, ended)] = sites.crawl(40, *lacking)
    assert (host, ended) == (None, False)
    for _ in range(2):
        sites.watch = HealthWatch(store.context())
        [(host, now, ended)] = sites.crawl(30, *lacking)
        assert (host, now.partition(";")[0], ended) == (None, text.partition(";")[0], False)
    [ended] = {ended for _, _, ended in sites.crawl(90)}
    assert ended


def test_a_site_that_never_gave_a_field_is_named_beside_others_that_do(store: StoreHarness) -> None:
    text = "book.price was never filled on h1:80, in 30 records; elsewhere in 100%"
    assert Sites(store, 4).crawl(30, 1) == [("h1:80", text, False)]


def test_many_sites_are_one_warning_and_all_of_them_that_of_the_data_def(store: StoreHarness) -> None:
    sites = Sites(store, 9)
    sites.crawl(70)
    [(host, text, _)] = sites.crawl(30, 0, 1, 2, 3)
    assert (host, text) == (None, "book.price is empty on 4 hosts: h0:80, h1:80, h2:80 and 1 more")
    [(host, text, _)] = sites.crawl(60, *range(9))
    assert host is None
    assert text.startswith("book.price was filled in ")


def test_the_counts_of_a_host_move_with_its_pages(store: StoreHarness) -> None:
    sites = Sites(store, 2)
    sites.crawl(3, 1)
    counts = {row.host: (row.records, row.rejected) for row in host_rows.list_hosts(store.db, store.run, 9, 2)}
    assert counts == {"h0:80": (3, 0), "h1:80": (3, 0)}
    jobs = "[" + ",".join(str(row[0]) for row in store.db.all("SELECT id FROM jobs")) + "]"
    with store.db.transaction():
        health.take_back(store.db, store.run, jobs, "[]")
    assert store.db.value("SELECT total(abs(pages) + abs(records) + abs(rejected)) FROM host_health") == 0
