"""The estimate of a run's end is a function of its situations: exact, a lower bound, or none with a reason."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from crawl_engine.judge.trouble import RunJudge
from crawl_engine.model.run import Eta, RunState
from crawl_engine.store.read.situation import HostWork, Situation


class Crawl:
    """A run in steps of a second: what happens to its hosts in each."""

    def __init__(self, *hosts: HostWork, deadline: float = 30.0, **changes) -> None:
        self.now = 1_000.0
        self.hosts = dict(enumerate(hosts))
        self.judge_ = RunJudge()
        self.forecast = self.judge_.forecast
        self.changes = {"deadline": deadline, **changes}
        self.total = sum(int(host.left) + host.ended for host in hosts)

    def judge(self) -> tuple[Eta, list[str]]:
        waiting = sum(int(host.left) for host in self.hosts.values())
        hosts = {
            id_: HostWork(*(getattr(host, name) for name in HostWork.__struct_fields__))
            for id_, host in self.hosts.items()
        }
        situation = Situation(self.now, hosts=hosts, total=self.total, waiting=waiting, **self.changes)
        eta, alarms = self.judge_.update(situation)
        return eta, [alarm.code for alarm in alarms]

    def run(self, seconds: int, step: Callable[["Crawl"], None]) -> tuple[Eta, list[str]]:
        for _ in range(seconds):
            self.now += 1
            step(self)
            judged = self.judge()
        return judged

    def end(self, host: int, pages: int, found: int = 0) -> None:
        self.hosts[host].ended += pages
        self.hosts[host].left += found - pages
        self.total += found


def host(name: str, left: float, **changes) -> HostWork:
    return HostWork(left, 0, f"{name}:80", **changes)


def test_a_steady_crawl_has_an_exact_estimate_and_no_alarm() -> None:
    eta, alarms = Crawl(host("a", 400)).run(20, lambda crawl: crawl.end(0, 10))
    assert (eta.exact, eta.bound_by, alarms) == (True, "a:80", [])
    assert eta.seconds == pytest.approx(20, abs=2)


def test_a_host_that_hangs_has_none_and_the_reason_stands_in_its_place() -> None:
    crawl = Crawl(host("a", 400), host("b", 400))

    def hang(crawl: Crawl) -> None:
        crawl.end(0, 10)
        crawl.hosts[1].silent += 1

    eta, alarms = crawl.run(14, hang)
    assert alarms == []
    eta, alarms = crawl.run(10, hang)
    assert eta == Eta(None, "b:80", False, "b:80 silent 24 s")
    assert alarms == ["host-silent"]
    crawl.hosts[1].silent = 0.0
    eta, alarms = crawl.run(1, lambda crawl: crawl.end(1, 10))
    assert (eta.seconds is not None, alarms) == (True, [])


@pytest.mark.parametrize(
    ("reason", "strikes", "known", "code"),
    [
        ("HTTP 429", 1, True, "host-resting"), ("HTTP 503", 3, False, "host-resting"),
        ("HTTP 403", 1, False, "host-refused"), ("challenge (cf-mitigated: challenge)", 1, False, "host-refused"),
    ],
)  # fmt: skip
def test_a_host_that_rests_is_a_lower_bound_or_none(reason: str, strikes: int, known: bool, code: str) -> None:
    crawl = Crawl(host("a", 400), host("b", 40, delay=0.1))
    crawl.run(20, lambda crawl: crawl.end(0, 10))
    crawl.hosts[1].backoff_until, crawl.hosts[1].strikes, crawl.hosts[1].rest_reason = crawl.now + 60, strikes, reason
    eta, alarms = crawl.run(1, lambda crawl: crawl.end(0, 10))
    assert (eta.exact, eta.bound_by, alarms) == (False, "b:80", [code])
    assert (eta.seconds is not None) is known
    if known:
        assert 60 <= eta.seconds <= 65
    else:
        assert reason in eta.reason


def test_a_queue_that_grows_faster_than_it_drains_is_said() -> None:
    crawl = Crawl(host("a", 485))
    assert crawl.run(59, lambda crawl: crawl.end(0, 10, found=150))[1] == [], "a start is no trouble"
    eta, alarms = crawl.run(5, lambda crawl: crawl.end(0, 10, found=150))
    assert eta == Eta(None, None, False, "the queue grows by 140 pages/s")
    assert alarms == ["queue-grows"]
    assert crawl.forecast.queue_per_s == crawl.forecast.growth_per_s == 140, "one window for both"
    for _ in range(60):
        eta, alarms = crawl.run(1, lambda crawl: crawl.end(0, 130))
        assert bool(alarms) == (crawl.forecast.queue_per_s > 0)
    assert alarms == []
    assert eta.exact


@pytest.mark.parametrize(("found", "every", "pages"), [(60, 8, 4), (330, 12, 10), (90, 9, 2), (400, 45, 5)])
def test_a_queue_that_grows_in_bursts_is_one_alarm_and_has_no_end(found: int, every: int, pages: int) -> None:
    crawl = Crawl(host("a", 400))

    def step(crawl: Crawl) -> None:
        crawl.end(0, pages, found=0 if int(crawl.now) % every else found)

    judged = [crawl.run(1, step) for _ in range(400)]
    growing = [alarms == ["queue-grows"] for _, alarms in judged]
    assert not any(before and not after for before, after in pairwise(growing))
    assert growing[-1]
    assert all(eta.seconds is None for (eta, _), grows in zip(judged, growing, strict=True) if grows)
    eta, alarms = crawl.run(61, lambda crawl: crawl.end(0, pages))
    assert (alarms, eta.seconds is not None) == ([], True)


def test_a_slow_growth_is_not_rounded_to_zero() -> None:
    eta, _ = Crawl(host("a", 40)).run(150, lambda crawl: crawl.end(0, 2, found=3 if crawl.now % 2 else 2))
    assert eta.reason == "the queue grows by 0.5 pages/s"


@pytest.mark.parametrize("changes", [{"paused": "operator"}, {}])
def test_a_long_pause_or_rest_takes_no_memory_and_no_word_of_the_estimate(changes: dict[str, str]) -> None:
    crawl = Crawl(host("a", 400))
    crawl.run(30, lambda crawl: crawl.end(0, 5))
    crawl.changes |= changes
    crawl.run(3_000, lambda crawl: None)
    assert len(crawl.forecast._moments) <= 401
    crawl.changes |= {"paused": None}
    eta, alarms = crawl.run(20, lambda crawl: crawl.end(0, 5))
    assert (eta.exact, alarms) == (True, [])


@pytest.mark.parametrize("added", [5_000, 60])
def test_pages_that_an_operator_adds_at_once_are_no_growth(added: int) -> None:
    crawl = Crawl(host("a", 400))
    crawl.run(12, lambda crawl: crawl.end(0, 10))
    crawl.end(0, 0, found=added)
    judged = [crawl.run(1, lambda crawl: crawl.end(0, 2))[1] for _ in range(20)]
    assert judged == [[]] * 20


def test_seeding_and_a_pause_are_no_growth() -> None:
    crawl = Crawl(host("a", 400), state=RunState.SEEDING)
    assert crawl.run(30, lambda crawl: crawl.end(0, 10, found=500))[1] == []
    crawl.changes["state"] = RunState.READY
    assert crawl.run(9, lambda crawl: crawl.end(0, 10))[1] == []
    crawl.changes["paused"] = "operator"
    eta, alarms = crawl.run(60, lambda crawl: None)
    assert (eta, alarms) == (Eta(None, "paused", False, "operator"), [])


def test_a_lower_bound_is_never_above_the_truth_while_ten_hosts_start_slowly() -> None:
    crawl = Crawl(*[host(f"h{number}", 100) for number in range(10)])
    truth, seen = 41, []

    def step(crawl: Crawl) -> None:
        begun = min(10, int(crawl.now - 1_000) // 2)
        for number in range(begun):
            left = int(crawl.hosts[number].left)
            if left:
                crawl.end(number, min(4, left), found=1 if crawl.now < 1_020 else 0)

    while any(one.left for one in crawl.hosts.values()):
        eta, _ = crawl.run(1, step)
        seen.append((crawl.now - 1_000, eta))
    truth = crawl.now - 1_000
    above = [(at, eta) for at, eta in seen if eta.seconds and not eta.exact and at + eta.seconds > truth + 1]
    assert above == []


def test_a_slow_tail_and_limits_bound_the_end() -> None:
    crawl = Crawl(host("a", 300), host("b", 40, delay=2.0))

    def step(crawl: Crawl) -> None:
        if crawl.hosts[0].left:
            crawl.end(0, 10)
        if int(crawl.now) % 2 == 0:
            crawl.end(1, 1)

    eta, alarms = crawl.run(20, step)
    assert (eta.bound_by, eta.reason, eta.exact, alarms) == ("b:80", "delay 2 s", True, [])
    assert eta.seconds == pytest.approx(60, abs=6)
    crawl.changes |= {"run_room": 50, "max_pages": 300}
    assert crawl.run(1, step)[0].bound_by == "--max-pages 300"
    crawl.changes |= {"max_time_left": 3.0}
    assert crawl.run(1, step)[0].bound_by == "--max-time"


def test_without_a_page_that_ended_nobody_can_say() -> None:
    assert Crawl(state=RunState.NEW).run(3, lambda crawl: None)[0] == Eta(None, None, False, "no page is known yet")
    assert Crawl(host("a", 100)).run(3, lambda crawl: None)[0] == Eta(None, None, False, "no page has ended yet")
