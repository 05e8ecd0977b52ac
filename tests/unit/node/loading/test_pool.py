"""Real loader processes: warm, replaced, killed at a limit, with room for what they return."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.http.errors import NoRoom
from crawl_engine.model.definition import Definitions
from crawl_engine.model.step import ChainStep, PluginFile
from crawl_engine.node.loading.messages import Loaded, NotLoaded, encode_task
from crawl_engine.node.loading.pool import LoaderPool, LoaderProcess, LoaderUnavailable
from crawl_engine.processes.worker import WorkerEnded
from crawl_engine.settings import Settings
from tests.templates import template, template_pid

pytestmark = pytest.mark.timeout(90)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
PLUGIN = """
import os, sys, time
from crawl_console import PageResponse

class Load:
    def __init__(self, greeting="hello"):
        self.greeting, self.count = greeting, 0

    def load(self, request, context):
        self.count += 1
        name, _, value = request.url.removeprefix("http://a/").partition("=")
        if name == "sleep":
            time.sleep(float(value))
        if name == "raise":
            raise {"ValueError": ValueError, "Exit": SystemExit, "Key": KeyboardInterrupt}[value]("bad")
        if name == "size":
            return PageResponse(body=bytes(int(value)))
        return PageResponse(body=f"{self.greeting} {os.getpid()} {self.count} {request.body}".encode())
"""
STEP = ChainStep(name="loader", class_name="shop.Load", kind="loader")
MAX_BODY = 3_000_000


def definitions(text: str = PLUGIN) -> Definitions:
    return Definitions(plugins=(PluginFile(path="shop.py", text=text),))


@contextlib.asynccontextmanager
async def loader_pool(memory: int = 400_000_000) -> AsyncIterator[LoaderPool]:
    pool = LoaderPool(template(), Settings(parse_memory=memory, max_body=MAX_BODY))
    try:
        yield pool
    finally:
        pool.close()


def task(url: str, body: bytes | None = None) -> tuple[Mapping[str, Any], bytes]:
    context = {"url": url, "group": "g", "task": "t", "locator": "l", "depth": 0, "run": "r", "attempt": 1}
    return encode_task(url=url, method="GET", headers={}, body=body, context=context, max_body=MAX_BODY)


async def load(
    pool: LoaderPool, url: str = "http://a/", *, step: ChainStep = STEP, version: int = 1, seconds: float = 30.0
) -> Loaded:
    async with pool.reserve(step, definitions(), version, limit=30) as process:
        answer = await process.load(*task(url), seconds=seconds)
        assert isinstance(answer, Loaded)
        return answer


async def until(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        await asyncio.sleep(0.01)
    return bool(condition())


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_warm_process_loads_one_page_after_another() -> None:
    async with loader_pool() as pool:
        assert pool.has_free(STEP, 1)
        answers = [await load(pool) for _ in range(3)]
        [pid] = pool.pids
        assert [answer.body for answer in answers] == [f"hello {pid} {n} None".encode() for n in (1, 2, 3)]
        assert answers[0].headers == (("content-type", "text/html; charset=utf-8"),)
        assert (answers[0].status, answers[0].url) == (200, None)


async def test_no_more_pages_are_loaded_at_once_than_there_are_workers() -> None:
    async with loader_pool() as pool:
        step = replace(STEP, workers=2)
        tasks = [asyncio.create_task(load(pool, "http://a/sleep=0.2", step=step)) for _ in range(5)]
        assert await until(lambda: not pool.has_free(step, 1))
        answers = await asyncio.gather(*tasks)
        assert len({answer.body.split()[1] for answer in answers}) == 2
        assert pool.has_free(step, 1)


async def test_options_make_a_loader_of_its_own() -> None:
    async with loader_pool() as pool:
        other = replace(STEP, options={"greeting": "good day"})
        assert (await load(pool)).body.startswith(b"hello")
        assert (await load(pool, step=other)).body.startswith(b"good day")
        assert len(pool.pids) == 2


async def test_a_new_version_replaces_the_processes_and_an_old_one_is_served_still() -> None:
    async with loader_pool() as pool:
        await load(pool)
        [old] = pool.pids
        slow = asyncio.create_task(load(pool, "http://a/sleep=0.3"))
        await asyncio.sleep(0.1)
        new = (await load(pool, version=2)).body.split()[1]
        assert int((await slow).body.split()[1]) == old, "what it works on is finished"
        assert await until(lambda: pool.pids == [int(new)])
        late = (await load(pool, version=1)).body.split()[1]
        assert late not in (new, str(old).encode())
        assert await until(lambda: pool.pids == [int(new)])


@pytest.mark.parametrize("error", ["ValueError", "Exit", "Key"])
async def test_what_a_loader_raises_is_an_answer(error: str) -> None:
    async with loader_pool() as pool, pool.reserve(STEP, definitions(), 1, limit=30) as process:
        answer = await process.load(*task(f"http://a/raise={error}"), seconds=30)
        assert isinstance(answer, NotLoaded)
        assert (answer.kind, answer.text.partition(" (")[2]) == ("error", "plugins/shop.py:15)")


async def test_a_class_that_cannot_be_created_says_why() -> None:
    async with loader_pool() as pool:
        for text, reason in (("import x y", "SyntaxError"), ("1 / 0", "ZeroDivisionError"), ("", "AttributeError")):
            with pytest.raises(LoaderUnavailable, match=f"plugins/shop.py cannot be loaded: {reason}"):
                async with pool.reserve(STEP, definitions(text), 1, limit=30):
                    raise AssertionError
        with pytest.raises(LoaderUnavailable, match=r"cannot be created: its process ended \(exit 4\)"):
            async with pool.reserve(STEP, definitions("import os; os._exit(4)"), 1, limit=30):
                raise AssertionError
        with pytest.raises(LoaderUnavailable, match=r"cannot be created: takes longer than its limit of 0\.5 s"):
            async with pool.reserve(STEP, definitions("import time; time.sleep(60)"), 1, limit=0.5):
                raise AssertionError
        assert await until(lambda: not pool.pids)


async def test_a_page_past_its_limit_costs_the_process() -> None:
    async with loader_pool() as pool:
        await load(pool)
        [pid] = pool.pids
        with pytest.raises(WorkerEnded, match=r"takes longer than its limit of 0\.2 s"):
            await load(pool, "http://a/sleep=60", seconds=0.2)
        assert pool.pids == [], "its end is waited for, so that there are never more than `workers`"
        assert (await load(pool)).body.split()[1] != str(pid).encode()


async def test_a_cancelled_page_costs_the_process() -> None:
    async with loader_pool() as pool:
        sleeping = asyncio.create_task(load(pool, "http://a/sleep=60"))
        assert await until(lambda: pool.pids)
        await asyncio.sleep(0.2)
        sleeping.cancel()
        await asyncio.gather(sleeping, return_exceptions=True)
        assert await until(lambda: not pool.pids)
        assert await until(lambda: pool.has_free(STEP, 1))  # once what it sent is read, too


async def test_an_idle_process_that_ends_is_replaced() -> None:
    async with loader_pool() as pool:
        await load(pool)
        [pid] = pool.pids
        os.kill(pid, signal.SIGKILL)
        assert await until(lambda: not pool.pids)
        assert (await load(pool)).body.startswith(b"hello")


async def test_a_process_that_ends_between_its_choice_and_its_page_costs_an_attempt() -> None:
    async with loader_pool() as pool:
        await load(pool)
        [pid] = pool.pids
        with pytest.raises(WorkerEnded, match=r"its process ended \(signal 9\)"):
            async with pool.reserve(STEP, definitions(), 1, limit=30) as process:
                os.kill(pid, signal.SIGKILL)
                assert await until(lambda: not pool.pids)
                await process.load(*task("http://a/"), seconds=60)


@linux
async def test_a_template_that_ends_costs_an_attempt_and_is_replaced() -> None:
    async with loader_pool() as pool:
        await load(pool)  # else the process may not have its loader when its template is killed
        sleeping = asyncio.create_task(load(pool, "http://a/sleep=60"))
        await asyncio.sleep(0.1)
        [pid] = pool.pids
        os.kill(template_pid(), signal.SIGKILL)
        with pytest.raises(WorkerEnded, match="its process ended"):
            await sleeping
        assert (await load(pool)).body.startswith(b"hello")
        assert await until(lambda: not is_alive(pid))


@linux
@pytest.mark.parametrize("end", ["sleep=60", "exit=3"])
async def test_the_helpers_of_a_process_end_with_it(end: str) -> None:
    helper = 'import subprocess\nhelper = subprocess.Popen(["sleep", "1234"])\n'
    text = PLUGIN.replace("self.count += 1", "self.count += 1; self.greeting = str(helper.pid)")
    text = helper + text.replace(
        'if name == "raise"', 'if name == "exit":\n            os._exit(3)\n        if name == "raise"'
    )
    async with loader_pool() as pool:
        async with pool.reserve(STEP, definitions(text), 1, limit=30) as process:
            answer = await process.load(*task("http://a/"), seconds=30)
            assert isinstance(answer, Loaded)
            pid = int(answer.body.split()[0])
            assert is_alive(pid)
            with pytest.raises(WorkerEnded):
                await process.load(*task(f"http://a/{end}"), seconds=0.3 if end == "sleep=60" else 30)
        assert await until(lambda: not is_alive(pid))


@linux
async def test_closing_the_pool_ends_all_processes() -> None:
    async with loader_pool() as pool:
        await load(pool)
        [pid] = pool.pids
    assert await until(lambda: not is_alive(pid))


async def reserve_and_ask(pool: LoaderPool, size: int, budget: ByteBudget, seconds: float) -> tuple[int, LoaderProcess]:
    share = budget.open_share()
    async with pool.reserve(STEP, definitions(), 1, limit=30) as process:
        answer = await process.load(*task(f"http://a/size={size}"), seconds=seconds, share=share)
        assert isinstance(answer, Loaded)
        return len(answer.body), process


async def test_a_large_body_waits_for_room_and_that_time_does_not_count() -> None:
    async with loader_pool() as pool:
        await load(pool)
        budget = ByteBudget(capacity=3_000_000, largest=2_500_000)
        other = budget.open_share()
        await other.grow(2_400_000)  # the large reader
        asking = asyncio.create_task(reserve_and_ask(pool, 2_000_000, budget, 2.0))
        await asyncio.sleep(1.0)
        assert not asking.done()
        other.release()
        size, process = await asking
        assert size == 2_000_000
        assert process.waited > 0
        assert budget.used >= 1_900_000


async def test_a_body_that_gets_no_room_is_given_up_with_its_process() -> None:
    async with loader_pool() as pool:
        await load(pool)
        budget = ByteBudget(capacity=3_000_000, largest=2_500_000)
        other = budget.open_share()
        await other.grow(2_400_000)
        with pytest.raises(NoRoom):
            await reserve_and_ask(pool, 2_000_000, budget, 0.5)
        assert await until(lambda: not pool.pids)


async def test_a_body_over_the_limit_never_leaves_its_process() -> None:
    async with loader_pool() as pool, pool.reserve(STEP, definitions(), 1, limit=30) as process:
        answer = await process.load(*task("http://a/size=20000000"), seconds=30)
        assert isinstance(answer, NotLoaded)
        assert (answer.kind, answer.text) == ("too-large", "body over 3000000 bytes (max_body)")
        assert process.is_open


@linux
async def test_a_process_that_keeps_much_memory_is_replaced_before_it_costs_a_page() -> None:
    text = PLUGIN.replace("self.count += 1", "self.count += 1; self.kept = os.urandom(100_000_000)")
    async with loader_pool(memory=200_000_000) as pool:
        pids = []
        for _ in range(2):
            async with pool.reserve(STEP, definitions(text), 1, limit=30) as process:
                assert isinstance(await process.load(*task("http://a/"), seconds=30), Loaded)
                pids.append(process.pid)
        assert pids[0] != pids[1]
