"""How a beat looks to its observer, who has only his own clock."""

import pytest

from engine.model.node import HeartbeatState
from engine.runtime.beat_file import Beat
from engine.supervise.child_process import HeartbeatMonitor


def _beat(number: int) -> Beat:
    return Beat(number=number, state="READY")


@pytest.fixture
def pulse() -> HeartbeatMonitor:
    """Of a process seen healthy at 100 s."""
    pulse = HeartbeatMonitor(seen_at=99.9)
    assert pulse.observe(_beat(1), 100.0) is HeartbeatState.HEALTHY
    return pulse


def watch(pulse: HeartbeatMonitor, beat: Beat | None, since: float, until: float) -> HeartbeatState:
    """Look ten times a second, as the supervisor does; the heart at the end."""
    heart = pulse.heart
    for i in range(1, round((until - since) * 10) + 1):
        heart = pulse.observe(beat, since + i / 10)
    return heart


def test_a_process_not_yet_heard_is_newborn_and_is_given_twenty_seconds() -> None:
    pulse = HeartbeatMonitor(seen_at=0.0)
    assert watch(pulse, None, 0.0, 6.0) is HeartbeatState.NEWBORN
    assert watch(pulse, None, 6.0, 7.0) is HeartbeatState.ARRHYTHMIA
    assert watch(pulse, None, 7.0, 19.9) is HeartbeatState.ARRHYTHMIA
    assert watch(pulse, None, 19.9, 20.1) is HeartbeatState.ASYSTOLE


@pytest.mark.parametrize(
    ("after", "heart"),
    [
        (0.0, HeartbeatState.HEALTHY), (0.9, HeartbeatState.HEALTHY), (1.0, HeartbeatState.ARRHYTHMIA), (2.9, HeartbeatState.ARRHYTHMIA),
        (3.0, HeartbeatState.ASYSTOLE), (60.0, HeartbeatState.ASYSTOLE),
    ],
)  # fmt: skip
def test_a_second_without_a_new_beat_is_a_miss_and_three_are_death(
    pulse: HeartbeatMonitor, after: float, heart: HeartbeatState
) -> None:
    assert watch(pulse, _beat(1), 100.0, 100.0 + after) is heart
    assert pulse.age(100.0 + after) == pytest.approx(after)


def test_a_file_that_cannot_be_read_for_a_moment_is_no_death(pulse: HeartbeatMonitor) -> None:
    assert watch(pulse, None, 100.0, 100.5) is HeartbeatState.HEALTHY
    assert pulse.observe(_beat(2), 100.6) is HeartbeatState.HEALTHY
    assert watch(pulse, None, 100.6, 103.7) is HeartbeatState.ASYSTOLE


def test_the_same_number_is_no_new_beat_whatever_else_it_says(pulse: HeartbeatMonitor) -> None:
    told = Beat(number=1, state="DONE", done=99)
    assert watch(pulse, told, 100.0, 101.5) is HeartbeatState.ARRHYTHMIA


def test_a_number_that_went_back_is_new(pulse: HeartbeatMonitor) -> None:
    """Equality is asked, not order: a record written anew from 0 is a sign of life."""
    assert pulse.observe(_beat(0), 100.8) is HeartbeatState.HEALTHY
    assert pulse.age(100.8) == 0.0


@pytest.mark.parametrize("beat", [1, 240])
def test_an_observer_that_was_stopped_itself_blames_nobody(pulse: HeartbeatMonitor, beat: int) -> None:
    """A minute passed for it alone, or for all: what it did not watch is one miss at most, and soon forgotten."""
    assert pulse.observe(_beat(beat), 160.0) is not HeartbeatState.ASYSTOLE
    for i in range(10):
        heart = pulse.observe(_beat(300 + i), 160.1 + i / 10)
    assert heart is HeartbeatState.HEALTHY


def test_ten_good_looks_in_a_row_heal_an_arrhythmia(pulse: HeartbeatMonitor) -> None:
    assert watch(pulse, _beat(1), 100.0, 101.2) is HeartbeatState.ARRHYTHMIA
    for i in range(9):
        assert pulse.observe(_beat(2 + i), 101.3 + i / 10) is HeartbeatState.ARRHYTHMIA
    assert pulse.observe(_beat(11), 102.2) is HeartbeatState.HEALTHY
    assert pulse.missed == 0


def test_misses_add_up_until_ten_good_looks_in_a_row(pulse: HeartbeatMonitor) -> None:
    """It beats now and then, and is silent in between: three silences of a second are death."""
    now, number = 100.0, 1
    for heart in (HeartbeatState.ARRHYTHMIA, HeartbeatState.ARRHYTHMIA, HeartbeatState.ASYSTOLE):
        assert watch(pulse, _beat(number), now, now + 1.0) is heart
        now, number = now + 1.1, number + 1
        pulse.observe(_beat(number), now)


def test_the_dead_stay_dead(pulse: HeartbeatMonitor) -> None:
    assert watch(pulse, None, 100.0, 104.0) is HeartbeatState.ASYSTOLE
    for i in range(30):
        assert pulse.observe(_beat(2 + i), 104.1 + i / 10) is HeartbeatState.ASYSTOLE


def test_many_looks_between_two_beats_count_once(pulse: HeartbeatMonitor) -> None:
    for i in range(40):
        assert pulse.observe(_beat(2 + i // 3), 100.1 + i * 0.1) is HeartbeatState.HEALTHY
    assert pulse.missed == 0


def test_the_last_beat_is_kept(pulse: HeartbeatMonitor) -> None:
    told = Beat(number=2, state="READY", in_flight=4)
    pulse.observe(told, 100.2)
    pulse.observe(None, 100.3)
    assert pulse.beat is told
