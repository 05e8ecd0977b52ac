"""Judges heartbeats by the observer's own clock, and restarts after crashes."""

import time

from msgspec import Struct, field

from crawl_engine.model.node import HeartbeatState
from crawl_engine.runtime.beat_file import Beat
from crawl_engine.settings import Settings

MISSED_LIMIT = 3
_RECOVERY_SECONDS = 1.0
"""Seconds of fresh beats (ten ticks) after which the count of missed timeouts is reset."""

CRASH_LIMIT = 5
HEALTHY_SECONDS = 60.0
"""Seconds of life after which the count of crashes is reset."""
_MIN_RESTART_DELAY, _MAX_RESTART_DELAY = 0.2, 5.0


def count_crash(before: int, started_at: float) -> int:
    """Crashes in a row, with that of a process that was started at this monotonic second; `before`: those before it."""
    return 1 if time.monotonic() - started_at >= HEALTHY_SECONDS else before + 1


def restart_delay(crashes: int) -> float:
    """Seconds before a restart, after so many crashes in a row."""
    return min(_MAX_RESTART_DELAY, _MIN_RESTART_DELAY * 2.0 ** (crashes - 1))


class HeartbeatMonitor(Struct):
    """Judges the beats of one process by the observer's own monotonic clock.

    Silence counts only while the observer itself ran: a stopped observer declares nothing dead.
    """

    timeout: float = 1.0
    """Seconds without a new beat that count as one missed timeout."""
    start_timeout: float = 20.0
    """Seconds that a process has for its first beat: a start on a loaded machine is slow."""
    number: int = -1
    seen_at: float = field(default_factory=time.monotonic)
    observed_at: float | None = None
    silence: float = 0.0
    """Seconds of silence since the last beat or timeout."""
    has_beaten: bool = False
    missed: int = 0
    healthy_seconds: float = 0.0
    heart: HeartbeatState = HeartbeatState.NEWBORN
    beat: Beat | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> "HeartbeatMonitor":
        """A monitor with the timeouts of the settings."""
        return cls(timeout=settings.heart_timeout, start_timeout=settings.start_timeout)

    def observe(self, beat: Beat | None, now: float) -> HeartbeatState:
        """Judge the latest beat. ASYSTOLE means dead."""
        elapsed = min(max(0.0, now - (self.seen_at if self.observed_at is None else self.observed_at)), self.timeout)
        self.observed_at = now
        if beat is not None and beat.number != self.number:
            self.number, self.seen_at, self.beat, self.has_beaten = beat.number, now, beat, True
            self.silence = 0.0
        else:
            self.silence += elapsed
        limit = self.timeout if self.has_beaten else self.start_timeout / MISSED_LIMIT
        if self.silence >= limit - 1e-6:
            self.silence, self.healthy_seconds = 0.0, 0.0
            self.missed += 1
            self.heart = HeartbeatState.ASYSTOLE if self.missed >= MISSED_LIMIT else HeartbeatState.ARRHYTHMIA
        elif self.has_beaten and self.heart is not HeartbeatState.ASYSTOLE:
            self.healthy_seconds = self.healthy_seconds + elapsed if self.age(now) < self.timeout / 2 else 0.0
            if self.missed == 0 or self.healthy_seconds >= _RECOVERY_SECONDS - 1e-6:
                self.missed, self.heart = 0, HeartbeatState.HEALTHY
        return self.heart

    def age(self, now: float) -> float:
        """Seconds since the last new beat."""
        return now - self.seen_at
