"""Pages for real extraction processes, and the pool that runs them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from crawl_engine.extract.page.context import Context
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.link import Link
from crawl_engine.model.record import as_text
from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.process_pool import ExtractionPool
from crawl_engine.node.extraction.request import ExtractionRequest
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.extraction.task import PageTask
from crawl_engine.processes.launcher import TemplateLink
from crawl_engine.store.pages.body import Body
from tests.templates import template

DEFINITIONS = Definitions(
    data_defs=(
        DataDef(
            name="book",
            fields=(Field(name="title", selector="b"), Field(name="last", selector="p:nth-last-child(2)", all=True)),
            links=(Link(selector="a"),),
        ),
    )
)
CONTEXT = Context(group="g", locator="l", locator_url="http://a/", depth=0, run="r", run_time="")
PAGE = b"<b>title</b><a href=/x>x</a>"
STORM = b"<p " + b" ".join(b"a%d=1" % number for number in range(120_000)) + b">"
"""A tag with so many attributes that the parser takes half a minute."""
SLOW_FIELD = b"<b>x</b>" + b"<p>x" * 60_000
"""A page on which the field `last` takes seconds."""


def limits(*, seconds: float = 5.0, memory: int = 400_000_000, answer: int = 16_000_000) -> ExtractionLimits:
    return ExtractionLimits(seconds=seconds, memory=memory, answer=answer, links=50_000)


def request(body: bytes = PAGE, content_type: str = "text/html") -> ExtractionRequest:
    task = PageTask(
        defs=1,
        data_defs=(("book", True),),
        url="http://a/",
        content_type=content_type,
        status=200,
        fetched_at=0.0,
        context=CONTEXT,
    )
    return ExtractionRequest(
        header=task.to_header(),
        body=Body(body),
        definitions=(1, DEFINITIONS),
    )


def title(answer: object) -> str:
    """The rows of a page of the right kind."""
    assert isinstance(answer, PageResult)
    [(_, (row,))] = answer.rows
    return as_text(row)


@asynccontextmanager
async def extraction_pool(
    bounds: ExtractionLimits | None = None, *, children: int = 2, link: TemplateLink | None = None
) -> AsyncIterator[ExtractionPool]:
    pool = ExtractionPool(link or template(), bounds or limits(), max_children=children)
    try:
        yield pool
    finally:
        pool.close()
