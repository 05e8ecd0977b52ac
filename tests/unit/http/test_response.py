"""Retry-After: seconds, dates, and several headers at once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from engine.http.response import parse_retry_after
from tests.unit.http.server import Site, serving
from tests.unit.http.test_client import fetch


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        ("0", None),
        ("1.5", 1.5),
        ("6, 4", 6.0),
        ("0, Fri, 31 Dec 1999 23:59:59 GMT, 7", 7.0),
        ("120 seconds", 120.0),
        ("30s, 20 Sec", 30.0),
        ("soon", None),
        ("2 minutes", None),
        ("-5", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ("9" * 400, None),
    ],
)
def test_retry_after(site: Site, header: str, seconds: float | None) -> None:
    site.pages["/"] = lambda x: x.respond(b"busy", f"Retry-After: {header}", status="503 Busy")
    response = fetch(site.url("/"))
    assert (response.status, response.body) == (503, b"busy")
    if len(header) < 100:
        assert response.retry_after == seconds
    else:
        assert response.retry_after is not None and response.retry_after > 3600


def test_a_retry_after_date_is_relative_to_the_servers_clock(site: Site) -> None:
    wrong_now = datetime.now(UTC) - timedelta(days=3)
    dates = (
        f"Date: {format_datetime(wrong_now, True)}",
        f"Retry-After: {format_datetime(wrong_now + timedelta(0, 90), True)}",
    )
    site.pages["/"] = lambda x: x.respond(b"", *dates, status="429 Slow down")
    assert fetch(site.url("/")).retry_after == 90.0


def test_the_longest_of_several_retry_after_counts(site: Site) -> None:
    for first, second in (("6", "0"), ("0", "6")):
        headers = (f"Retry-After: {first}", f"Retry-After: {second}")
        site.pages["/"] = lambda x, headers=headers: x.respond(b"", *headers, status="429 Slow down")
        assert fetch(site.url("/")).retry_after == 6.0


def test_the_old_form_of_a_date_is_utc_too() -> None:
    now = b"Sun, 06 Nov 1994 08:49:37 GMT"
    assert parse_retry_after(b"Sun Nov  6 08:50:37 1994", now) == 60.0
    assert parse_retry_after(b"Sunday, 06-Nov-94 08:50:07 GMT", now) == 30.0
