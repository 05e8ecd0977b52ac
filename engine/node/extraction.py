"""From a page's bytes to what is stored of it: decoded, parsed once, every dataDef applied, links made children."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from engine import urls
from engine.extract.context import Context
from engine.extract.page import Page, PageTooDeep
from engine.fetch.decode import decode
from engine.model.definition import TaskGroup
from engine.model.job import LeasedJob
from engine.model.record import FoundLink, Rejection
from engine.node.def_cache import Knowledge
from engine.node.memory import Memory
from engine.node.seen_set import Seen
from engine.store.transactions.commit import Child, MadeRow


class Unreadable(Exception):
    """The page cannot be worked at all; says why, and what the user may do."""


class NotAPage(Exception):
    """The body is no text: an image, an archive. Says what it is."""


@dataclass(frozen=True, slots=True)
class Harvest:
    """What all dataDefs of a group made of one page."""

    rows: tuple[MadeRow, ...]
    children: tuple[Child, ...]
    rejected: tuple[Rejection, ...]
    damaged: bool
    """Bytes that are no text in the page's charset were replaced."""


class Harvester:
    """Works pages for one node; may be called from several threads."""

    def __init__(self, knowledge: Knowledge, seen: Seen, memory: Memory, *, run: str, run_time: str) -> None:
        self._knowledge = knowledge
        self._seen = seen
        self._memory = memory
        self._run = run
        self._run_time = run_time

    def work(
        self, job: LeasedJob, *, body: bytes, content_type: str, url: str, status: int, fetched_at: float
    ) -> Harvest:
        """Extract. Raises NotAPage or Unreadable."""
        try:
            return self._work(job, body, content_type, url, status, fetched_at)
        finally:
            self._memory.worked(len(body))

    def _work(
        self, job: LeasedJob, body: bytes, content_type: str, url: str, status: int, fetched_at: float
    ) -> Harvest:
        page, damaged = opened(body, content_type, url=url, status=status, fetched_at=fetched_at)
        rule = self._knowledge.host_rule(job.defs_version, urls.host_key(url))
        context = Context(
            group=job.group,
            locator=job.locator,
            locator_url=job.locator_url,
            depth=job.depth,
            run=self._run,
            run_time=self._run_time,
            nofollow=rule.nofollow,
        )
        rows: list[MadeRow] = []
        links: list[FoundLink] = []
        rejected: list[Rejection] = []
        try:
            for work in self._knowledge.work(job):
                kept = work.id in job.made  # a re-extraction: these rows are there, and as they would be
                if kept and not job.links_too:
                    continue
                found = work.extractor.extract(page, context)
                links += found.links
                if not kept:
                    rows += [MadeRow(work.data_def, work.id, to_json(row)) for row in found.rows]
                    rejected += found.rejected
        except PageTooDeep as error:
            raise Unreadable(str(error)) from error
        return Harvest(tuple(rows), self._children(job, links), tuple(rejected), damaged)

    def kept(self, job: LeasedJob) -> tuple[int, ...]:
        """Of a re-extraction: ids of the dataDefs whose rows stay as they are."""
        return tuple(work.id for work in self._knowledge.work(job) if work.id in job.made)

    def _children(self, job: LeasedJob, links: Sequence[FoundLink]) -> tuple[Child, ...]:
        """The links that make a job, as far as this node can tell."""
        depth = job.depth + 1
        children: dict[bytes, Child] = {}
        for link in links if job.links_too else self._seen.unknown(links):
            identity = link.key
            if identity in children or not within(link, depth, self._knowledge.group(job.defs_version, link.group)):
                continue
            children[identity] = Child(
                link.group,
                urls.host_key(link.url),
                urls.origin(link.url),
                link.url,
                depth,
                link.priority,
                identity,
            )
        return tuple(children.values())


def opened(body: bytes, content_type: str, *, url: str, status: int, fetched_at: float) -> tuple[Page, bool]:
    """The page a body is, and whether bytes that are no text in its charset were replaced. Raises NotAPage."""
    document = decode(body, content_type)
    if document.kind == "binary":
        raise NotAPage(content_type.partition(";")[0].strip() or "unknown type")
    page = Page.of(url=url, text=document.text, kind=document.kind, status=status, fetched_at=fetched_at)
    return page, document.damaged


def within(link: FoundLink, depth: int, group: TaskGroup) -> bool:
    """Whether a link's page, so many links from its locator, is not too deep for the link or for its group."""
    return all(limit is None or depth <= limit for limit in (link.max_depth, group.max_depth))


def to_json(row: Any) -> str:
    """A row as it is stored: decimals keep their digits as bare numbers."""
    try:
        return orjson.dumps(row, default=_number).decode()
    except TypeError:
        return orjson.dumps(_storable(row), default=_number).decode()


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    raise TypeError(type(value).__name__)


def _storable(value: Any) -> Any:
    """The value with what the encoder cannot write made so that it can: huge integers, lone surrogates."""
    if isinstance(value, dict):
        return {str(_storable(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return orjson.Fragment(str(value))
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value
