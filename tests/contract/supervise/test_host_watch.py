"""The supervisor follows how fast hosts answer, from what nodes flush; figures survive a restart and a reboot."""

import orjson
import pytest

from crawl_engine.model.host import bucket_of
from crawl_engine.store.tables.host import host_speeds
from crawl_engine.store.tables.host.host_speeds import HostTraffic
from crawl_engine.supervise.analysis import host_watch
from crawl_engine.supervise.analysis.host_watch import HostWatch
from tests.contract.store.harness import StoreHarness


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(host_watch, "store_time", clock)
    return clock


def flush(store: StoreHarness, clock: Clock, host: int, *seconds: float) -> None:
    traffic = HostTraffic(bytes=10 * len(seconds))
    for value in seconds:
        bucket = bucket_of(value)
        traffic.latencies[bucket] = traffic.latencies.get(bucket, 0) + 1
    with store.db.transaction():
        host_speeds.add_traffic(store.db, store.run, {host: traffic}, clock.now)


def tick(store: StoreHarness, watch: HostWatch, *, sampled: bool = False) -> list[int]:
    speeds = watch.measure({})
    with store.db.transaction():
        watch.record(speeds)
    watch.confirm(sampled=sampled)
    return [speed.host for speed in speeds]


def stored(store: StoreHarness, host: int) -> tuple[float | None, float | None, list[float | None]]:
    p50, p95, recent = store.db.all("SELECT p50, p95, recent_p50 FROM host_speeds WHERE host = ?", (host,))[0]
    return p50, p95, orjson.loads(recent or "[]")


def test_a_host_is_measured_while_it_answers(store: StoreHarness, clock: Clock) -> None:
    host = store.place("http://a/").host
    watch = HostWatch(store.context())
    assert tick(store, watch) == []
    flush(store, clock, host, *[0.1] * 90, *[1.0] * 10)
    assert tick(store, watch) == [host]
    p50, p95, recent = stored(store, host)
    assert p50 == pytest.approx(0.1, rel=0.1)
    assert p95 == pytest.approx(1.0, rel=0.1)
    assert recent == [p50]
    assert tick(store, watch) == [], "nothing new: nothing is written"
    clock.now += 5
    assert tick(store, watch) == [host], "an interval ended"
    flush(store, clock, host, *[0.4] * 200)
    tick(store, watch)
    assert stored(store, host)[2][-1] == pytest.approx(0.4, rel=0.1)
    assert store.db.value("SELECT bytes FROM host_speeds WHERE host = ?", (host,)) == 3000


def test_a_silent_host_keeps_its_figures_and_loses_its_histogram(store: StoreHarness, clock: Clock) -> None:
    host = store.place("http://a/").host
    watch = HostWatch(store.context())
    flush(store, clock, host, 0.1, 0.1)
    tick(store, watch)
    before = stored(store, host)[:2]
    for _ in range(30):
        clock.now += 5
        tick(store, watch)
    assert store.db.value("SELECT count(*) FROM host_latencies") == 0
    assert stored(store, host)[:2] == before
    flush(store, clock, host, 0.8)
    assert tick(store, watch) == [host]
    assert stored(store, host)[0] == pytest.approx(0.8, rel=0.1)


def test_a_restarted_supervisor_keeps_what_was_measured(store: StoreHarness, clock: Clock) -> None:
    host = store.place("http://a/").host
    flush(store, clock, host, 0.1, 0.1)
    tick(store, HostWatch(store.context()))
    first = HostWatch(store.context())
    flush(store, clock, host, 0.1)
    tick(store, first)
    before = stored(store, host)
    again = HostWatch(store.context())
    clock.now += 6
    tick(store, again)
    assert stored(store, host)[:2] == before[:2]
    assert again.latencies() == (None, None), "what was there before is not of this sample"


def test_the_latencies_of_a_sample_wait_for_its_commit(store: StoreHarness, clock: Clock) -> None:
    host = store.place("http://a/").host
    watch = HostWatch(store.context())
    flush(store, clock, host, 0.2)
    watch.measure({})
    assert watch.latencies()[0] == pytest.approx(0.2, rel=0.1)
    watch.confirm(sampled=False)
    assert watch.latencies()[0] is not None
    watch.confirm(sampled=True)
    assert watch.latencies() == (None, None)


def test_after_a_reboot_no_host_counts_as_measured(store: StoreHarness, clock: Clock) -> None:
    host = store.place("http://a/").host
    clock.now = 9e6
    flush(store, clock, host, 0.1)
    clock.now = 50.0
    assert tick(store, HostWatch(store.context())) == [], "a moment after now is of another boot"
    with store.db.transaction():
        host_speeds.forget_times(store.db)
    clock.now = 9e6 + 1
    assert tick(store, HostWatch(store.context())) == []


def test_estimates_are_those_of_the_last_call(store: StoreHarness) -> None:
    one, two = store.place("http://a/").host, store.place("http://b/").host
    for etas in ({one: 5.0, two: 9.0}, {two: 3.0}):
        with store.db.transaction():
            host_speeds.set_etas(store.db, store.run, etas)
    assert store.db.all("SELECT host, eta FROM host_speeds ORDER BY host") == [(one, None), (two, 3.0)]
