"""Alarms keep their beginning and their acknowledgement over restarts, until their cause ends."""

import pytest

from engine.model.run import Alarm
from engine.store.tables.run import runs
from engine.supervise.analysis.alarms import AlarmKeeper
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
    keeper = AlarmKeeper(store.db, store.run)
    record(store, keeper, RESTING, EMPTY)
    acknowledge(store, RESTING.key, EMPTY.key)
    [began, _] = [alarm.since for alarm in runs.list_alarms(store.db, store.run)]
    assert began > 0
    restarted = AlarmKeeper(store.db, store.run, clock := Clock())
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
    record(store, AlarmKeeper(store.db, store.run), EMPTY)
    acknowledge(store, key, EMPTY.key)
    record(store, AlarmKeeper(store.db, store.run), EMPTY)
    assert runs.list_acknowledged(store.db, store.run) == {EMPTY.key}


def test_an_alarm_that_ended_with_its_supervisor_is_new_after_a_minute(store: StoreHarness) -> None:
    record(store, AlarmKeeper(store.db, store.run), RESTING)
    acknowledge(store, RESTING.key)
    for _ in range(2):  # the second supervisor is lost as well, within the minute
        record(store, restarted := AlarmKeeper(store.db, store.run, clock := Clock()))
        assert runs.list_acknowledged(store.db, store.run) == {RESTING.key}
    clock.now = 61.0
    record(store, restarted)
    assert runs.list_acknowledged(store.db, store.run) == set()


def test_an_alarm_that_comes_again_within_a_minute_is_the_same(store: StoreHarness) -> None:
    keeper, silent = AlarmKeeper(store.db, store.run, clock := Clock()), Alarm("host-silent", "a:80", host="a:80")
    record(store, keeper, silent)
    [first] = runs.list_alarms(store.db, store.run)
    acknowledge(store, silent.key)
    for pause in (1.0, 30.0, 59.0):
        record(store, keeper)
        clock.now += pause
        record(store, keeper, silent)
        assert runs.list_alarms(store.db, store.run) == [first]
        assert runs.list_acknowledged(store.db, store.run) == {silent.key}
    texts = "SELECT count(*) FROM events WHERE text = 'a:80'"
    assert store.db.value(texts) == 1
    clock.now += 61.0
    record(store, keeper)
    record(store, keeper, silent)
    assert store.db.value(texts) == 2
    assert runs.list_acknowledged(store.db, store.run) == set()


def test_a_changing_text_is_the_same_alarm(store: StoreHarness) -> None:
    keeper = AlarmKeeper(store.db, store.run)
    record(store, keeper, RESTING)
    [first] = runs.list_alarms(store.db, store.run)
    record(store, keeper, Alarm("host-resting", "a:80 rests 8 s", host="a:80"))
    [second] = runs.list_alarms(store.db, store.run)
    assert (second.text, second.since) == ("a:80 rests 8 s", first.since)


def test_what_was_not_committed_is_recorded_again(store: StoreHarness) -> None:
    keeper = AlarmKeeper(store.db, store.run)
    keeper.update([EMPTY])
    try:
        with store.db.transaction():
            keeper.record()
            raise RuntimeError
    except RuntimeError:
        pass
    record(store, keeper, EMPTY)
    assert [alarm.code for alarm in runs.list_alarms(store.db, store.run)] == ["empty-field"]
