"""Measures where the ceiling's time goes: CPU of each stage of a page, one process, one stage at a time."""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiohttp
import uvloop

from engine import urls
from engine.defs.loader import load
from engine.extract.budget import Budget
from engine.extract.context import Context
from engine.extract.links import LinkExtractor
from engine.extract.nesting_guard import nests_too_deep
from engine.extract.page import Page
from engine.extract.records import RecordExtractor
from engine.fetch.client import Fetcher
from engine.fetch.decode import decode
from engine.fetch.response import FetchResponse
from engine.model.definition import DataDef
from engine.model.job import Request
from engine.model.job_key import link_key
from engine.settings import Settings
from tests.bench.contest import write_defs
from tests.bench.report import machine, machine_line, put, table
from tests.bench.site import Site, chosen_site

_SLOTS = 32
T = TypeVar("T")
_CONTEXT = Context(group="docs", locator="", locator_url="", depth=0, run="", run_time="")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a page."""

    name: str
    micros: float
    """CPU, microseconds a page."""
    part: bool
    """Whether it is a part of the stage above it."""


def stages(site: Site, pages: int) -> list[Stage]:
    """Every stage, over the first pages of a site."""
    with tempfile.TemporaryDirectory() as folder:
        definition = load(write_defs(site.starts, Path(folder))).definitions.data_def("page")
    assert definition is not None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answers = runner.run(_walk(site, definition, pages))
        wanted = [answer.url for answer in answers]
        raw = runner.run(_raw(wanted))
        fetch = runner.run(_fetch(wanted))
    found = [Stage("fetch (engine.fetch.client)", fetch, False), Stage("of it bare aiohttp", raw, True)]
    return found + _worked(answers, definition)


def _worked(answers: Sequence[FetchResponse], definition: DataDef) -> list[Stage]:
    """The stages after the fetch."""
    rows_only = RecordExtractor(DataDef(name=definition.name, fields=definition.fields))
    links_only = LinkExtractor(definition, {})
    texts = [decode(answer.body, answer.content_type).text for answer in answers]

    def fresh() -> Iterator[Page]:
        for answer, text in zip(answers, texts, strict=True):
            yield Page(url=answer.url, text=text, kind="html", status=200, fetched_at=0.0)

    def lowered() -> Iterator[Page]:
        for page in fresh():
            _ = page._lower
            yield page

    def parsed() -> Iterator[Page]:
        for page in fresh():
            _ = page.tree
            yield page

    links = [[link.url for link in links_only.extract(Budget(page, _CONTEXT))[0]] for page in parsed()]
    met: set[str] = set()
    return [
        Stage("decode", _each(answers, lambda a: decode(a.body, a.content_type)), False),
        Stage("parse (Page.tree)", _each(fresh(), lambda page: page.tree), False),
        Stage("of it bytes and lower case", _each(fresh(), lambda page: page._lower), True),
        Stage("of it depth", _each(lowered(), lambda page: nests_too_deep(page._lower)), True),
        Stage("fields: url, title, headings", _each(parsed(), lambda page: rows_only.extract(page, _CONTEXT)), False),
        Stage("links", _each(parsed(), lambda page: links_only.extract(Budget(page, _CONTEXT))), False),
        Stage("of it the selector a[href]", _each(parsed(), _select), True),
        Stage("dropping the tree", _each(parsed(), lambda page: page.__dict__.clear()), False),
        Stage("seen-set of URLs", _each(links, lambda found: met.update(u for u in found if u not in met)), False),
        Stage("beyond the ceiling: link_key of each", _each(links, lambda f: [link_key("docs", u) for u in f]), False),
    ]


def _select(page: Page) -> object:
    assert page.tree is not None
    return page.tree.css("a[href]")


def _each(things: Iterable[T], work: Callable[[T], object]) -> float:
    """CPU microseconds of the work on a thing; making and dropping it do not count. Pages come one at a time.

    Thousands of trees at once would measure the memory they need.
    """
    took, count = 0.0, 0
    for thing in things:
        began = time.process_time()
        result = work(thing)
        took += time.process_time() - began
        count += 1
        del thing, result
    return took / count * 1e6


async def _walk(site: Site, definition: DataDef, pages: int) -> list[FetchResponse]:
    """The first pages of the site, in the order a crawl meets them."""
    fetcher, extractor = _fetcher(), RecordExtractor(definition)
    todo = [url for url in map(urls.normalize, site.starts) if url]
    met, answers = set(todo), []
    for url in todo:
        answer = await fetcher.send(url, Request())
        if answer.status != 200:
            continue
        answers.append(answer)
        if len(answers) == pages:
            break
        text = decode(answer.body, answer.content_type).text
        page = Page(url=url, text=text, kind="html", status=200, fetched_at=0.0)
        for link in extractor.extract(page, _CONTEXT).links:
            if link.url not in met:
                met.add(link.url)
                todo.append(link.url)
    await fetcher.aclose()
    return answers


def _fetcher() -> Fetcher:
    settings = Settings()
    return Fetcher(
        user_agent=settings.user_agent, deadline=settings.deadline, max_body=settings.max_body, connections=_SLOTS
    )


async def _fetch(wanted: Sequence[str]) -> float:
    fetcher, request = _fetcher(), Request()

    async def slot(todo: list[str]) -> None:
        while todo:
            await fetcher.send(todo.pop(), request)

    todo = list(wanted)
    began = time.process_time()
    await asyncio.gather(*(slot(todo) for _ in range(_SLOTS)))
    took = time.process_time() - began
    await fetcher.aclose()
    return took / len(wanted) * 1e6


async def _raw(wanted: Sequence[str]) -> float:
    connector = aiohttp.TCPConnector(limit=_SLOTS)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def slot(todo: list[str]) -> None:
            while todo:
                async with session.get(todo.pop()) as answer:
                    await answer.read()

        todo = list(wanted)
        began = time.process_time()
        await asyncio.gather(*(slot(todo) for _ in range(_SLOTS)))
        return (time.process_time() - began) / len(wanted) * 1e6


def together(found: Sequence[Stage]) -> float:
    """Microseconds of all stages that the ceiling has."""
    return sum(stage.micros for stage in found if not stage.part and not stage.name.startswith("beyond"))


def stages_table(found: Sequence[Stage]) -> str:
    """All of them, parts below their whole."""
    whole = together(found)
    rows = [[("  " if stage.part else "") + stage.name, stage.micros] for stage in found]
    return (
        f"{table(['stage', 'CPU µs/page'], rows)}\n"
        f"together {whole:.0f} µs a page: {2e6 / whole:,.0f} pages/s in two processes at most"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the CPU of each stage of a page.")
    parser.add_argument("--site", default="auto", help="auto, generated, or a folder")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--times", type=int, default=3, help="the median of so many")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results as JSON lines")
    asked = parser.parse_args()
    print(machine_line())
    with contextlib.ExitStack() as stack:
        site = stack.enter_context(chosen_site(asked.site, asked.pages))
        print(site.name)
        rounds = [stages(site, asked.pages) for _ in range(asked.times)]
    found = [
        Stage(same[0].name, statistics.median(stage.micros for stage in same), same[0].part)
        for same in zip(*rounds, strict=True)
    ]
    print(stages_table(found))
    put(
        asked.json,
        {"bench": "stages", "micros": {s.name: s.micros for s in found}, "together": together(found), **machine()},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
