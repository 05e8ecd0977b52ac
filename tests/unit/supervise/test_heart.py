"""The heartbeat monitor judges beats by its own clock."""

import pytest

from crawl_engine.model.node import HeartbeatState
from crawl_engine.processes.heartbeat import HeartbeatMonitor
from crawl_engine.runtime.beat_file import Beat
from crawl_engine.settings import Settings


def _beat(number: int) -> Beat:
    return Beat(number=number, state="READY")


@pytest.fixture
def monitor() -> HeartbeatMonitor:
    """A monitor that saw a healthy process at 100 s."""
    monitor = HeartbeatMonitor(seen_at=99.9)
    assert monitor.observe(_beat(1), 100.0) is HeartbeatState.HEALTHY
    return monitor


def watch(monitor: HeartbeatMonitor, beat: Beat | None, since: float, until: float) -> HeartbeatState:
    """Observe ten times a second, as the supervisor does; returns the last state."""
    heart = monitor.heart
    for i in range(1, round((until - since) * 10) + 1):
        heart = monitor.observe(beat, since + i / 10)
    return heart


def test_the_timeouts_are_settings() -> None:
    monitor = HeartbeatMonitor.from_settings(Settings(heart_timeout=3.0, start_timeout=6.0))
    monitor.seen_at = 0.0
    assert watch(monitor, None, 0.0, 5.9) is HeartbeatState.ARRHYTHMIA
    assert monitor.observe(_beat(1), 6.0) is HeartbeatState.ARRHYTHMIA
    assert watch(monitor, _beat(1), 6.0, 8.9) is HeartbeatState.HEALTHY
    assert watch(monitor, _beat(1), 8.9, 9.2) is HeartbeatState.ARRHYTHMIA
    assert watch(monitor, _beat(1), 9.2, 15.2) is HeartbeatState.ASYSTOLE


def test_a_process_has_twenty_seconds_for_its_first_beat() -> None:
    monitor = HeartbeatMonitor(seen_at=0.0)
    assert watch(monitor, None, 0.0, 6.0) is HeartbeatState.NEWBORN
    assert watch(monitor, None, 6.0, 7.0) is HeartbeatState.ARRHYTHMIA
    assert watch(monitor, None, 7.0, 19.9) is HeartbeatState.ARRHYTHMIA
    assert watch(monitor, None, 19.9, 20.1) is HeartbeatState.ASYSTOLE


@pytest.mark.parametrize(
    ("after", "heart"),
    [
        (0.0, HeartbeatState.HEALTHY),
        (0.9, HeartbeatState.HEALTHY),
        (1.0, HeartbeatState.ARRHYTHMIA),
        (2.9, HeartbeatState.ARRHYTHMIA),
        (3.0, HeartbeatState.ASYSTOLE),
        (60.0, HeartbeatState.ASYSTOLE),
    ],
)
def test_three_seconds_without_a_new_beat_mean_death(
    monitor: HeartbeatMonitor, after: float, heart: HeartbeatState
) -> None:
    assert watch(monitor, _beat(1), 100.0, 100.0 + after) is heart
    assert monitor.age(100.0 + after) == pytest.approx(after)


def test_a_beat_file_may_be_unreadable_for_a_moment(monitor: HeartbeatMonitor) -> None:
    assert watch(monitor, None, 100.0, 100.5) is HeartbeatState.HEALTHY
    assert monitor.observe(_beat(2), 100.6) is HeartbeatState.HEALTHY
    assert watch(monitor, None, 100.6, 103.7) is HeartbeatState.ASYSTOLE


def test_an_unchanged_number_is_not_a_new_beat(monitor: HeartbeatMonitor) -> None:
    latest = Beat(number=1, state="DONE", done=99)
    assert watch(monitor, latest, 100.0, 101.5) is HeartbeatState.ARRHYTHMIA


def test_a_smaller_number_is_a_new_beat(monitor: HeartbeatMonitor) -> None:
    """A file that restarts at 0 is a sign of life."""
    assert monitor.observe(_beat(0), 100.8) is HeartbeatState.HEALTHY
    assert monitor.age(100.8) == 0.0


@pytest.mark.parametrize("beat", [1, 240])
def test_a_stopped_observer_declares_nothing_dead(monitor: HeartbeatMonitor, beat: int) -> None:
    """A minute without observation counts as one missed timeout at most."""
    assert monitor.observe(_beat(beat), 160.0) is not HeartbeatState.ASYSTOLE
    for i in range(10):
        heart = monitor.observe(_beat(300 + i), 160.1 + i / 10)
    assert heart is HeartbeatState.HEALTHY


def test_ten_fresh_beats_in_a_row_end_an_arrhythmia(monitor: HeartbeatMonitor) -> None:
    assert watch(monitor, _beat(1), 100.0, 101.2) is HeartbeatState.ARRHYTHMIA
    for i in range(9):
        assert monitor.observe(_beat(2 + i), 101.3 + i / 10) is HeartbeatState.ARRHYTHMIA
    assert monitor.observe(_beat(11), 102.2) is HeartbeatState.HEALTHY
    assert monitor.missed == 0


def test_missed_timeouts_add_up_until_ten_fresh_beats_in_a_row(monitor: HeartbeatMonitor) -> None:
    """Three silent seconds with single beats in between mean death."""
    now, number = 100.0, 1
    for heart in (HeartbeatState.ARRHYTHMIA, HeartbeatState.ARRHYTHMIA, HeartbeatState.ASYSTOLE):
        assert watch(monitor, _beat(number), now, now + 1.0) is heart
        now, number = now + 1.1, number + 1
        monitor.observe(_beat(number), now)


def test_a_dead_process_stays_dead(monitor: HeartbeatMonitor) -> None:
    assert watch(monitor, None, 100.0, 104.0) is HeartbeatState.ASYSTOLE
    for i in range(30):
        assert monitor.observe(_beat(2 + i), 104.1 + i / 10) is HeartbeatState.ASYSTOLE


def test_several_observations_between_two_beats_count_once(monitor: HeartbeatMonitor) -> None:
    for i in range(40):
        assert monitor.observe(_beat(2 + i // 3), 100.1 + i * 0.1) is HeartbeatState.HEALTHY
    assert monitor.missed == 0


def test_the_last_beat_is_kept(monitor: HeartbeatMonitor) -> None:
    latest = Beat(number=2, state="READY", in_flight=4)
    monitor.observe(latest, 100.2)
    monitor.observe(None, 100.3)
    assert monitor.beat is latest
