"""The gaps between the requests that a server got, judged against the delay of its host."""

from collections.abc import Sequence
from itertools import pairwise

from .stopwatch import slowness


def assert_spaced(times: Sequence[float], delay: float) -> None:
    """Asserts by their sorted arrival times that no request came sooner than `delay` seconds after the one before it.

    A request may be sent late by a tenth of the delay. A server that does not run for a moment sees requests later
    still: the gap before them is then as much longer as those after them are shorter, which is allowed up to 150 ms;
    for the first one, which has no gap before it, up to half a delay.
    """
    loaded = slowness()
    shortest = delay - min(0.05, delay / 10) - 0.02 * loaded
    gaps = [later - earlier for earlier, later in pairwise(times)]
    late = min(delay / 2, 0.15 * loaded)  # the first request may be seen late, with no gap before it
    for number, gap in enumerate(gaps):
        assert gap + late >= shortest, f"gap {number} of {' '.join(f'{gap:.4f}' for gap in gaps)}"
        if gap < delay or gap > 1.1 * delay:
            late = min(max(0.0, late + gap - delay), 0.15 * loaded)
        elif not number:
            late = 0.0
