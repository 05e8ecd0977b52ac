"""Why jobs wait, where no running crawl holds the moment still."""

from collections.abc import Callable

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.transactions import waits
from tests.contract.store.harness import StoreHarness


def explain(store: StoreHarness, host: str = "a.test:80") -> list[tuple[str, str]]:
    """The reasons where no other crawl holds a host."""
    return waits.explain_host(store.db, store.run, host, store.now, 3, lambda *_: None)


def test_a_group_that_the_defs_lack(store: StoreHarness) -> None:
    store.seed("http://a.test/1")
    assert explain(store) == [("g", "it waits for a free slot")]
    with store.db.transaction():
        sequences.set_groups(store.db, store.run, ["others"])
    assert explain(store) == [("g", "the defs lack the group g")]


@pytest.mark.parametrize("held", ["its robots.txt", "its only place"])
def test_a_host_whose_places_another_crawl_holds(new_store: Callable[..., StoreHarness], held: str) -> None:
    by_robots = held == "its robots.txt"
    store = new_store(policies={"a.test:80": HostPolicy(delay=0.0, concurrency=1, robots=by_robots)})
    store.seed(*(f"http://a.test/{number}" for number in range(9)))
    if not by_robots:
        store.lease(store.sequence("http://a.test/", "g"))
    asked = []

    def find_holder(host: str, slots: int) -> str | None:
        asked.append((host, slots))
        return "/crawls/other" if len(asked) == 1 else None

    named, unnamed = [
        waits.explain_host(store.db, store.run, "a.test:80", store.now, 3, find_holder)[0][1] for _ in range(2)
    ]
    assert named == "another crawl, /crawls/other, holds the places of a.test:80"
    alone = "the robots.txt of a.test:80 is being read" if by_robots else "a.test:80 is at its concurrency of 1"
    assert unnamed == alone
    assert asked == [("a.test:80", 1)] * 2


def test_a_host_is_explained_by_its_first_groups(new_store: Callable[..., StoreHarness]) -> None:
    store = new_store(policies={"a.test:80": HostPolicy(delay=9.0, concurrency=1, robots=False)})
    for number in range(5):
        store.seed(*(f"http://a.test/{number}/{page}" for page in range(number + 1)), group=f"g{number}")
    store.seed("http://b.test/1", group="other")
    store.lease(store.sequence("http://a.test/", "g4"))
    reasons = explain(store)
    assert {group for group, _ in reasons} == {"g4", "g3", "g2"}
    assert all(reason == "delay 9 s of a.test:80: the next request in 9.0 s" for _, reason in reasons)
    assert explain(store, "none.test:80") == []
