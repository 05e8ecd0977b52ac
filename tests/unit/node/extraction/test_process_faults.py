"""Faults around extraction processes: no memory, a stalled loop, a stuck template, answers to other questions."""

import asyncio
import base64
import gzip
import os
import random
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from crawl_engine.http.byte_budget import BodyShare, ByteBudget
from crawl_engine.http.errors import FetchFailed
from crawl_engine.model.definition import DataDef, Definitions, TaskGroup
from crawl_engine.model.host import HostRule
from crawl_engine.model.link import Link
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.model.record import PageWarning, RecordCounts, RejectedCount, Rejection
from crawl_engine.model.step import StepResult
from crawl_engine.node.extraction import process_pool as process
from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.inline import may_be_inline
from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.page_extraction import ExtractionUnavailable, UnreadablePage
from crawl_engine.node.extraction.request import ExtractionRequest, check_answer, encode_defs
from crawl_engine.node.extraction.result import LinkColumns, PageResult, SitemapResult, count_rejections
from crawl_engine.node.extraction.task import SHOWN_REJECTIONS
from crawl_engine.node.handlers.sitemap_job import SitemapHandler
from crawl_engine.processes.clock import QuestionClock
from crawl_engine.processes.launcher import OwnTemplate
from crawl_engine.settings import Settings
from crawl_engine.store.pages.body import Body
from tests.unit.node.extraction.messages import columns, message_of, read_back
from tests.unit.node.extraction.tasks import DEFINITIONS, extraction_pool, limits, request, title
from tests.unit.node.leased_jobs import leased

pytestmark = pytest.mark.timeout(90)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
TITLE = '{"title":"title","last":[]}'


@linux
async def test_a_body_that_does_not_fit_fails_its_page_and_no_process_is_started_again() -> None:
    async with extraction_pool(limits(memory=150_000_000), children=1) as pool:
        with pytest.raises(UnreadablePage, match="needs more than 150 MB"):
            await asyncio.wait_for(pool.work(request(b"x" * 200_000_000)), 30)
        assert pool.started == 1
        assert title(await pool.work(request())) == TITLE


@linux
async def test_defs_that_cannot_be_read_fail_their_page() -> None:
    broken = Mock(spec=Definitions, data_defs=(), task_groups=())
    bad = request()
    bad.definitions = (1, broken)
    async with extraction_pool(children=1) as pool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("crawl_engine.node.extraction.process_pool.encode_defs", lambda _: b"{")
            with pytest.raises(UnreadablePage, match="died twice"):
                await asyncio.wait_for(pool.work(bad), 30)
        assert pool.started == 2
        assert title(await pool.work(request())) == TITLE


async def test_an_answer_that_waits_while_the_loop_stands_still_is_read() -> None:
    async with extraction_pool(limits(seconds=0.3)) as pool:
        await pool.work(request())
        work = asyncio.ensure_future(pool.work(request(b"<b>title</b>" + b"<p>x" * 100)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        time.sleep(1.5)  # as if the node were stopped: more than 3 x 0.3 s
        assert title(await work).startswith('{"title":"title"')


class FakeLoop:
    """A clock moved by hand, with one timer."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: float | None = None
        self.callback: object = None
        self.arguments: tuple[object, ...] = ()

    def time(self) -> float:
        return self.now

    def call_at(self, due: float, callback: object, *arguments: object) -> Mock:
        self.due, self.callback, self.arguments = due, callback, arguments
        return Mock()

    def call_later(self, seconds: float, callback: object, *arguments: object) -> Mock:
        return self.call_at(self.now + seconds, callback, *arguments)

    def pass_to(self, late: float) -> None:
        """Let the time pass to the timer, and so many seconds further."""
        assert self.due is not None
        self.now = self.due
        self.tick(late)

    def tick(self, late: float = 0.0) -> None:
        assert self.due is not None
        assert callable(self.callback)
        self.now, self.due = self.due + late, None
        self.callback(*self.arguments)


def test_a_clock_counts_neither_a_stall_nor_a_pause() -> None:
    loop, expired, received = FakeLoop(), Mock(), Mock(return_value=0)
    clock = QuestionClock(
        loop, 0.95, has_begun=lambda: True, received=received, on_expired=expired,  # type: ignore[arg-type]
        run_delay=lambda: 0.0,
    )  # fmt: skip
    clock.start()
    for _ in range(8):
        loop.tick()
    loop.tick(late=100)
    loop.tick(late=100)
    assert not expired.called
    clock.pause(paused=True)
    for _ in range(50):
        loop.tick()
    clock.pause(paused=False)
    received.return_value = 5
    loop.tick()
    assert not expired.called, "its answer arrives"
    loop.tick()
    assert expired.call_count == 1


def test_a_clock_counts_all_but_the_waits_for_a_processor() -> None:
    for late, share, least, most in (
        (0.0, 0.0, 0.9, 1.1),
        (0.0, 0.4, 1.5, 1.8),
        (0.2, 0.4, 2.0, 7.0),
        (0.0, 0.9, 9, 11),
    ):
        loop, expired = FakeLoop(), Mock()
        clock = QuestionClock(
            loop, 1.0, has_begun=lambda: True, received=lambda: 0, on_expired=expired,  # type: ignore[arg-type]
            run_delay=lambda loop=loop, share=share: loop.now * share,  # type: ignore[misc]
        )  # fmt: skip
        clock.start()
        while not expired.called and loop.now < 100:
            loop.pass_to(late)
        assert least <= loop.now <= most, (late, share, loop.now)


@linux
async def test_a_page_that_waits_for_a_processor_is_not_late() -> None:
    slow = b"<b>title</b>" + b"<p>x" * 8_000
    async with extraction_pool(limits(seconds=0.3), children=1) as pool:
        await pool.work(request())
        cpu = {min(os.sched_getaffinity(0))}
        os.sched_setaffinity(pool.pids[0], cpu)
        spin = ["sh", "-c", "while :; do :; done"]
        others = [subprocess.Popen(spin, start_new_session=True) for _ in range(12)]  # a session is scheduled as one
        try:
            for other in others:
                os.sched_setaffinity(other.pid, cpu)
            began = time.monotonic()
            assert title(await pool.work(request(slow))).startswith('{"title":"title"')
            assert time.monotonic() - began > 0.9, "it had less than its share"
            assert pool.started == 1
        finally:
            for other in others:
                other.kill()
                other.wait()


@linux
async def test_a_stuck_template_is_replaced() -> None:
    async with extraction_pool(limits(seconds=0.3), children=1) as pool:
        await pool.work(request())
        child = pool.pids[0]
        os.kill(child, signal.SIGSTOP)
        assert title(await asyncio.wait_for(pool.work(request()), 20)) == TITLE


async def test_pages_are_given_back_while_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_RESTART_SECONDS", 0.0)
    async with extraction_pool(link=OwnTemplate(["engine.nowhere"])) as pool:
        for _ in range(2):
            with pytest.raises(ExtractionUnavailable, match="no extraction process can be started"):
                await pool.work(request())


async def test_many_versions_of_defs_may_alternate() -> None:
    async with extraction_pool(children=1) as pool:
        for key in (*range(1, 12), 1, 2, 11):
            page = request()
            page.header["defs"], page.definitions = key, (key, DEFINITIONS)
            assert title(await pool.work(page)) == TITLE


def test_a_process_learns_no_locator_and_of_hosts_the_query_keys_to_drop_alone() -> None:
    definitions = Definitions(
        data_defs=DEFINITIONS.data_defs,
        task_groups=(TaskGroup(name="g", priority=3),),
        locator_groups=(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://u:secret@a/",)),)),),
        hosts=(
            HostRule(name="a", headers={"Authorization": "secret"}, drop=("sid",)),
            HostRule(name="a:81", headers={"Authorization": "secret"}),
            HostRule(name="b", cookies={"key": "secret"}),
        ),
    )
    sent = encode_defs(definitions)
    assert b"secret" in definitions.to_json().encode()
    assert b"secret" not in sent
    learned = Definitions.from_json(sent.decode())
    assert learned.task_groups[0].priority == 3
    assert learned.hosts == (HostRule(name="a", drop=("sid",)), HostRule(name="a:81"))


VALID = PageResult(
    page_kind="html", rows=((0, ("{}",)),), links=LinkColumns(runs=((1, "g", 0, None, False),)),
    rejected_counts=(RejectedCount("book", 2),), counts=((0, RecordCounts(1, 0, (("title", 1),))),),
    results=((0, StepResult("", "parser", "error", "", 0.0, "")),),
)  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        SitemapResult(pages=()),
        replace(VALID, rows=((1, ("{}",)),)),
        replace(VALID, rows=((0, ("{}",)), (0, ("{}",)))),
        replace(VALID, rejected_counts=(RejectedCount("other", 1),)),
        replace(VALID, rejected=(Rejection(data_def="other", field="f", reason="", place=""),)),
        replace(VALID, warnings=(PageWarning("other", "f", "", ""),)),
        replace(VALID, results=((1, StepResult("", "parser", "error", "", 0.0, "")),)),
        replace(VALID, results=((0, StepResult("other", "parser", "error", "", 0.0, "")),)),
        replace(VALID, counts=((1, RecordCounts()),)),
        replace(VALID, counts=((0, RecordCounts(1, 0, (("other", 1),))),)),
        replace(VALID, counts=((0, RecordCounts(1, 2)),)),
        replace(VALID, links=LinkColumns(runs=((1, "other", 0, None, False),))),
        replace(VALID, links=LinkColumns(runs=((1, "g", 0, None, True),))),
    ],
)
def test_an_answer_to_another_question_is_refused(answer: wire.Answer) -> None:
    check_answer(request(), VALID)
    with pytest.raises(wire.InvalidAnswer):
        check_answer(request(), answer)


def test_moments_of_a_sitemap_are_accepted_only_where_they_were_asked_for() -> None:
    plain = ExtractionRequest(header={"kind": "sitemap", "content_type": "application/xml"}, body=Body(b""))
    dated = ExtractionRequest(header={**plain.header, "now": 1.0}, body=Body(b""))
    without = SitemapResult(pages=("/x",))
    for asked, answer, other in (
        (plain, without, replace(without, modified=(1,))), (dated, replace(without, modified=(1,)), without)
    ):  # fmt: skip
        check_answer(asked, answer)
        with pytest.raises(wire.InvalidAnswer):
            check_answer(asked, other)
    check_answer(dated, replace(without, pages=()))


NOISE = base64.b64encode(random.Random(1).randbytes(1_200_000))
"""It cannot be packed below 1.2 MB."""


async def test_large_answers_wait_for_room_one_after_the_other_and_none_is_lost() -> None:
    budget = ByteBudget(capacity=2_000_000, largest=2_000_000)
    highest = 0

    async def work(number: int) -> None:
        nonlocal highest
        page = request(b"<b>%d" % number + NOISE)
        page.share = budget.open_share()
        answer = await pool.work(page)
        highest = max(highest, budget.used)
        assert title(answer).startswith(f'{{"title":"{number}{NOISE[:9].decode()}')
        await asyncio.sleep(0.05)
        page.share.release()

    async with extraction_pool() as pool:
        async with asyncio.timeout(30):
            await asyncio.gather(*map(work, range(6)))
    assert 1_000_000 < highest < 2_000_000
    assert budget.used == 0


async def test_a_job_that_is_cancelled_while_its_answer_waits_blocks_nothing() -> None:
    budget = ByteBudget(capacity=2_000_000, largest=2_000_000)
    holder = budget.open_share()
    assert holder.try_grow(1_000_000)
    async with extraction_pool(children=1) as pool:
        page = request(b"<b>" + NOISE)
        page.share = budget.open_share()
        work = asyncio.ensure_future(pool.work(page))
        await asyncio.sleep(1)
        assert not work.done()
        work.cancel()
        assert title(await asyncio.wait_for(pool.work(request()), 20)) == TITLE
    holder.release()
    assert budget.used == 0


async def test_the_first_rejections_are_described_and_all_are_counted() -> None:
    rejections = (Rejection(data_def="book", field="f", reason="x" * 10_000, place="p"),) * 1_000
    page = PageResult(page_kind="html", rejected=rejections, rejected_counts=count_rejections(rejections))
    assert len(message_of(page)) < 5_000
    answer = read_back(page)
    assert len(answer.rejected) == SHOWN_REJECTIONS
    assert [(one.data_def, one.records) for one in answer.rejected_counts] == [("book", 1_000)]


async def test_links_alone_never_pass_the_limit_of_an_answer() -> None:
    definitions = Definitions(
        data_defs=(DataDef(name="book", links=(Link(selector="a"), Link(selector="b", group="h"))),)
    )
    page = request(
        b"<base href=http://a/" + b"y" * 8_000 + b"/>" + b"".join(b"<a href=%d></a>" % n for n in range(4_000))
    )
    page.definitions = (1, definitions)
    async with extraction_pool(ExtractionLimits.from_settings(Settings(max_body=1_000_000))) as pool:
        answer = await pool.work(page)
    assert isinstance(answer, PageResult)
    assert sum(map(len, columns(answer).urls)) > 19_000_000


def test_what_has_to_be_detected_is_not_decoded_on_the_loop() -> None:
    assert may_be_inline("<p>é".encode(), "text/html")
    assert not may_be_inline("<p>Привет, мир".encode("cp1251"), "text/html")
    assert may_be_inline("<p>Привет, мир".encode("cp1251"), "text/html; charset=windows-1251")
    assert not may_be_inline(b"<urlset>" + "Привет, мир".encode("cp1251"), "application/xml")


async def test_a_packed_sitemap_counts_as_it_is_unpacked_and_leaves_the_loop_free() -> None:
    budget = ByteBudget(capacity=20_000_000, largest=10_000_000)
    share, read = budget.open_share(), Mock()
    seen: list[int] = []

    async def read_sitemap(body: Body, *_: object) -> tuple[SitemapResult, BodyShare]:
        seen.append(body.size)
        return SitemapResult(pages=()), budget.open_share()

    async def count_turns() -> None:
        while True:
            seen.append(-1)
            await asyncio.sleep(0)

    read.read_sitemap = read_sitemap
    counting = asyncio.ensure_future(count_turns())
    packed = gzip.compress(b"x" * 8_000_000)
    await SitemapHandler(10_000_000, read, Mock(), Mock(), Mock()).list_children(
        leased(1), "http://a/s.gz", packed, share
    )
    counting.cancel()
    assert seen.count(-1) >= 7
    assert seen[-1] == 8_000_000
    assert budget.used > 7_900_000
    share.release()
    handler = SitemapHandler(10_000_000, read, Mock(), Mock(), Mock())
    with pytest.raises(FetchFailed, match="truncated"):
        await handler.list_children(leased(1), "http://a/s.gz", packed[:-20], share)
