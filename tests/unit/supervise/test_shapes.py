"""Recorded runs, judged again second by second: what the estimate and the alarms say of each shape is true.

`python -m tests.shapes.record` records them.
"""

import re
from pathlib import Path

import msgspec
import pytest

from crawl_engine.judge.trouble import RunJudge
from crawl_engine.model.host import HostState
from crawl_engine.model.run import Alarm, Eta, HostGroup
from crawl_engine.store.read.situation import Situation
from tests import shapes

FOLDER = Path(shapes.__file__).parent
RECORDED = sorted(path.stem for path in FOLDER.glob("*.jsonl"))

STANDING = {
    "hang": {"host-silent"}, "rest": {"host-resting"}, "overload": {"host-resting"}, "challenge": {"host-refused"},
    "endless": {"queue-grows"}, "nodes-lost": {"node-lost"}, "broken-selector": {"dropped-field"},
    "redesign": {"dropped-field"},
}  # fmt: skip
"""By shape the alarms that stand for some time; of all others none does."""
WITHOUT_CAUSE = {"blocked", "failing-requests", "group-without-page"}
"""Warnings of the whole run that may follow an alarm."""


class Moment(msgspec.Struct):
    left: float
    """Seconds until the pages really ended."""
    eta: Eta
    found: list[Alarm]
    hosts: tuple[HostGroup, ...]
    share: float | None
    situation: Situation

    @property
    def alarms(self) -> set[str]:
        return {alarm.code for alarm in self.found}


def states(moment: Moment) -> dict[HostState, tuple[str, ...]]:
    """The hosts of a moment by state, those with most pages left first."""
    return {group.state: group.names for group in moment.hosts}


def replay(name: str) -> list[Moment]:
    lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    situations = [msgspec.json.decode(line, type=Situation) for line in lines]
    open_at = [situation.at for situation in situations if situation.waiting]
    judge, moments = RunJudge(), []
    for situation in situations:
        eta, alarms = judge.update(situation)
        left = open_at[-1] + 1.0 - situation.at
        moments.append(Moment(left, eta, alarms, judge.hosts.groups(), judge.forecast.share, situation))
    return moments


@pytest.mark.parametrize("name", RECORDED)
def test_a_lower_bound_is_never_above_the_truth(name: str) -> None:
    above = [
        (moment.left, moment.eta)
        for moment in replay(name)
        if moment.eta.seconds and not moment.eta.exact and moment.eta.seconds > moment.left + 1.5
    ]
    assert above == []


@pytest.mark.parametrize("name", RECORDED)
def test_an_exact_estimate_is_near_the_truth_and_no_host_is_in_trouble(name: str) -> None:
    for moment in replay(name):
        situation = moment.situation
        waiting = [host for host in situation.hosts.values() if host.left]
        if moment.eta.exact and moment.eta.seconds and situation.max_pages is None:
            assert not any((host.backoff_until or 0) > situation.at for host in waiting)
            assert not moment.alarms & {"host-silent", "host-resting", "host-refused", "queue-grows"}
        if moment.eta.seconds is None and waiting:
            assert moment.eta.reason


@pytest.mark.parametrize("name", ["steady", "two-hosts", "slow-tail", "page-limit"])
def test_a_shape_without_trouble_is_known_from_the_middle_on(name: str) -> None:
    moments = [moment for moment in replay(name) if moment.left > 2]
    for moment in moments[len(moments) // 2 :]:
        assert moment.eta.exact
        assert moment.eta.seconds == pytest.approx(moment.left, rel=0.35, abs=2.0)


@pytest.mark.parametrize("name", RECORDED)
def test_the_alarms_of_a_shape_stand_and_no_others(name: str) -> None:
    moments = replay(name)
    stood = set().union(*(moment.alarms for moment in moments)) - WITHOUT_CAUSE
    assert stood == STANDING.get(name, set())
    if name not in ("endless", "broken-selector", "redesign"):
        assert not moments[-1].alarms - WITHOUT_CAUSE, "alarms end when their cause ends"


def test_a_hanging_host_has_no_estimate_from_half_the_deadline_on() -> None:
    silent = [moment for moment in replay("hang") if "host-silent" in moment.alarms]
    assert len(silent) > 5
    assert {moment.eta.seconds for moment in silent} == {None}
    assert all((moment.eta.reason or "").startswith("b.example silent ") for moment in silent)
    first = next(host for host in silent[0].situation.hosts.values() if host.key == "b.example")
    assert 4 <= first.silent <= 6, "the deadline is 8 s"


def test_a_pause_is_said_and_raises_nothing() -> None:
    paused = [moment for moment in replay("pause") if moment.situation.paused]
    assert len(paused) > 3
    assert {(moment.eta.seconds, moment.eta.bound_by) for moment in paused} == {(None, "paused")}
    assert not any(moment.alarms for moment in paused)


def test_endless_links_have_no_end() -> None:
    growing = [moment.eta.reason for moment in replay("endless") if "queue-grows" in moment.alarms]
    assert len(growing) > 5
    assert all(reason and reason.startswith("the queue grows by ") for reason in growing)


def test_a_broken_selector_says_since_which_page() -> None:
    [text] = {warning.text for warning in replay("broken-selector")[-1].situation.warnings}
    assert re.fullmatch(
        "item.price was filled in 100% of the records, and is empty since page 10[0-3]; 3[3-6]% in all", text
    )


def test_a_host_that_turns_bad_is_told_within_seconds_and_no_longer_when_it_has_healed() -> None:
    moments = replay("turns-bad")
    failing = [number for number, moment in enumerate(moments) if "failing-requests" in moment.alarms]
    host = {number: next(iter(moment.situation.hosts.values())) for number, moment in enumerate(moments)}
    first, last = failing[0], failing[-1]
    assert failing == list(range(first, last + 1)), "it begins once, and ends once"
    assert host[first - 1].bad <= 1, "the first judgement that sees bad answers says it"
    assert host[first].done > 1_900
    assert host[first].bad / sum(host[first].answers.values()) < 0.2, "in the whole run they are few"
    assert "a.example fails: " in moments[first].found[0].text
    assert "bad (HTTP 500)" in moments[first].found[0].text
    assert [states(moments[number]) for number in (first, last + 1)] == [
        {HostState.FAILING: ("a.example",)}, {HostState.OK: ("a.example",)},
    ]  # fmt: skip
    assert moments[last + 1].situation.at - moments[last].situation.at < 5


def test_hosts_that_refused_all_are_not_ok_when_no_page_is_left_for_them() -> None:
    for moment in replay("refusals")[2:-1]:
        found = states(moment)
        assert set(found[HostState.OK]) == {"d.example", "e.example"}
        assert set(found[HostState.REFUSED]) == {"a.example", "b.example", "c.example"}
        assert {(alarm.code, alarm.host) for alarm in moment.found} == {
            ("blocked", f"{letter}.example") for letter in "abc"
        }  # fmt: skip


def test_one_site_of_sixteen_that_is_redesigned_is_named() -> None:
    dropped = [moment for moment in replay("redesign") if "dropped-field" in moment.alarms]
    assert len(dropped) > 3
    [alarm] = dropped[-1].found
    assert (alarm.host, alarm.data_def, alarm.field) == ("h.example", "item", "price")
    assert "empty since its page 61" in alarm.text


def test_a_list_that_goes_on_has_no_exact_end_and_no_full_bar() -> None:
    moments = replay("list-goes-on")
    going = [moment for moment in moments[2:] if len(moment.situation.open_sequences) == 2]
    assert len(going) > 5
    assert not any(moment.eta.exact for moment in going)
    assert all(moment.share is None or moment.share < 0.8 for moment in going)


def test_paused_pages_are_left_out_of_the_estimate_and_said() -> None:
    paused = [moment for moment in replay("list-paused") if moment.situation.paused_pages]
    working = [moment for moment in paused if moment.eta.seconds is not None]
    assert len(working) > 5
    assert {(moment.eta.exact, moment.eta.paused) for moment in working} == {(False, 1)}
    assert all(moment.share is None or moment.share < 1.0 for moment in paused), "they are not done"
    assert {states(moment).get(HostState.PAUSED) for moment in paused} == {("b.example",)}
    assert {moment.eta.bound_by for moment in paused if moment.eta.seconds is None} == {"paused"}
