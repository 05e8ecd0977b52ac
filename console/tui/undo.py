"""Takes back the last orders of this console, where that is safe."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

Command = Callable[[], tuple[bool, str]]
"""Sends an order; returns whether it succeeded, and the answer."""

_MAX_STEPS = 20


class UndoStep(NamedTuple):
    """How to take back one order. `label`: what it takes back."""

    label: str
    command: Command


class UndoStack:
    """The newest steps, the last one first to go."""

    def __init__(self) -> None:
        self._steps: deque[UndoStep] = deque(maxlen=_MAX_STEPS)

    def push(self, label: str, command: Command) -> None:
        """Remember how to take back an order that succeeded."""
        self._steps.append(UndoStep(label, command))

    def pop(self) -> UndoStep | None:
        """The step to take now; None: there is nothing to take back."""
        return self._steps.pop() if self._steps else None
