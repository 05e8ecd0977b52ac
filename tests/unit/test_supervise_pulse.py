"""How a beat looks to its observer, who has only his own clock."""

import pytest

from engine.beats import Beat
from engine.model.node import Heart
from engine.supervise.children import Pulse


def _beat(number: int) -> Beat:
    return Beat(number=number, state="READY")


@pytest.fixture
def pulse() -> Pulse:
    """Of a process seen healthy at 100 s."""
    pulse = Pulse(seen_at=99.0)
    assert pulse.look(_beat(1), 100.0) is Heart.HEALTHY
    return pulse


def test_a_process_not_yet_heard_is_newborn_and_is_given_twenty_seconds() -> None:
    pulse = Pulse(seen_at=0.0)
    assert pulse.look(None, 6.0) is Heart.NEWBORN
    assert pulse.look(None, 7.0) is Heart.ARRHYTHMIA
    assert pulse.look(None, 19.9) is Heart.ARRHYTHMIA
    assert pulse.look(None, 20.0) is Heart.ASYSTOLE


@pytest.mark.parametrize(
    ("after", "heart"),
    [
        (0.0, Heart.HEALTHY), (0.99, Heart.HEALTHY), (1.0, Heart.ARRHYTHMIA), (2.99, Heart.ARRHYTHMIA),
        (3.0, Heart.ASYSTOLE), (60.0, Heart.ASYSTOLE),
    ],
)  # fmt: skip
def test_a_second_without_a_new_beat_is_a_miss_and_three_are_death(pulse: Pulse, after: float, heart: Heart) -> None:
    assert pulse.look(_beat(1), 100.0 + after) is heart
    assert pulse.age(100.0 + after) == pytest.approx(after)


def test_a_file_that_cannot_be_read_for_a_moment_is_no_death(pulse: Pulse) -> None:
    assert pulse.look(None, 100.5) is Heart.HEALTHY
    assert pulse.look(_beat(2), 100.6) is Heart.HEALTHY
    assert pulse.look(None, 103.7) is Heart.ASYSTOLE


def test_the_same_number_is_no_new_beat_whatever_else_it_says(pulse: Pulse) -> None:
    told = Beat(number=1, state="DONE", done=99)
    assert pulse.look(told, 101.5) is Heart.ARRHYTHMIA


def test_a_number_that_went_back_is_new(pulse: Pulse) -> None:
    """Equality is asked, not order: a record written anew from 0 is a sign of life."""
    assert pulse.look(_beat(0), 102.0) is Heart.HEALTHY
    assert pulse.age(102.0) == 0.0


def test_a_late_observer_blames_nobody(pulse: Pulse) -> None:
    """It was itself stopped for a minute: the first look shows a new beat."""
    assert pulse.look(_beat(240), 160.0) is Heart.HEALTHY


def test_ten_new_beats_in_a_row_heal_an_arrhythmia(pulse: Pulse) -> None:
    assert pulse.look(_beat(1), 101.2) is Heart.ARRHYTHMIA
    for i in range(9):
        assert pulse.look(_beat(2 + i), 101.3 + i / 4) is Heart.ARRHYTHMIA
    assert pulse.look(_beat(11), 104.0) is Heart.HEALTHY
    assert pulse.missed == 0


def test_a_miss_among_the_ten_starts_the_count_anew(pulse: Pulse) -> None:
    now, number = 101.2, 1
    assert pulse.look(_beat(number), now) is Heart.ARRHYTHMIA
    for _ in range(8):
        now, number = now + 0.25, number + 1
        pulse.look(_beat(number), now)
    now += 1.1
    assert pulse.look(_beat(number), now) is Heart.ARRHYTHMIA
    for _ in range(9):
        now, number = now + 0.25, number + 1
        assert pulse.look(_beat(number), now) is Heart.ARRHYTHMIA
    assert pulse.look(_beat(number + 1), now + 0.25) is Heart.HEALTHY


def test_many_looks_between_two_beats_count_once(pulse: Pulse) -> None:
    for i in range(40):
        assert pulse.look(_beat(2 + i // 3), 100.1 + i * 0.1) is Heart.HEALTHY
    assert pulse.missed == 0


def test_the_last_beat_is_kept(pulse: Pulse) -> None:
    told = Beat(number=2, state="READY", in_flight=4)
    pulse.look(told, 100.2)
    pulse.look(None, 100.3)
    assert pulse.beat is told
