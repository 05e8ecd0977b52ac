"""How long a site asks to wait: Retry-After, and the headers of rate limits."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from crawl_engine.http.rate_limit import read_rate_limit
from crawl_engine.model.retry_policy import host_backoff
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
    now = ("date", "Sun, 06 Nov 1994 08:49:37 GMT")
    assert read_rate_limit(429, [now, ("retry-after", "Sun Nov  6 08:50:37 1994")]).wait == 60.0
    assert read_rate_limit(429, [now, ("retry-after", "Sunday, 06-Nov-94 08:50:07 GMT")]).wait == 30.0


_NOW = 1_800_000_000
_DATE = ("date", format_datetime(datetime.fromtimestamp(_NOW, UTC), True))


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": f"{_NOW + 40}"}, 40.0),
        ({"retry-after": f"{(_NOW + 40) * 1000}"}, 40.0),
        ({"retry-after": f"{_NOW - 40}"}, None),
        ({"retry-after": "1000000000000"}, None),
        ({"x-ratelimit-reset": f"{_NOW + 40}"}, 40.0),
        ({"x-ratelimit-reset": "40"}, 40.0),
        ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": f"{_NOW + 40}.5"}, 40.5),
        ({"x-ratelimit-remaining": "12", "x-ratelimit-reset": "40"}, None),
        ({"x-ratelimit-reset-after": "1.25"}, 1.25),
        ({"x-ratelimit-reset": "Fri, 15 Jan 2027 08:00:40 GMT"}, 40.0),
        ({"ratelimit-limit": "10", "ratelimit-remaining": "0", "ratelimit-reset": "40"}, 40.0),
        ({"ratelimit-remaining": "0, 900", "ratelimit-reset": "5, 86400"}, 5.0),
        ({"ratelimit": "limit=10, remaining=0, reset=40"}, 40.0),
        ({"ratelimit": '"burst";r=0;t=40, "day";r=900;t=4000', "ratelimit-policy": '"burst";q=10;w=60'}, 40.0),
        ({"ratelimit": '"burst";r=3;t=40'}, None),
        ({"retry-after": "7", "x-ratelimit-reset": "40"}, 7.0),
        ({"retry-after": "-1", "x-ratelimit-reset": "40"}, 40.0),
        ({"ratelimit": ", ".join(['"x";r=0;t=1'] * 900)}, 1.0),
        ({"ratelimit": "=;,\t" * 2_500, "x-ratelimit-reset": "soon", "x-ratelimit-remaining": "nan"}, None),
        ({"ratelimit": "r=0;t=" + "9" * 10_000}, float("inf")),
    ],
)
def test_a_429_says_how_long_to_wait(headers: dict[str, str], wait: float | None) -> None:
    limit = read_rate_limit(429, [_DATE, *headers.items()])
    assert limit.is_exceeded
    assert limit.wait == wait
    assert host_backoff(1, limit.wait) <= 3600


@pytest.mark.parametrize(
    ("headers", "limit"),
    [
        ({}, (None, False)),
        ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "40"}, (None, False)),
        ({"x-ratelimit-reset": "40"}, (None, False)),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "40"}, (40.0, True)),
        ({"x-ratelimit-remaining": "0"}, (None, True)),
        ({"retry-after": "60"}, (60.0, True)),
    ],
)
def test_a_403_is_a_rate_limit_where_it_says_so(headers: dict[str, str], limit: tuple[float | None, bool]) -> None:
    assert read_rate_limit(403, [*headers.items()]) == limit


def test_pages_that_tell_their_limit_ask_for_no_wait() -> None:
    assert read_rate_limit(200, [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "40")]) == (None, False)
