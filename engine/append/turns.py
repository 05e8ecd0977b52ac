"""Runs the turns of a loop until it is drained or stopped."""

from typing import Protocol

from engine.append.patience import GIVE_UP_SECONDS, Patience
from engine.append.retries import RETRY_SECONDS, OutputRetries
from engine.append.stop_signal import Monitor, StopSignal
from engine.append.turn_result import SupervisorGone, TurnResult
from engine.store.db.connector import DatabaseBusy

FLUSH_SECONDS = 0.2
"""Seconds between two flushes while rows arrive slowly."""
IDLE_MIN_SECONDS, IDLE_MAX_SECONDS = 0.02, 0.1


class Turns(Protocol):
    """A loop, turn by turn."""

    def run_turn(self) -> TurnResult:
        """Do the next part of the work. Raises DatabaseBusy, SupervisorGone, Fenced."""


def run_turns(
    loop: Turns,
    retries: OutputRetries,
    monitor: Monitor,
    stop: StopSignal,
    *,
    give_up_seconds: float = GIVE_UP_SECONDS,
) -> None:
    """Write until drained or stopped. Raises Fenced if another appender has taken over.

    `give_up_seconds`: while draining, how long outputs may fail with nothing written.
    """
    idle, patience, was_draining = IDLE_MIN_SECONDS, Patience(give_up_seconds), False
    while not stop.supervisor_gone:
        monitor.tick()
        if stop.draining and not was_draining:
            was_draining, patience = True, Patience(give_up_seconds)
            retries.begin_drain()
        try:
            turn = loop.run_turn()
        except DatabaseBusy as busy:
            retries.report(busy.message)
            monitor.pause(RETRY_SECONDS)
            continue
        except SupervisorGone:
            return
        if not retries.failing:
            monitor.problem = ""
        if turn is TurnResult.IDLE and stop.draining:
            return
        if (
            patience.is_over(failing=retries.failing, written_at=retries.written_at)
            and stop.draining
            and turn is TurnResult.BLOCKED
        ):
            return
        monitor.state = "DONE" if turn is TurnResult.IDLE else "READY"
        if turn is TurnResult.IDLE or turn is TurnResult.BLOCKED:
            monitor.pause(idle)
            idle = min(IDLE_MAX_SECONDS, idle * 1.2)
            continue
        idle = IDLE_MIN_SECONDS
        if turn is TurnResult.WROTE and not stop.draining:
            monitor.pause(FLUSH_SECONDS)
