"""Turns the links of a page into jobs, as far as the node knows that they are new."""

from collections.abc import Iterator, Sequence

from engine import urls
from engine.model.job import LeasedJob
from engine.model.record import ExtractedLink
from engine.node import extraction_wire as wire
from engine.node.def_cache import DefCache
from engine.node.extraction import within_depth
from engine.node.lines import cut_in_pieces
from engine.node.seen_set import SeenSet
from engine.store.transactions.outcome import ChildJob

CHILDREN_PER_PIECE = 2_000
"""Links turned into jobs at once; pieces after the first by the thread that commits them. About 6 ms."""


class ChildJobs:
    """The child jobs of the pages of one node; the store drops duplicates."""

    def __init__(self, def_cache: DefCache, seen_set: SeenSet) -> None:
        self._def_cache = def_cache
        self._seen_set = seen_set

    def of_links(self, job: LeasedJob, links: Sequence[ExtractedLink]) -> tuple[ChildJob, ...]:
        """The jobs of a page's links."""
        new = links if job.links_stale else self._seen_set.filter_new(links)
        return self._make(job, new)

    def pieces(self, job: LeasedJob, columns: wire.LinkColumns) -> Iterator[tuple[ChildJob, ...]]:
        """The jobs of a page's links, in pieces that are not empty."""
        links = columns.to_links(None if job.links_stale else self._seen_set.is_new)
        for links_of_piece in cut_in_pieces(links, lambda link: len(link.url), CHILDREN_PER_PIECE):
            children = self._make(job, links_of_piece)
            if children:
                yield children

    def _make(self, job: LeasedJob, links: Sequence[ExtractedLink]) -> tuple[ChildJob, ...]:
        depth = job.depth + 1
        children: dict[bytes, ChildJob] = {}
        for link in links:
            identity = link.key
            if urls.is_file_url(link.url) and not self._may_read(job, link.url):
                continue
            if identity in children or not within_depth(
                link, depth, self._def_cache.task_group(job.defs_version, link.group)
            ):
                continue
            children[identity] = ChildJob(
                link.group,
                urls.host_key(link.url),
                urls.origin(link.url),
                link.url,
                depth,
                link.priority,
                identity,
                may_leave_host=link.may_leave_host,
            )
        return tuple(children.values())

    def _may_read(self, job: LeasedJob, url: str) -> bool:
        """Whether a page may lead to a file: below the folder of the page, or below that of a table's `baseUrl`."""
        tables = [data_def.axis for data_def in self._def_cache.definitions(job.defs_version).data_defs]
        bases = [f"{table.base_url.rstrip('/')}/" for table in tables if table is not None and table.base_url]
        folders = [base for base in (*bases, job.url[: job.url.rfind("/") + 1]) if urls.is_file_url(base)]
        return url.startswith(tuple(folders))
