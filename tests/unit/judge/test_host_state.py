"""Hosts are judged by their last answers: each state has one meaning, and none says that a host in trouble is ok."""

from typing import Any

import pytest

from crawl_engine.judge.host_state import HostJudge
from crawl_engine.judge.trouble import RunJudge
from crawl_engine.model.host import HostState
from crawl_engine.store.read.situation import HostWork, Situation


class Watched:
    """One host, judged each second."""

    def __init__(self, **work: Any) -> None:
        self.judge = RunJudge()
        self.work: dict[str, Any] = {"left": 900.0, "waiting": 900, "key": "a:80", **work}
        self.counts: dict[int, int] = {}
        self.bad = self.refused = 0
        self.now = 1_000.0
        self.see()

    def see(
        self, answers: dict[int, int] | None = None, *, bad: int = 0, refused: int = 0, seconds: float = 1.0
    ) -> str:
        """The state after some more answers, by status; `bad` and `refused` of them."""
        self.now += seconds
        for status, count in (answers or {}).items():
            self.counts[status] = self.counts.get(status, 0) + count
        self.bad, self.refused = self.bad + bad, self.refused + refused
        host = HostWork(**self.work, answers=dict(self.counts), bad=self.bad, refused=self.refused)
        _, self.alarms = self.judge.update(Situation(self.now, hosts={1: host}, deadline=30.0))
        return str(self.judge.hosts.views[1].state)

    @property
    def codes(self) -> list[str]:
        return [alarm.code for alarm in self.alarms]


def test_a_host_that_answers_well_is_ok_until_it_was_asked_for_nothing_in_a_minute() -> None:
    host = Watched()
    assert host.see() == "unasked"
    assert host.see({200: 20}) == "ok"
    assert host.see(seconds=59.0) == "ok"
    assert host.see(seconds=2.0) == "waiting"
    assert host.see({200: 1}) == "ok"
    host.work |= {"left": 0.0, "waiting": 0}
    assert host.see() == "finished"
    assert host.codes == []


def test_thousands_of_good_answers_hide_no_bad_ones() -> None:
    host = Watched()
    host.see({200: 2_159})
    host.see({200: 50})
    assert host.see({500: 20}, bad=20) == "failing"
    assert [(alarm.code, alarm.text) for alarm in host.alarms] == [
        ("failing-requests", "a:80 fails: 20 of the last 70 answers bad (HTTP 500)")
    ]
    host.see({500: 50}, bad=50)
    assert host.see({200: 50}) in ("ok", "shaky")
    host.see({200: 50})
    assert (host.see({200: 50}), host.codes) == ("ok", [])


@pytest.mark.parametrize(
    ("answers", "bad", "state"),
    [
        ({200: 50}, 0, "ok"), ({200: 49, 500: 1}, 1, "ok"), ({200: 47, 500: 3}, 3, "shaky"),
        ({200: 41, 500: 9}, 9, "shaky"), ({200: 40, 500: 10}, 10, "failing"), ({200: 1, 500: 3}, 3, "shaky"),
        ({0: 1}, 1, "failing"), ({500: 4}, 4, "failing"),
    ],
)  # fmt: skip
def test_shares_of_bad_answers(answers: dict[int, int], bad: int, state: str) -> None:
    assert Watched().see(answers, bad=bad) == state


def test_a_slow_host_is_judged_by_its_last_five_answers() -> None:
    host = Watched(delay=20.0)
    for _ in range(9):
        host.see({200: 1}, seconds=20.0)
    for _ in range(4):
        assert host.see({500: 1}, bad=1, seconds=20.0) == "shaky", "few of them say little"
    assert host.see({500: 1}, bad=1, seconds=20.0) == "failing"


def test_refusals_are_told_from_failures_and_from_being_asked_too_often() -> None:
    assert Watched().see({403: 4}, bad=4, refused=4) == "refused"
    assert Watched(left=0.0, waiting=0).see({403: 4}, bad=4, refused=4) == "refused", "no page is left for it"
    assert Watched().see({429: 4}, bad=4, refused=4) == "failing"
    throttled = Watched(rest_reason="HTTP 429", backoff_until=1_010.0)
    assert throttled.see({429: 4}, bad=4, refused=4) == "resting"
    assert throttled.see(seconds=20.0) == "resting"
    assert throttled.alarms[0].text == "a:80 is asked again after HTTP 429"
    assert Watched(rest_reason="HTTP 403").see({403: 4}, bad=4, refused=4) == "refused"
    some = Watched()
    assert some.see({200: 42, 403: 7}, bad=7, refused=7) == "shaky"
    assert (some.codes, some.alarms[0].text) == (["blocked"], "a:80 refused 7 of the last 49 requests (HTTP 403)")


def test_silence_a_pause_and_what_failed_before_it() -> None:
    assert Watched(silent=16.0).see() == "silent"
    paused = Watched(paused=True)
    assert (paused.see({500: 9}, bad=9), paused.codes) == ("paused", [])
    assert Watched(left=0.0, paused_pages=900).see({200: 5}) == "paused"


def test_hosts_that_are_as_they_were_are_not_read_again_and_counted_all_the_same() -> None:
    judge = HostJudge()
    done = HostWork(0.0, 9, "a:80", answers={200: 9}, done=9)
    judge.update(Situation(1_000.0, hosts={1: done, 2: HostWork(5.0, 0, "b:80", waiting=5)}))
    assert judge.settled == {1: 9}
    judge.update(Situation(1_001.0, hosts={1: HostWork(0.0, 9), 2: HostWork(5.0, 0, "b:80", waiting=5)}))
    assert {group.state: group.names for group in judge.groups()} == {
        HostState.UNASKED: ("b:80",), HostState.FINISHED: ("a:80",)
    }  # fmt: skip
