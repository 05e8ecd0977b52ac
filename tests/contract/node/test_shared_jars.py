"""Nodes that share the cookies of a site through the store: no cookie is lost."""

from collections.abc import Callable, Iterator

import pytest
from multidict import CIMultiDict

from crawl_engine.http.cookies import SessionCookies
from crawl_engine.http.exchange import OutgoingRequest
from crawl_engine.model.definition import Definitions
from crawl_engine.model.host import HostRule
from crawl_engine.model.job import LeasedJob
from crawl_engine.node.def_cache import DefCache
from crawl_engine.node.requests.shared_jars import SharedJars
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.host.cookie_jars import CookiesChanged
from crawl_engine.store.tables.run import runs, versions
from tests.contract.store.harness import StoreHarness, traced
from tests.unit.node.contexts import node_context

NewStore = Callable[..., StoreHarness]


class Node:
    """A node as far as cookies go."""

    def __init__(self, store: StoreHarness, epoch: int) -> None:
        self.store, self.epoch = store, epoch
        self.cookies = SessionCookies()
        self.db = connect(store.folder / CRAWL, busy_seconds=5)
        cache = DefCache(self.db, Settings(), store.run)
        self.jars = SharedJars(node_context(run=store.context().row, epoch=epoch, def_cache=cache), self.cookies)

    def receive(self, *set_cookies: str) -> None:
        self.cookies.extract_cookies(_request(), set_cookies)

    def commit(self, job: LeasedJob) -> None:
        """Commit a page whose answer changed the cookies."""
        outcome = self.store.done(job, *[CookiesChanged(self.jars.jar("shop.example")) for _ in range(2)])
        self.store.commit(outcome, node=self.epoch)

    def load(self, job: LeasedJob) -> None:
        self.jars.load(self.db, [job])

    @property
    def sends(self) -> set[str]:
        request = _request()
        self.cookies.set_cookie_header(request)
        return set(filter(None, request.headers.get("Cookie", "").split("; ")))


def _request() -> OutgoingRequest:
    return OutgoingRequest("GET", "https://shop.example/x", CIMultiDict(), b"")


@pytest.fixture
def store(new_store: NewStore) -> StoreHarness:
    store = new_store(nodes_=3)
    with store.db.transaction():
        rules = (HostRule(name="shop.example", cookie_jar="shared"),)
        runs.set_version(store.db, store.run, versions.publish(store.db, Definitions(hosts=rules), 0.0))
    store.seed(*[f"https://shop.example/{n}" for n in range(20)])
    return store


@pytest.fixture
def jobs(store: StoreHarness) -> Iterator[LeasedJob]:
    def take() -> Iterator[LeasedJob]:
        while True:
            yield store.take("https://shop.example/", free=1, node=store.nodes[0])[0]

    return take()


def test_two_nodes_that_finish_at_once_lose_no_cookie(store: StoreHarness, jobs: Iterator[LeasedJob]) -> None:
    one, two, three = (Node(store, epoch) for epoch in store.nodes)
    first = next(jobs)
    one.receive("a=1; Path=/", "both=one; Path=/")
    one.commit(first)
    second = store.take("https://shop.example/", free=1, node=two.epoch)[0]
    two.receive("b=2; Path=/", "both=two; Path=/")
    two.commit(second)  # without having read what the other one wrote
    three.load(next(jobs))
    assert three.sends == {"a=1", "b=2", "both=two"}
    one.load(next(jobs))
    assert one.sends == three.sends
    two.receive("a=; Path=/; Max-Age=0")
    two.commit(store.take("https://shop.example/", free=1, node=two.epoch)[0])
    one.load(next(jobs))
    assert one.sends == {"b=2", "both=two"}


def test_a_late_commit_writes_no_cookie(store: StoreHarness, jobs: Iterator[LeasedJob]) -> None:
    one = Node(store, store.nodes[0])
    job = next(jobs)
    one.receive("a=1; Path=/")
    one.commit(job._replace(lease=job.lease + 1))
    assert store.db.value("SELECT count(*) FROM cookie_jars") == 0
    one.commit(job)
    assert store.db.value("SELECT count(*) FROM cookie_jars") == 1


@pytest.mark.sqlite
def test_a_crawl_that_shares_no_cookies_reads_none(new_store: NewStore) -> None:
    store = new_store()
    store.seed("https://shop.example/1")
    one = Node(store, store.nodes[0])
    (job,) = store.take("https://shop.example/", free=1)
    one.load(job)
    with traced(one.db) as statements:
        one.load(job)
    assert statements == []
