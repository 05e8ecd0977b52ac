"""Reading a robots.txt for `try`: what cannot be read, and what the address guard refuses."""

import asyncio

import pytest

from engine.fetch.errors import AddressRefused, FetchFailed
from engine.fetch.response import FetchResponse
from engine.fetch.robots_reader import fetch_robots
from engine.model.job import Request

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
        asyncio.run(fetch_robots("http://inside.example/robots.txt", send, "us"))


@pytest.mark.parametrize(("host", "reason"), [("gone.example", "connection refused"), ("a", REFUSED.reason)])
def test_one_that_cannot_be_read_disallows_everything(host: str, reason: str) -> None:
    robots = asyncio.run(fetch_robots(f"http://{host}/robots.txt", send, "us"))
    assert not robots.readable
    assert robots.refusal(f"http://{host}/") == f"robots.txt cannot be read: {reason}"
