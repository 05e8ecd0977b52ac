"""A node's state and stalled threads, as its heartbeat reports them."""

import time
from collections.abc import Sequence
from typing import Protocol

from engine.node.capacity import Capacity
from engine.node.intake import Intake

_MIN_TICK_LIMIT, _DEADLINE_MARGIN = 10.0, 5.0
"""Seconds a thread may go without a tick: at least 10, and 5 more than a request may take."""


class Ticking(Protocol):
    """A part of the node that sets `ticked_at`, a monotonic second, again and again while it works."""

    ticked_at: float


class NodeStatus:
    """Derives the state from the parts of the node; holds none of its own."""

    def __init__(self, *, intake: Intake, capacity: Capacity, ticking: Sequence[Ticking], deadline: float) -> None:
        """`deadline`: the setting."""
        self._intake = intake
        self._capacity = capacity
        self._ticking = ticking
        self._tick_limit = max(_MIN_TICK_LIMIT, deadline + _DEADLINE_MARGIN)

    @property
    def state(self) -> str:
        """The state for the beat."""
        if self._intake.draining.is_set():
            return "DRAINING"
        if self._intake.standby:
            return "STANDBY"
        return "READY" if self._capacity.held else "DONE"

    @property
    def is_stalled(self) -> bool:
        """Whether a thread exceeded the tick limit, so that the beat must stop."""
        silence = time.monotonic() - min(part.ticked_at for part in self._ticking)
        return not self._intake.draining.is_set() and silence > self._tick_limit

    def mark_ticked(self) -> None:
        """Count every part as alive now: those that have not started yet are not stalled."""
        now = time.monotonic()
        for part in self._ticking:
            part.ticked_at = now
