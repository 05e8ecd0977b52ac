"""Idle connections: within the limit of open files, the oldest closed first, none for long."""

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest

from crawl_engine.http.transports.idle_connections import IdleConnections
from tests.unit.http.server import serving

PATH = "crawl_engine.http.transports.idle_connections"


class Connection:
    def __init__(self, *, can_serve: bool = True) -> None:
        self.is_closed = False
        self.idle_since = 0.0
        self._can_serve = can_serve

    def can_serve(self) -> bool:
        return self._can_serve

    def close(self) -> None:
        self.is_closed = True


def run(work: Callable[[IdleConnections], Awaitable[None]]) -> None:
    async def main() -> None:
        await work(IdleConnections())

    asyncio.run(main())


def test_the_newest_that_can_serve_is_taken_and_the_others_are_closed() -> None:
    async def work(idle: IdleConnections) -> None:
        first, second, third = Connection(), Connection(), Connection(can_serve=False)
        for one in (first, second, third):
            idle.keep("a", one)
        assert idle.take("b") is None
        assert idle.take("a") is second
        assert (third.is_closed, first.is_closed) == (True, False)
        assert idle.take("a") is first
        assert idle.take("a") is None

    run(work)


def test_beyond_the_limit_the_oldest_of_all_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (12, 12))

    async def work(idle: IdleConnections) -> None:
        connections = [Connection() for _ in range(5)]
        for number, one in enumerate(connections):
            idle.keep(number % 2, one)
        assert [one.is_closed for one in connections] == [True, True, False, False, False]
        assert (idle.take(0), idle.take(1)) == (connections[4], connections[3])

    run(work)


def test_none_stays_for_long_though_no_other_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PATH}._IDLE_SECONDS", 0.1)

    async def work(idle: IdleConnections) -> None:
        old, young = Connection(), Connection()
        idle.keep("a", old)
        await asyncio.sleep(0.06)
        idle.keep("b", young)
        await asyncio.sleep(0.06)
        assert (old.is_closed, young.is_closed) == (True, False)
        await asyncio.sleep(0.1)
        assert young.is_closed
        assert idle._timer is None

    run(work)


def test_all_can_be_closed() -> None:
    async def work(idle: IdleConnections) -> None:
        connections = [Connection() for _ in range(3)]
        for one in connections:
            idle.keep("a", one)
        idle.close_all()
        assert all(one.is_closed for one in connections)
        assert idle.take("a") is None

    run(work)


FEW_FILES = """
import asyncio, os, resource, sys
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import NoFileLeft
from crawl_engine.model.job import Request

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def use_up_files():
    try:
        while True:
            os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return


async def main():
    fetcher = Fetcher(user_agent="t", deadline=5, max_body=1000, connections=4)
    one, other, third = sys.argv[1:]
    await asyncio.gather(*[fetcher.send(one, Request(), exempt=True) for _ in range(4)])
    use_up_files()
    print((await fetcher.send(other, Request(), exempt=True)).status)
    use_up_files()
    try:
        await asyncio.gather(*[fetcher.send(url, Request(), exempt=True) for url in (one, other, third)])
    except NoFileLeft as error:
        print(error)
    os._exit(0)


asyncio.run(main())
"""


def test_without_an_open_file_idle_connections_are_closed_and_then_the_request_waits() -> None:
    with ExitStack() as stack:
        sites = [stack.enter_context(serving()) for _ in range(3)]
        for site in sites:
            site.pages["/"] = lambda x: time.sleep(0.2) or x.respond(b"x")
        command = [sys.executable, "-c", FEW_FILES, *(site.url("/") for site in sites)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    named = "no open file is left to this process for a connection (ulimit -n)"
    assert done.stdout.splitlines() == ["200", named], done.stderr
