import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.model.job import lease_limit, quota


@pytest.mark.parametrize(
    ("active", "slots", "expected"),
    [
        (0, 64, 64), (1, 64, 64), (1, 1, 1), (2, 64, 33), (3, 64, 22), (4, 64, 17), (5, 64, 13), (10, 64, 7),
        (63, 64, 2), (64, 64, 2), (65, 64, 1), (1000, 64, 1), (2, 1, 1), (3, 10, 4), (2, 0, 1), (1, 0, 0),
    ],
)  # fmt: skip
def test_quota_is_all_slots_for_one_sequence_else_an_equal_part_plus_one(
    active: int, slots: int, expected: int
) -> None:
    assert quota(active, slots) == expected


@pytest.mark.parametrize(
    ("active", "slots", "running", "free", "batch", "expected"),
    [
        (1, 64, 0, 100, 100, 64),  # alone: the quota itself
        (1, 64, 60, 100, 100, 4),
        (2, 64, 0, 100, 100, 29),  # ⌊0.9 × 33⌋
        (2, 64, 28, 100, 100, 1),
        (2, 64, 29, 100, 100, 0),
        (3, 64, 0, 100, 100, 19),  # ⌊0.9 × 22⌋
        (65, 64, 0, 100, 100, 1),  # the floor
        (65, 64, 1, 100, 100, 0),
        (2, 64, 0, 7, 100, 7),
        (2, 64, 0, 100, 5, 5),
        (2, 64, 0, 0, 100, 0),
        (2, 64, 99, 100, 100, 0),  # never negative
        (1, 0, 0, 10, 10, 0),
    ],
)
def test_limit_of_one_lease(active: int, slots: int, running: int, free: int, batch: int, expected: int) -> None:
    assert lease_limit(active=active, slots=slots, running=running, free=free, batch=batch) == expected


few = st.integers(0, 300)


@given(active=few, slots=few, running=few, free=few, batch=few)
def test_the_limit_never_exceeds_any_of_its_bounds(
    active: int, slots: int, running: int, free: int, batch: int
) -> None:
    got = lease_limit(active=active, slots=slots, running=running, free=free, batch=batch)
    assert 0 <= got <= min(free, batch)
    assert got == 0 or running + got <= max(1, quota(active, slots))
    exact = max(1, int(0.9 * quota(active, slots) + 1e-9)) if active > 1 else quota(active, slots)
    assert got == max(0, min(free, batch, exact - running))


@given(active=st.integers(2, 300), slots=st.integers(1, 300))
def test_every_sequence_may_run_one_job(active: int, slots: int) -> None:
    assert lease_limit(active=active, slots=slots, running=0, free=1, batch=1) == 1
