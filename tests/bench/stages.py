"""Measures the CPU of each stage of a page, in one process, one stage at a time."""

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
from engine.extract.links.links import LinkExtractor
from engine.extract.page.budget import Budget
from engine.extract.page.context import Context
from engine.extract.page.page import Page
from engine.extract.records import RecordExtractor
from engine.http.client import Fetcher
from engine.http.decode import decode
from engine.http.response import FetchResponse
from engine.model.definition import DataDef
from engine.model.job import Request, link_key
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
    """CPU microseconds per page."""
    part: bool
    """Whether it is a part of the stage above it."""


def stages(site: Site, pages: int) -> list[Stage]:
    """All stages, over the first pages of a site."""
    with tempfile.TemporaryDirectory() as folder:
        definition = load(write_defs(site.starts, Path(folder))).definitions.data_def("page")
    assert definition is not None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        responses = runner.run(_walk(site, definition, pages))
        page_urls = [response.url for response in responses]
        raw = runner.run(_raw(page_urls))
        fetch = runner.run(_fetch(page_urls))
    results = [Stage("fetch (engine.http.client)", fetch, False), Stage("of it bare aiohttp", raw, True)]
    return results + _extraction_stages(responses, definition)


def _extraction_stages(responses: Sequence[FetchResponse], definition: DataDef) -> list[Stage]:
    """The stages after the fetch."""
    rows_only = RecordExtractor(DataDef(name=definition.name, fields=definition.fields))
    links_only = LinkExtractor(definition, {}, 50_000)
    texts = [decode(response.body, response.content_type).utf8 for response in responses]

    def fresh() -> Iterator[Page]:
        for response, text in zip(responses, texts, strict=True):
            yield Page(url=response.url, text=text, kind="html", status=200, fetched_at=0.0)

    def lowered() -> Iterator[Page]:
        for page in fresh():
            _ = page.markup
            yield page

    def parsed() -> Iterator[Page]:
        for page in fresh():
            _ = page.tree
            yield page

    links = [[link.url for link in links_only.extract(Budget(page, _CONTEXT))[0]] for page in parsed()]
    seen: set[str] = set()
    return [
        Stage("decode", _each(responses, lambda a: decode(a.body, a.content_type)), False),
        Stage("parse (Page.tree)", _each(fresh(), lambda page: page.tree), False),
        Stage("of it bytes and lower case", _each(fresh(), lambda page: page.markup), True),
        Stage("of it count of tags", _each(lowered(), lambda page: page.markup.tags), True),
        Stage("fields: url, title, headings", _each(parsed(), lambda page: rows_only.extract(page, _CONTEXT)), False),
        Stage("links", _each(parsed(), lambda page: links_only.extract(Budget(page, _CONTEXT))), False),
        Stage("of it the selector a[href]", _each(parsed(), _select), True),
        Stage("dropping the tree", _each(parsed(), lambda page: page.__dict__.clear()), False),
        Stage("seen-set of URLs", _each(links, lambda urls: seen.update(u for u in urls if u not in seen)), False),
        Stage("beyond the ceiling: link_key of each", _each(links, lambda f: [link_key("docs", u) for u in f]), False),
    ]


def _select(page: Page) -> object:
    assert page.tree is not None
    return page.tree.css("a[href]")


def _each(items: Iterable[T], work: Callable[[T], object]) -> float:
    """Mean CPU microseconds of `work`; creating and dropping its argument does not count.

    Pages are created one at a time: thousands of trees at once would measure memory.
    """
    spent, count = 0.0, 0
    for item in items:
        started = time.process_time()
        result = work(item)
        spent += time.process_time() - started
        count += 1
        del item, result
    return spent / count * 1e6


async def _walk(site: Site, definition: DataDef, pages: int) -> list[FetchResponse]:
    """The first pages of the site, in the order a crawl meets them."""
    fetcher, extractor = _fetcher(), RecordExtractor(definition)
    todo = [url for url in map(urls.normalize, site.starts) if url]
    seen, responses = set(todo), []
    for url in todo:
        response = await fetcher.send(url, Request(), exempt=True)
        if response.status != 200:
            continue
        responses.append(response)
        if len(responses) == pages:
            break
        text = decode(response.body, response.content_type).text
        page = Page(url=url, text=text, kind="html", status=200, fetched_at=0.0)
        for link in extractor.extract(page, _CONTEXT).links:
            if link.url not in seen:
                seen.add(link.url)
                todo.append(link.url)
    await fetcher.aclose()
    return responses


def _fetcher() -> Fetcher:
    settings = Settings()
    return Fetcher(
        user_agent=settings.user_agent, deadline=settings.deadline, max_body=settings.max_body, connections=_SLOTS
    )


async def _fetch(page_urls: Sequence[str]) -> float:
    fetcher, request = _fetcher(), Request()

    async def slot(todo: list[str]) -> None:
        while todo:
            await fetcher.send(todo.pop(), request, exempt=True)

    todo = list(page_urls)
    started = time.process_time()
    await asyncio.gather(*(slot(todo) for _ in range(_SLOTS)))
    spent = time.process_time() - started
    await fetcher.aclose()
    return spent / len(page_urls) * 1e6


async def _raw(page_urls: Sequence[str]) -> float:
    connector = aiohttp.TCPConnector(limit=_SLOTS)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def slot(todo: list[str]) -> None:
            while todo:
                async with session.get(todo.pop()) as response:
                    await response.read()

        todo = list(page_urls)
        started = time.process_time()
        await asyncio.gather(*(slot(todo) for _ in range(_SLOTS)))
        return (time.process_time() - started) / len(page_urls) * 1e6


def total(results: Sequence[Stage]) -> float:
    """Microseconds of all stages that the ceiling has."""
    return sum(stage.micros for stage in results if not stage.part and not stage.name.startswith("beyond"))


def stages_table(results: Sequence[Stage]) -> str:
    """All of them, parts below their whole."""
    whole = total(results)
    rows = [[("  " if stage.part else "") + stage.name, stage.micros] for stage in results]
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
    options = parser.parse_args()
    print(machine_line())
    with contextlib.ExitStack() as stack:
        site = stack.enter_context(chosen_site(options.site, options.pages))
        print(site.name)
        rounds = [stages(site, options.pages) for _ in range(options.times)]
    results = [
        Stage(same[0].name, statistics.median(stage.micros for stage in same), same[0].part)
        for same in zip(*rounds, strict=True)
    ]
    print(stages_table(results))
    put(
        options.json,
        {"bench": "stages", "micros": {s.name: s.micros for s in results}, "together": total(results), **machine()},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
