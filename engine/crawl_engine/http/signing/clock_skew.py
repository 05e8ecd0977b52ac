"""Tells how wrong this clock is where a signed request was refused: a signature is valid for minutes."""

import time
from collections.abc import Mapping

from crawl_engine.runtime.mail_date import read_mail_date

_TOLERATED = 120.0
"""Seconds."""


def describe_clock(headers: Mapping[str, str], now: float | None = None) -> str:
    """How wrong this machine's clock is beside that of a host, if signatures are refused for that; else empty."""
    there = read_mail_date(headers.get("date", ""))
    ahead = 0.0 if there is None else (time.time() if now is None else now) - there
    if abs(ahead) < _TOLERATED:
        return ""
    return f"this machine's clock is {abs(ahead) / 60:.0f} min {'ahead' if ahead > 0 else 'behind'}"
