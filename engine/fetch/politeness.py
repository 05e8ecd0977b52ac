"""How long to wait, and what a status means for a job. Pure: no clock, no I/O; the caller adds waits to its own now."""

from typing import Literal

BASE_WAIT = 1.0
LONGEST_WAIT = 60.0
LONGEST_RETRY_AFTER = 3600.0

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GONE = frozenset({404, 410})
_TRANSIENT = frozenset({408, 425, 429})
_ENOUGH_DOUBLINGS = 16

Verdict = Literal["ok", "redirect", "gone", "retry", "refused"]


def verdict(status: int) -> Verdict:
    """What an HTTP status means: a page, another place, nothing there, a later attempt, or a plain no."""
    if 200 <= status < 300:
        return "ok"
    if status in REDIRECTS:
        return "redirect"
    if status in _GONE:
        return "gone"
    return "retry" if retryable_status(status) else "refused"


def retryable_status(status: int) -> bool:
    """Whether the same request may succeed later: any 5xx, 408, 425, 429."""
    return status in _TRANSIENT or 500 <= status < 600


def retry_wait(attempt: int, random: float) -> float:
    """Seconds before the next attempt at a job, after `attempt` (from 1) failures.

    Doubles from 1 s up to 60 s; `random` in [0, 1) takes away up to half, so that jobs that failed together do not
    come back together.
    """
    return _doubled(attempt) * (1.0 - random / 2)


def host_backoff(consecutive: int, retry_after: float | None) -> float:
    """Seconds for which a whole host is left alone, after `consecutive` (from 1) answers of 429 or 503.

    Retry-After is honoured up to one hour; without it the wait doubles from 1 s up to 60 s.
    """
    if retry_after is not None:
        return min(max(retry_after, 0.0), LONGEST_RETRY_AFTER)
    return _doubled(consecutive)


def _doubled(count: int) -> float:
    return min(LONGEST_WAIT, BASE_WAIT * 2.0 ** min(max(count - 1, 0), _ENOUGH_DOUBLINGS))
