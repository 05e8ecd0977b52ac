"""A worker alone: questions by their number, several at once, their time, their ends; a pool of workers."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import orjson
import pytest

from crawl_engine.processes.frames import InvalidAnswer
from crawl_engine.processes.launcher import Launcher, OwnTemplate
from crawl_engine.processes.orders import ProcessKind
from crawl_engine.processes.pool import Need, Pool
from crawl_engine.processes.worker import Question, Worker, WorkerEnded

KIND = """
import os, threading, time
from crawl_engine.processes.frames import PREFIX, encode_frame, serve
import json

def echo(start):
    def answer(header, body):
        time.sleep(header.get("sleep", 0))
        if "exit" in header:
            os._exit(header["exit"])
        return {"pid": os.getpid(), "size": len(body)}, body
    serve(start.connect(), answer)

def side_by_side(start):
    connection = start.connect()

    def work(number, header):
        time.sleep(header.get("sleep", 0))
        connection.sendall(b"".join(encode_frame({"asked": header}, b"", header.get("number", number))))

    while prefix := connection.recv(PREFIX.size):
        number, size, _ = PREFIX.unpack(prefix)
        threading.Thread(target=work, args=(number, json.loads(connection.recv(size))), daemon=True).start()
"""
ECHO = ProcessKind("kind:echo", "test", leads_session=True)
SIDE_BY_SIDE = ProcessKind("kind:side_by_side", "test")


@pytest.fixture
async def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Launcher]:
    (tmp_path / "kind.py").write_text(KIND)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own = OwnTemplate(["kind"])
    launcher = Launcher(own, "test")
    yield launcher
    launcher.close()
    own.close()


def question(seconds: float = 20.0, body: bytes = b"", **header: object) -> Question[dict[str, object]]:
    def read(header: memoryview, body: memoryview) -> dict[str, object]:
        fields: dict[str, object] = orjson.loads(header)
        if fields.get("size", len(body)) != len(body):
            raise InvalidAnswer("of another size")
        return fields

    return Question(header, body, seconds=seconds, read=read)


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_questions_are_answered_in_order_and_large_ones_too(launcher: Launcher) -> None:
    worker = Worker(launcher, ECHO, max_bytes=3_000_000)
    sizes = (0, 10, 2_000_000, 5)
    answers = await asyncio.gather(*(worker.ask(question(body=bytes(size))) for size in sizes))
    assert [answer["size"] for answer in answers] == list(sizes)
    assert {answer["pid"] for answer in answers} == {worker.pid}
    await worker.end()


async def test_a_worker_may_work_on_several_questions_at_once(launcher: Launcher) -> None:
    worker = Worker(launcher, SIDE_BY_SIDE, max_bytes=10_000, is_serial=False)
    done = list[object]()

    async def ask(seconds: float) -> None:
        done.append(await worker.ask(question(sleep=seconds)))

    await asyncio.gather(*map(ask, (0.6, 0.3, 0.0)))
    assert done == [{"asked": {"sleep": seconds}} for seconds in (0.0, 0.3, 0.6)]
    with pytest.raises(WorkerEnded, match=r"takes longer than its limit of 0\.3 s"):
        await asyncio.gather(worker.ask(question(sleep=60)), worker.ask(question(0.3, sleep=60)))
    assert not worker.is_open


async def test_the_time_of_a_question_begins_after_the_one_before(launcher: Launcher) -> None:
    worker = Worker(launcher, ECHO, max_bytes=10_000)
    await worker.ask(question())  # it has started
    assert len(await asyncio.gather(*(worker.ask(question(0.9, sleep=0.5)) for _ in range(3)))) == 3
    await worker.end()


async def test_an_end_says_why_and_which_question_was_the_first(launcher: Launcher) -> None:
    worker = Worker(launcher, ECHO, max_bytes=10_000)
    ends = await asyncio.gather(
        worker.ask(question(exit=3)), worker.ask(question()), return_exceptions=True
    )  # fmt: skip
    assert [(str(end), end.is_first, end.is_late) for end in ends if isinstance(end, WorkerEnded)] == [
        ("its process ended (exit 3)", True, False), ("its process ended (exit 3)", False, False)
    ]  # fmt: skip
    with pytest.raises(WorkerEnded, match="exit 3"):
        await worker.ask(question())


@pytest.mark.parametrize(("header", "most"), [({"number": 7}, 10_000), ({}, 5)])
async def test_what_nobody_asked_for_and_what_is_too_large_kills_the_worker(
    launcher: Launcher, header: dict[str, int], most: int
) -> None:
    worker = Worker(launcher, SIDE_BY_SIDE, max_bytes=most)
    with pytest.raises(WorkerEnded, match="its process sent an invalid answer"):
        await worker.ask(question(**header))
    assert worker.is_broken
    assert worker.ended is not None
    assert worker.ended.cause == "signal 9"


async def test_a_worker_that_needs_too_much_memory_is_killed(launcher: Launcher) -> None:
    worker = Worker(launcher, ECHO, max_bytes=10_000, memory=1_000_000)
    with pytest.raises(WorkerEnded, match="needs more than 1 MB; the limit is parse_memory"):
        await worker.ask(question(sleep=60))


async def test_a_pool_has_no_more_workers_than_it_may_and_serves_in_order(launcher: Launcher) -> None:
    pool: Pool[Worker, Need] = Pool(lambda _: Worker(launcher, ECHO, max_bytes=10_000))
    served: list[int] = []

    async def work(number: int) -> object:
        async with pool.reserve(Need("a", size=2)) as worker:
            served.append(number)
            return (await worker.ask(question(sleep=0.05)))["pid"]

    pids = await asyncio.gather(*map(work, range(6)))
    assert served == list(range(6))
    assert len(set(pids)) == 2
    os.kill(pool.pids[0], signal.SIGKILL)
    await until(lambda: len(pool.processes) == 1)
    assert await work(6) in pids
    pool.close()


async def test_a_claim_that_is_given_up_takes_no_worker(launcher: Launcher) -> None:
    pool: Pool[Worker, Need] = Pool(lambda _: Worker(launcher, ECHO, max_bytes=10_000))
    async with pool.reserve(Need("a")):
        waiting = [asyncio.ensure_future(pool.take(Need("a"))) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    assert (await waiting[1]).serves
    pool.close()


async def test_a_newer_version_ends_what_only_older_ones_need(launcher: Launcher) -> None:
    pool: Pool[Worker, Need] = Pool(lambda _: Worker(launcher, ECHO, max_bytes=10_000))
    for key, version in (("old", 1), ("both", 1), ("both", 2)):
        async with pool.reserve(Need(key, version=version)):
            pass
    await until(lambda: [worker.key for worker in pool.processes] == ["both"])
    async with pool.reserve(Need("old", version=1)):
        pass
    await until(lambda: [worker.key for worker in pool.processes] == ["both"])
    pool.close()
