"""Asking for a robots.txt: what cannot be read, and what the address guard refuses."""

import asyncio

import pytest

from crawl_engine.http.errors import AddressRefused, FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.http.robots_request import MAX_ROBOTS_BYTES, ROBOTS_BYTES_READ, ask_for_robots
from crawl_engine.model.job import Request
from crawl_engine.robots.rules import HostRobots, parse_robots

REFUSED = AddressRefused("inside.example", 80, "10.0.0.1", "private")


async def send(url: str, request: Request) -> FetchResponse:
    """`inside.example` is guarded, `gone.example` does not answer, and all others redirect there."""
    if "inside.example" in url:
        raise REFUSED
    if "gone.example" in url:
        raise FetchFailed("connection refused", kind="connection", retryable=True)
    return FetchResponse(
        url=url, status=302, headers=(), body=b"", received=0, elapsed=0.0, content_type="",
        location="http://inside.example/robots.txt", location_problem="", retry_after=None,
    )  # fmt: skip


def test_a_guarded_host_is_said_to_be_guarded() -> None:
    with pytest.raises(AddressRefused):
        asyncio.run(ask_for_robots("http://inside.example/robots.txt", send))


@pytest.mark.parametrize(("host", "reason"), [("gone.example", "connection refused"), ("a", REFUSED.reason)])
def test_one_that_cannot_be_read_disallows_everything(host: str, reason: str) -> None:
    robots = parse_robots(*asyncio.run(ask_for_robots(f"http://{host}/robots.txt", send)), "us")
    assert not robots.readable
    assert robots.refusal(f"http://{host}/") == f"robots.txt cannot be read: {reason}"


def read(body: bytes) -> HostRobots:
    async def answer(url: str, request: Request) -> FetchResponse:
        return FetchResponse(
            url=url, status=200, headers=(), body=body, received=0, elapsed=0.0, content_type="text/plain",
            location=None, location_problem="", retry_after=None,
        )  # fmt: skip

    return parse_robots(*asyncio.run(ask_for_robots("http://a/robots.txt", answer)), "us")


@pytest.mark.parametrize("byte", [b"\0", b"\x01", b"\x0b", b"\x1a", b"\x1f", b"\xff"], ids=repr)
def test_a_control_byte_leaves_the_rules_in_force(byte: bytes) -> None:
    robots = read(b"# " + byte + b"\nUser-agent: *\nDisallow: /a\n" + byte)
    assert str(robots.refusal("http://a/a")).endswith(": Disallow: /a)")
    assert robots.refusal("http://a/b") is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=repr)
def test_the_line_at_500_kib_does_not_count(end: bytes) -> None:
    start, cut = end.join((b"User-agent: *", b"Disallow: /a", b"")), b"Disallow: /"
    filler = b"# \xc3\xa9" + end
    filler = filler * ((MAX_ROBOTS_BYTES - len(start) - len(cut)) // len(filler))
    space = b" " * (MAX_ROBOTS_BYTES - len(start) - len(filler) - len(cut))
    robots = read((start + filler + space + cut + b"b" + end + b"Disallow: /c")[:ROBOTS_BYTES_READ])
    assert [robots.refusal(f"http://a/{path}") is None for path in "abc"] == [False, True, True]


def test_a_file_of_500_kib_counts_to_its_end() -> None:
    start, last = b"User-agent: *\n", b"Disallow: /b"
    filler = b"#" * (MAX_ROBOTS_BYTES - len(start) - len(last) - 1) + b"\n"
    assert read(start + filler + last).refusal("http://a/b") is not None
    assert read(b"x" * ROBOTS_BYTES_READ).refusal("http://a/b") is None
