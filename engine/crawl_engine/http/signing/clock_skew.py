"""Tells how wrong this clock is where a signed request was refused: a signature is valid for minutes."""

import email.utils
import time
from collections.abc import Mapping
from datetime import UTC

_TOLERATED = 120.0
"""Seconds."""


def describe_clock(headers: Mapping[str, str], now: float | None = None) -> str:
    """How wrong this machine's clock is beside that of a host, if signatures are refused for that; else empty."""
    try:
        date = email.utils.parsedate_to_datetime(headers.get("date", ""))
        there = date.replace(tzinfo=date.tzinfo or UTC).timestamp()
    except (TypeError, ValueError, OverflowError):
        return ""
    ahead = (time.time() if now is None else now) - there
    if abs(ahead) < _TOLERATED:
        return ""
    return f"this machine's clock is {abs(ahead) / 60:.0f} min {'ahead' if ahead > 0 else 'behind'}"
