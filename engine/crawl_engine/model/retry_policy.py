"""Decides which HTTP statuses are retried, and how long hosts rest (backoff, Retry-After)."""

from collections.abc import Container
from typing import Literal

BASE_WAIT = 1.0
MAX_WAIT = 60.0
MAX_RETRY_AFTER = 3600.0

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
FOUND = 302
"""Stands for the redirects that a plugin loader has followed."""
SEE_OTHER = 303
"""The target is asked for with a GET; stands for a meta refresh."""
NOT_MODIFIED = 304
"""The answer to a request that names the newest version."""
OVERLOAD_STATUSES = frozenset({429, 503})
_GONE_STATUSES = frozenset({404, 410})
_NO_PAGE_STATUSES = {
    204: "no content",
    205: "no content",
    206: "a part of the page, which was not asked for",
}
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_MAX_DOUBLINGS = 16

StatusClass = Literal["ok", "no-page", "redirect", "gone", "retry", "refused"]


def classify_status(status: int, retried: Container[int] = ()) -> StatusClass:
    """`retried`: statuses that the defs of the host retry, too."""
    if status in retried:
        return "retry"
    if status in _NO_PAGE_STATUSES:
        return "no-page"
    if 200 <= status < 300:
        return "ok"
    if status in REDIRECT_STATUSES:
        return "redirect"
    if status in _GONE_STATUSES:
        return "gone"
    return "retry" if retryable_status(status) else "refused"


def no_page_reason(status: int) -> str:
    """Why a status of the class `no-page` gives no page, for the job's reason."""
    return f"HTTP {status} ({_NO_PAGE_STATUSES[status]})"


def refused_reason(status: int) -> str:
    """Why a status of the class `refused` fails its job."""
    return "HTTP 304 (not modified), though no version was named" if status == NOT_MODIFIED else f"HTTP {status}"


def retryable_status(status: int) -> bool:
    """Whether the same request may succeed later: 5xx, 408, 425, 429."""
    return status in _TRANSIENT_STATUSES or 500 <= status < 600


def retry_wait(attempt: int, random: float) -> float:
    """Seconds before the next attempt at a job, after `attempt` (≥ 1) failures.

    Doubles from 1 s to 60 s. `random` in [0, 1) reduces it by up to half, so that jobs that failed together are not
    retried together.
    """
    return _exponential_wait(attempt) * (1.0 - random / 2)


def host_backoff(consecutive: int, retry_after: float | None) -> float:
    """Seconds without requests to a host, after `consecutive` (≥ 1) responses of 429 or 503.

    `retry_after` (> 0) counts up to one hour; without it the wait doubles from 1 s to 60 s.
    """
    if retry_after is not None:
        return min(retry_after, MAX_RETRY_AFTER)
    return _exponential_wait(consecutive)


def _exponential_wait(count: int) -> float:
    return min(MAX_WAIT, BASE_WAIT * 2.0 ** min(max(count - 1, 0), _MAX_DOUBLINGS))
