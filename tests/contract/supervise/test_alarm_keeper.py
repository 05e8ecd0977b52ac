"""Alarms keep their beginning and their acknowledgement over restarts, until their cause ends."""

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


def test_an_acknowledgement_lasts_as_long_as_the_cause_and_survives_a_restart(store: StoreHarness) -> None:
    keeper = AlarmKeeper(store.db, store.run)
    record(store, keeper, RESTING, EMPTY)
    acknowledge(store, RESTING.key, EMPTY.key)
    [began, _] = [alarm.since for alarm in runs.list_alarms(store.db, store.run)]
    assert began > 0
    restarted = AlarmKeeper(store.db, store.run)
    record(store, restarted)  # the first moments: no host has been asked yet
    assert runs.list_acknowledged(store.db, store.run) == {RESTING.key, EMPTY.key}
    record(store, restarted, RESTING)
    assert [alarm.since for alarm in runs.list_alarms(store.db, store.run)] == [began]
    record(store, restarted)
    assert runs.list_acknowledged(store.db, store.run) == {EMPTY.key}, "its cause has ended: it would be new"


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
