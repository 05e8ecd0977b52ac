"""Real extraction processes: their answers, their limits, and what their deaths do to documents."""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from crawl_engine.node.extraction.page_extraction import UnreadablePage, UnsupportedContent
from crawl_engine.node.extraction.process_pool import BUSY_SECONDS, QUEUED_SMALL, ExtractionPool
from crawl_engine.node.extraction.request import ExtractionRequest
from crawl_engine.node.extraction.result import PageResult, SitemapResult
from crawl_engine.node.rules.refresh import RefreshPart
from crawl_engine.runtime.beat_file import resident_bytes
from crawl_engine.store.pages.body import Body
from tests.templates import template, template_pid
from tests.unit.node.extraction.messages import columns
from tests.unit.node.extraction.tasks import PAGE, SLOW_FIELD, STORM, extraction_pool, limits, request, title

pytestmark = pytest.mark.timeout(90)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
TITLE = '{"title":"title","last":[]}'


async def until(condition: object, seconds: float = 10.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        await asyncio.sleep(0.01)
    return bool(condition())


async def one_pid(pool: ExtractionPool) -> int:
    assert await until(lambda: len(pool.pids) == 1)
    return pool.pids[0]


def children() -> set[int]:
    """The child processes of this one."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def has_ended(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


async def test_a_page_gives_rows_links_and_rejections() -> None:
    async with extraction_pool() as pool:
        answer = await pool.work(request())
    assert isinstance(answer, PageResult)
    assert title(answer) == TITLE
    [link] = list(answer.links)
    assert (link.url, link.group, len(link.key)) == ("http://a/x", "g", 16)
    assert list(columns(answer).list_new(lambda _: False)) == []


async def test_a_page_that_leads_on_by_itself_gives_nothing_else() -> None:
    body = b"<meta http-equiv=refresh content='0;url=%b'>" + PAGE
    async with extraction_pool() as pool:
        for target, rows, links in ((b"/next", 0, 0), (b"/", 1, 1)):
            page = request(body % target)
            page.header["context"]["rules"] = {"refresh": ""}
            answer = await pool.work(page)
            assert isinstance(answer, PageResult)
            assert answer.parts == {"refresh": RefreshPart(f"http://a{target.decode()}", is_own=bool(rows))}
            assert (len(answer.rows), len(list(answer.links))) == (rows, links)


async def test_what_is_no_page_is_refused_and_a_sitemap_is_read_up_to_the_limit_of_the_protocol() -> None:
    urls = "".join(f"<url><loc>http://a/{number}</loc></url>" for number in range(50_009))
    urls += f"<url><loc>http://a/{'x' * 20_000}</loc></url>"
    header = {"kind": "sitemap", "content_type": "application/xml"}
    async with extraction_pool() as pool:
        with pytest.raises(UnsupportedContent, match="image/png"):
            await pool.work(request(b"\x89PNG" + bytes(100), "image/png"))
        answer = await pool.work(ExtractionRequest(header=header, body=Body(f"<urlset>{urls}</urlset>".encode())))
    assert isinstance(answer, SitemapResult)
    assert (len(answer.pages), next(iter(answer.pages)), answer.dropped) == (50_000, "http://a/0", 10)


async def test_a_sitemap_is_read_with_the_moments_of_its_pages() -> None:
    paths = ["x" * 20_000, "2", "3"]
    urls = "".join(
        f"<url><loc>http://a/{path}</loc><lastmod>2020-01-0{number}</lastmod></url>"
        for number, path in enumerate(paths, 1)
    )
    header = {"kind": "sitemap", "content_type": "application/xml", "now": 1_700_000_000.0}
    async with extraction_pool() as pool:
        answer = await pool.work(ExtractionRequest(header=header, body=Body(f"<urlset>{urls}</urlset>".encode())))
    assert isinstance(answer, SitemapResult)
    assert (tuple(answer.pages), answer.dropped) == (("http://a/2", "http://a/3"), 1)
    assert list(answer.modified) == [1_578_009_600, 1_578_096_000]


async def test_one_warm_process_serves_many_pages_in_order() -> None:
    async with extraction_pool() as pool:
        await pool.work(request())
        pid = await one_pid(pool)
        pages = [request(b"<b>%d</b>" % number) for number in range(100)]
        answers = await asyncio.gather(*map(pool.work, pages))
        assert pool.pids[0] == pid  # on a loaded machine a page may take so long that it gets a second process
    assert [title(answer) for answer in answers] == [f'{{"title":"{n}","last":[]}}' for n in range(100)]


async def test_a_page_that_takes_long_gets_the_others_a_second_process() -> None:
    async with extraction_pool(limits(seconds=60)) as pool:
        await pool.work(request())
        slow = asyncio.ensure_future(pool.work(request(STORM)))
        await asyncio.sleep(0.4)
        assert title(await asyncio.wait_for(pool.work(request()), 30)) == TITLE
        assert not slow.done()
        assert len(pool.pids) == 2
        slow.cancel()


async def test_a_page_past_its_cpu_time_fails_with_what_was_worked_on() -> None:
    async with extraction_pool(limits(seconds=0.4)) as pool:
        with pytest.raises(UnreadablePage) as parsing:
            await pool.work(request(STORM))
        with pytest.raises(UnreadablePage) as selecting:
            await pool.work(request(SLOW_FIELD))
        assert title(await pool.work(request())) == TITLE
    for error, detail in ((parsing, "parsing"), (selecting, "dataDef book, field last")):
        assert str(error.value) in (
            f"takes more than 0.4 s of CPU ({detail}; limit parse_limit)",
            f"takes more than 1.2 s ({detail}; 3 times parse_limit)",  # on a loaded machine
        )


@linux
async def test_a_process_that_stops_while_it_works_is_killed_after_three_times_the_limit() -> None:
    async with extraction_pool(limits(seconds=1), children=1) as pool:
        await pool.work(request())
        work = asyncio.ensure_future(pool.work(request(STORM)))
        await asyncio.sleep(0.3)
        os.kill(await one_pid(pool), signal.SIGSTOP)
        with pytest.raises(UnreadablePage, match=r"takes more than 3 s \(parsing; 3 times parse_limit\)"):
            await work
        assert title(await pool.work(request())) == TITLE


@linux
async def test_a_process_that_stops_before_it_begins_a_page_costs_only_time() -> None:
    async with extraction_pool(limits(seconds=0.3), children=1) as pool:
        await pool.work(request())
        stopped = await one_pid(pool)
        os.kill(stopped, signal.SIGSTOP)
        assert title(await pool.work(request())) == TITLE
        assert pool.pids != [stopped]


@linux
async def test_memory_is_limited_whatever_the_page() -> None:
    async with extraction_pool(limits(memory=120_000_000)) as pool:
        for body in (b"<p a=1 b=2 c=3>" * 150_000, b"<a href=x>x</a>" * 300_000, b"<b>" + b"\xff" * 30_000_000):
            most = 0
            work = asyncio.ensure_future(pool.work(request(body)))
            while not work.done():
                most = max(most, *map(resident_bytes, pool.pids), 0)
                await asyncio.sleep(0.005)
            assert str(work.exception()) == "needs more than 120 MB to parse; the limit is parse_memory"
            assert most <= 120_000_000
        assert title(await pool.work(request())) == TITLE


async def test_markup_that_cannot_fit_is_refused_before_it_is_parsed() -> None:
    async with extraction_pool(limits(memory=200_000_000)) as pool:
        await pool.work(request())
        started_at = time.process_time()
        with pytest.raises(UnreadablePage, match="needs more than 200 MB"):
            await pool.work(request(b"<p a=1>" * 1_300_000))
        assert time.process_time() - started_at < 1


async def test_an_answer_that_is_too_large_fails_its_page() -> None:
    async with extraction_pool(limits(answer=10_000)) as pool:
        with pytest.raises(UnreadablePage, match="larger than"):
            await pool.work(request(b"<b>" + b"x" * 20_000 + b"</b>"))
        assert title(await pool.work(request())) == TITLE


@linux
async def test_a_killed_process_costs_no_page() -> None:
    async with extraction_pool(children=1) as pool:
        await pool.work(request())
        first = await one_pid(pool)
        os.kill(first, signal.SIGSTOP)
        pages = [asyncio.ensure_future(pool.work(request(b"<b>%d</b>" % number))) for number in range(5)]
        await asyncio.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        answers = await asyncio.gather(*pages)
        assert await one_pid(pool) != first
    assert [title(answer) for answer in answers] == [f'{{"title":"{n}","last":[]}}' for n in range(5)]


@linux
async def test_a_page_whose_process_dies_twice_fails_and_those_behind_it_do_not() -> None:
    async with extraction_pool(limits(seconds=60), children=1) as pool:
        await pool.work(request())
        bad = asyncio.ensure_future(pool.work(request(STORM)))
        await asyncio.sleep(1.2 * BUSY_SECONDS)  # it is known to be costly: none is sent behind it
        good = [asyncio.ensure_future(pool.work(request())) for _ in range(3)]
        victims: set[int] = set()
        while not bad.done():
            new = set(pool.pids) - victims
            if new:
                await asyncio.sleep(0.4)  # it has begun by then
                os.kill(new.pop(), signal.SIGSEGV)
                victims |= set(pool.pids)
            await asyncio.sleep(0.01)
        assert str(bad.exception()) == "its extraction process died twice (signal 11; parsing)"
        assert len(victims) == 2
        assert {title(answer) for answer in await asyncio.gather(*good)} == {TITLE}


async def test_a_process_for_what_waited_behind_a_costly_page_ends_once_all_are_idle() -> None:
    async with extraction_pool(limits(seconds=60)) as pool:
        await pool.work(request())
        costly = asyncio.ensure_future(pool.work(request(STORM[:150_000] + b">")))
        await asyncio.sleep(1.2 * BUSY_SECONDS)
        await pool.work(request())
        oldest, *others = pool.pids
        await costly
        assert await until(lambda: pool.pids == [oldest])
        assert all(map(has_ended, others))


async def test_a_page_that_ends_its_process_costs_its_own_job_among_several_of_one_message() -> None:
    slow = STORM[:150_000] + b">"
    async with extraction_pool(limits(seconds=0.3), children=1) as pool:
        await pool.work(request())
        pages = [request(slow if at == 3 else b"<b>%d</b>" % at) for at in range(QUEUED_SMALL)]
        answers = await asyncio.gather(*map(pool.work, pages), return_exceptions=True)
        assert str(answers.pop(3)).startswith("takes more than 0.")
        assert [title(answer)[10] for answer in answers] == list("0124567")
        assert [page.deaths for page in pages].count(0) >= QUEUED_SMALL - 1, "none of the others was to blame"


@linux
async def test_processes_killed_at_random_cost_no_page() -> None:
    """One is killed while each batch is worked: a page whose processes always die would fail."""
    rng = random.Random(7)
    async with extraction_pool() as pool:

        async def kill() -> bool:
            await asyncio.sleep(rng.uniform(0, 0.1))
            with contextlib.suppress(ProcessLookupError, IndexError):  # it has ended, and the pool has yet to see that
                os.kill(rng.choice(pool.pids), signal.SIGKILL)
                return True
            return False

        kills = number = 0
        while kills < 20:
            pages = [request(b"<b>%d</b>" % at + b"<p>x" * 200) for at in range(number, number + 5)]
            killed, *answers = await asyncio.gather(kill(), *map(pool.work, pages))
            assert all(title(answer).startswith(f'{{"title":"{at}"') for at, answer in enumerate(answers, number))
            kills += killed
            number += 5


@linux
async def test_a_lost_template_is_replaced() -> None:
    async with extraction_pool() as pool:
        await pool.work(request())
        child = await one_pid(pool)
        os.kill(int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        answers = await asyncio.gather(*(pool.work(request()) for _ in range(5)))
        assert {title(answer) for answer in answers} == {TITLE}
        assert await until(lambda: has_ended(child), 1)


@linux
async def test_a_template_that_is_lost_before_its_first_process_is_replaced() -> None:
    lost = template_pid()
    os.kill(lost, signal.SIGKILL)
    assert await until(lambda: has_ended(lost))
    async with extraction_pool() as pool:
        assert title(await pool.work(request())) == TITLE


@linux
async def test_a_process_has_only_its_own_socket_and_is_the_first_to_be_killed_for_memory() -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    async with extraction_pool() as pool:
        await pool.work(request())
        proc = Path(f"/proc/{await one_pid(pool)}")
        files = {int(fd.name): str(fd.readlink()) for fd in (proc / "fd").iterdir()}
        assert (proc / "oom_score_adj").read_text() == "1000\n"
        caught = (proc / "status").read_text()
    os.close(read)
    os.close(write)
    assert files.pop(0) == "/dev/null"
    assert files.pop(1) == files.pop(2)
    assert {name.partition(":")[0] for name in files.values()} == {"/memfd", "socket"}
    assert "SigCgt:\t0000000000000000" in caught


@linux
async def test_the_processes_end_with_their_pool() -> None:
    pool = ExtractionPool(template(), limits())
    await pool.work(request(PAGE))
    child = await one_pid(pool)
    pool.close()
    assert await until(lambda: has_ended(child), 1)


async def test_what_waits_is_cancelled_by_a_close() -> None:
    pool = ExtractionPool(template(), limits())
    waiting = asyncio.ensure_future(pool.work(request(STORM)))
    await asyncio.sleep(0.1)
    pool.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
