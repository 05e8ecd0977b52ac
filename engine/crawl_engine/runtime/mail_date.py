"""Reads dates as mail writes them (RFC 5322): those of HTTP headers and of RSS feeds."""

from datetime import UTC
from email.utils import parsedate_to_datetime


def read_mail_date(text: str) -> float | None:
    """The Unix time that a date stands for, in UTC unless it says otherwise; None if it is not a date."""
    try:
        date = parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
