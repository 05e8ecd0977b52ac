"""How long to wait, and what a status means for a job. Pure: no clock, no I/O; the caller adds waits to its own now."""

from typing import Literal

BASE_WAIT = 1.0
MAX_WAIT = 60.0
MAX_RETRY_AFTER = 3600.0

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_GONE_STATUSES = frozenset({404, 410})
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_MAX_DOUBLINGS = 16

StatusClass = Literal["ok", "redirect", "gone", "retry", "refused"]


def classify_status(status: int) -> StatusClass:
    """What an HTTP status means: a page, another place, nothing there, a later attempt, or a plain no."""
    if 200 <= status < 300:
        return "ok"
    if status in REDIRECT_STATUSES:
        return "redirect"
    if status in _GONE_STATUSES:
        return "gone"
    return "retry" if retryable_status(status) else "refused"


def retryable_status(status: int) -> bool:
    """Whether the same request may succeed later: any 5xx, 408, 425, 429."""
    return status in _TRANSIENT_STATUSES or 500 <= status < 600


def retry_wait(attempt: int, random: float) -> float:
    """Seconds before the next attempt at a job, after `attempt` (from 1) failures.

    Doubles from 1 s up to 60 s; `random` in [0, 1) takes away up to half, so that jobs that failed together do not
    come back together.
    """
    return _exponential_wait(attempt) * (1.0 - random / 2)


def host_backoff(consecutive: int, retry_after: float | None) -> float:
    """Seconds for which a whole host is left alone, after `consecutive` (from 1) answers of 429 or 503.

    Retry-After is honoured up to one hour; without it the wait doubles from 1 s up to 60 s.
    """
    if retry_after is not None:
        return min(max(retry_after, 0.0), MAX_RETRY_AFTER)
    return _exponential_wait(consecutive)


def _exponential_wait(count: int) -> float:
    return min(MAX_WAIT, BASE_WAIT * 2.0 ** min(max(count - 1, 0), _MAX_DOUBLINGS))
