"""Alarms keep their beginning and their acknowledgement over restarts, until their cause ends."""

import pytest

from crawl_engine.judge.trouble import RunJudge
from crawl_engine.model.run import Alarm
from crawl_engine.store.read.situation import HostWork, Situation
from crawl_engine.store.tables.run import runs
from crawl_engine.supervise.analysis.alarm_keeper import AlarmKeeper
from tests.contract.store.harness import StoreHarness

RESTING, EMPTY = Alarm("host-resting", "a:80 rests 9 s", host="a:80"), Alarm("empty-field", "x", field="price")


def record(store: StoreHarness, keeper: AlarmKeeper, *found: Alarm) -> None:
    keeper.update(found)
    with store.db.transaction():
        keeper.record()
    keeper.confirm()


def acknowledge(store: StoreHarness, *keys: str) -> None:
    with store.db.transaction():
        runs.acknowledge(store.db, store.run, keys)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_acknowledgement_lasts_as_long_as_the_cause_and_survives_a_restart(store: StoreHarness) -> None:
    keeper = AlarmKeeper(store.context())
    record(store, keeper, RESTING, EMPTY)
    acknowledge(store, RESTING.key, EMPTY.key)
    [began, _] = [alarm.since for alarm in runs.list_alarms(store.db, store.run)]
    assert began > 0
    restarted = AlarmKeeper(store.context(), clock := Clock())
    record(store, restarted)  # the first moments: no host has been asked yet
    assert runs.list_acknowledged(store.db, store.run) == {RESTING.key, EMPTY.key}
    clock.now = 59.0
    record(store, restarted, EMPTY, RESTING)
    assert [alarm.since for alarm in runs.list_alarms(store.db, store.run)] == [began, began]
    record(store, restarted, EMPTY)
    clock.now = 120.0
    record(store, restarted, EMPTY)
    assert runs.list_acknowledged(store.db, store.run) == {EMPTY.key}, "its cause has ended: it would be new"


@pytest.mark.parametrize("key", ["supervisor-lost", "jobs-ready"])
def test_the_next_loss_of_a_supervisor_is_new(store: StoreHarness, key: str) -> None:
    record(store, AlarmKeeper(store.context()), EMPTY)
    acknowledge(store, key, EMPTY.key)
    record(store, AlarmKeeper(store.context()), EMPTY)
    assert runs.list_acknowledged(store.db, store.run) == {EMPTY.key}


def test_an_alarm_that_ended_with_its_supervisor_is_new_after_a_minute(store: StoreHarness) -> None:
    record(store, AlarmKeeper(store.context()), RESTING)
    acknowledge(store, RESTING.key)
    for _ in range(2):  # the second supervisor is lost as well, within the minute
        record(store, restarted := AlarmKeeper(store.context(), clock := Clock()))
        assert runs.list_acknowledged(store.db, store.run) == {RESTING.key}
    clock.now = 61.0
    record(store, restarted)
    assert runs.list_acknowledged(store.db, store.run) == set()


def test_an_alarm_that_comes_again_within_a_minute_is_the_same(store: StoreHarness) -> None:
    keeper, hangs = AlarmKeeper(store.context(), clock := Clock()), Alarm("host-silent", "a:80", host="a:80")
    record(store, keeper, hangs)
    [first] = runs.list_alarms(store.db, store.run)
    acknowledge(store, hangs.key)
    for pause in (1.0, 30.0, 59.0):
        record(store, keeper)
        clock.now += pause
        record(store, keeper, hangs)
        assert runs.list_alarms(store.db, store.run) == [first]
        assert runs.list_acknowledged(store.db, store.run) == {hangs.key}
    texts = "SELECT count(*) FROM events WHERE text = 'a:80'"
    assert store.db.value(texts) == 1
    clock.now += 61.0
    record(store, keeper)
    record(store, keeper, hangs)
    assert store.db.value(texts) == 2
    assert runs.list_acknowledged(store.db, store.run) == set()


def silent(names: str) -> list[Alarm]:
    hosts = {number: HostWork(5.0, 1, f"{name}:80", silent=24.0) for number, name in enumerate(names)}
    return RunJudge().update(Situation(1_000.0, hosts=hosts, deadline=30.0))[1]


def open_alarms(store: StoreHarness) -> list[str]:
    acknowledged = runs.list_acknowledged(store.db, store.run)
    return [alarm.key for alarm in runs.list_alarms(store.db, store.run) if alarm.key not in acknowledged]


def test_an_alarm_of_many_hosts_keeps_what_was_acknowledged_of_each(store: StoreHarness) -> None:
    keeper = AlarmKeeper(store.context(), clock := Clock())
    record(store, keeper, *silent("abcde"))
    acknowledge(store, *open_alarms(store))
    for _ in range(100):
        clock.now += 1.0
        record(store, keeper, *silent("abcdef"))
    assert open_alarms(store) == ["host-silent"], "one of them is new"
    record(store, keeper, *silent("abcd"))
    assert open_alarms(store) == []
    record(store, keeper, *silent("abf"))
    assert open_alarms(store) == ["reach f:80"]
    assert store.db.value("SELECT count(*) FROM events WHERE level = 'WARNING'") == 6, "five hosts, and all together"
    acknowledge(store, *open_alarms(store))
    clock.now += 30.0
    record(store, keeper, *silent("abcdef"))
    assert open_alarms(store) == [], "each of them was acknowledged"


def test_an_acknowledged_alarm_of_many_hosts_is_quiet_when_it_falls_apart(store: StoreHarness) -> None:
    keeper = AlarmKeeper(store.context(), clock := Clock())
    record(store, keeper, *silent("abcdefg"))
    [began] = [alarm.since for alarm in runs.list_alarms(store.db, store.run)]
    acknowledge(store, "host-silent")
    clock.now += 100.0
    record(store, keeper, *silent("abcdefg"))
    record(store, keeper, *silent("bcd"), EMPTY)
    assert open_alarms(store) == [EMPTY.key]
    assert {alarm.since for alarm in runs.list_alarms(store.db, store.run) if alarm.host} == {began}
    record(store, keeper, *silent("bcdx"))
    assert open_alarms(store) == ["reach x:80"], "it was not one of them"
    with store.db.transaction():
        runs.acknowledge(store.db, store.run, (), ["reach b:80"])
    record(store, keeper, *silent("bcdx"))
    assert open_alarms(store) == ["reach b:80", "reach x:80"], "an operator made it loud again"


def test_an_alarm_of_many_hosts_is_known_after_a_restart(store: StoreHarness) -> None:
    record(store, AlarmKeeper(store.context()), *silent("abcdefg"))
    [stored] = runs.list_alarms(store.db, store.run)
    assert stored.members == tuple([f"reach {name}:80" for name in "abcdefg"])
    acknowledge(store, "host-silent")
    record(store, AlarmKeeper(store.context()), *silent("bcd"))
    assert open_alarms(store) == [], "it has fallen apart"
    assert {alarm.since for alarm in runs.list_alarms(store.db, store.run)} == {stored.since}


def test_a_changing_text_is_the_same_alarm(store: StoreHarness) -> None:
    keeper = AlarmKeeper(store.context())
    record(store, keeper, RESTING)
    [first] = runs.list_alarms(store.db, store.run)
    record(store, keeper, Alarm("host-resting", "a:80 rests 8 s", host="a:80"))
    [second] = runs.list_alarms(store.db, store.run)
    assert (second.text, second.since) == ("a:80 rests 8 s", first.since)


def test_what_was_not_committed_is_recorded_again(store: StoreHarness) -> None:
    keeper = AlarmKeeper(store.context())
    keeper.update([EMPTY])
    try:
        with store.db.transaction():
            keeper.record()
            raise RuntimeError
    except RuntimeError:
        pass
    record(store, keeper, EMPTY)
    assert [alarm.code for alarm in runs.list_alarms(store.db, store.run)] == ["empty-field"]
