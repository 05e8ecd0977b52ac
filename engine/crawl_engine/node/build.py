"""Builds the parts of a node in order and passes each what it needs."""

import logging
import os
import threading
from functools import partial
from pathlib import Path

from msgspec import Struct

from crawl_engine.browser.browsers import BrowserPool
from crawl_engine.browser.loader import BrowserLoader
from crawl_engine.errors import CrawlError
from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.http.client import Fetcher
from crawl_engine.http.cookies import SessionCookies
from crawl_engine.model.host import product_token
from crawl_engine.model.node import Role
from crawl_engine.node.capacity import ActiveJobs, Capacity, Intake
from crawl_engine.node.commit_queue import CommitQueue
from crawl_engine.node.committer import Committer
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.def_cache import DefCache
from crawl_engine.node.extraction.extractor import PageExtractor
from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.plugin_worker import PluginWorker
from crawl_engine.node.extraction.process_pool import ExtractionPool
from crawl_engine.node.fetch_loop import FetchLoop
from crawl_engine.node.handlers.login_page import LoginPageReader
from crawl_engine.node.host_gate import HostGates
from crawl_engine.node.loading.group_loaders import GroupLoaders
from crawl_engine.node.loading.pool import LoaderPool
from crawl_engine.node.node_context import NodeContext
from crawl_engine.node.pipeline import Pipeline
from crawl_engine.node.requests.file_parts import FileParts
from crawl_engine.node.requests.named_hosts import NamedHosts
from crawl_engine.node.requests.request_sender import RequestSender
from crawl_engine.node.requests.robots_cache import RobotsCache
from crawl_engine.node.requests.shared_jars import SharedJars
from crawl_engine.node.ringer import Ringer
from crawl_engine.node.seen_set import SeenSet
from crawl_engine.node.slice import Leaser
from crawl_engine.node.tuning import HeapTrimmer
from crawl_engine.plugins.files import PLUGINS
from crawl_engine.processes.launcher import TemplateLink
from crawl_engine.queue import Doorbells
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.runtime.host_clock import open_host_clock
from crawl_engine.runtime.wakeup import notify_fd
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.location import read_location
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions.placement import PlacementCache

_log = logging.getLogger(__name__)
_BODIES = 1.25
"""Bodies of `max_body` that a node holds at once; with the copies that their storage makes, twice `max_body`."""
_ANSWERS = 0.25
"""Size of all answers of extraction processes besides the largest one, in bodies of `max_body`."""
_DEFS_BUSY_SECONDS = 0.5


class NodeParts(Struct, frozen=True, kw_only=True):
    """The parts of a node that its process starts, watches and stops."""

    node: NodeContext
    intake: Intake
    capacity: Capacity
    doorbells: Doorbells
    leaser: Leaser
    loop: FetchLoop
    committer: Committer
    ringer: Ringer
    wakeup: threading.Event
    """Set when polling the queue pays off again."""
    heap_trimmer: HeapTrimmer
    extraction_pool: ExtractionPool
    loader_pool: LoaderPool
    browsers: BrowserPool

    @property
    def ticking(self) -> tuple[Committer, Leaser, FetchLoop]:
        """The parts that set `ticked_at`, a monotonic second, while they work."""
        return self.committer, self.leaser, self.loop


def build_node(
    folder: Path, *, run: int, epoch: int, number: int, role: Role, settings: Settings,
    link: TemplateLink, wakeup_fd: int | None = None,
) -> NodeParts:  # fmt: skip
    """Build a node; nothing runs yet.

    Through `wakeup_fd` it wakes the supervisor when it runs out of work.
    `link`: the way to the template of its extraction and loader processes.

    Raises StorageError if a database cannot be opened, UsageError if a setting is invalid.
    """
    exit_now = _ImmediateExit(f"n{number}", epoch)
    defs_db = connect(folder / CRAWL, busy_seconds=_DEFS_BUSY_SECONDS, small_cache=True)
    node = NodeContext(
        name=exit_now.name,
        folder=folder,
        run=runs.get(defs_db, run),
        epoch=epoch,
        settings=settings,
        def_cache=DefCache(defs_db, settings, run),
        on_fenced=exit_now.on_fenced,
        on_error=exit_now.on_error,
    )
    wakeup, active_jobs, cookies = threading.Event(), ActiveJobs(), SessionCookies()
    intake = Intake(folder, standby=role is Role.BACKUP_RUNNER, min_free=settings.min_free)
    capacity = Capacity(settings.concurrency, active_jobs=active_jobs, wakeup=wakeup)
    doorbells = Doorbells(folder, server=read_location(folder), wakeup=wakeup)
    ringer = Ringer(folder, run, doorbells)
    seen_set, heap_trimmer, commit_queue = SeenSet(), HeapTrimmer(), CommitQueue(capacity)
    extraction_pool = ExtractionPool(link, ExtractionLimits.from_settings(settings))
    browsers = BrowserPool(link, settings, folder, node.name)
    loader_pool, shared_jars = LoaderPool(link, settings), SharedJars(node, cookies)
    loop = FetchLoop(
        node,
        build_pipeline=lambda: _build_pipeline(
            node, seen_set, heap_trimmer, extraction_pool, loader_pool, browsers, cookies, shared_jars
        ),
        active_jobs=active_jobs,
        on_finished=commit_queue.put,
        on_slot_freed=capacity.notify_freed,
    )
    leaser = Leaser(
        node, intake=intake, capacity=capacity, submit=loop.submit, shared_jars=shared_jars, ringer=ringer
    )  # fmt: skip
    committer = Committer(
        node,
        queue=commit_queue,
        placements=PlacementCache(run, node.def_cache.host_policy),
        seen_set=seen_set,
        ringer=ringer,
        capacity=capacity,
        leaser=leaser,
        give_back=loop.give_back,
        on_idle=_do_nothing if wakeup_fd is None else partial(notify_fd, wakeup_fd),
    )
    return NodeParts(
        node=node,
        intake=intake,
        capacity=capacity,
        doorbells=doorbells,
        leaser=leaser,
        loop=loop,
        committer=committer,
        ringer=ringer,
        wakeup=wakeup,
        heap_trimmer=heap_trimmer,
        extraction_pool=extraction_pool,
        loader_pool=loader_pool,
        browsers=browsers,
    )


def _build_pipeline(
    node: NodeContext,
    seen_set: SeenSet,
    heap_trimmer: HeapTrimmer,
    extraction_pool: ExtractionPool,
    loader_pool: LoaderPool,
    browsers: BrowserPool,
    cookies: SessionCookies,
    shared_jars: SharedJars,
) -> Pipeline:
    """Build the pipeline, on the fetch loop's thread: its HTTP client belongs to that loop."""
    settings, def_cache = node.settings, node.def_cache
    host_gates = HostGates(open_host_clock(node.folder, os.environ, shared=settings.host_clock))
    db_access = DbAccess(node.folder)
    answer_budget = ByteBudget(
        capacity=extraction_pool.limits.answer + int(_ANSWERS * settings.max_body),
        largest=extraction_pool.limits.answer,
    )
    fetcher = Fetcher.from_settings(settings, connections=settings.concurrency, cookies=cookies)
    sender = RequestSender(
        settings=settings,
        def_cache=def_cache,
        fetcher=fetcher,
        db_access=db_access,
        robots_cache=RobotsCache(db_access, product_token(settings.user_agent), extraction_pool),
        named_hosts=NamedHosts(run=node.run.seq, base_url=node.run.base_url, db_access=db_access, def_cache=def_cache),
        host_gates=host_gates,
        group_loaders=GroupLoaders(
            loader_pool,
            settings,
            browser=BrowserLoader(browsers, fetcher, settings),
            def_cache=def_cache,
            host_gates=host_gates,
            run=node.run.id,
        ),
        file_parts=FileParts(FileFolder(node.folder, node.run.id), settings),
    )
    return Pipeline(
        node,
        sender=sender,
        shared_jars=shared_jars,
        page_extractor=PageExtractor(
            node,
            seen_set=seen_set,
            heap_trimmer=heap_trimmer,
            pool=extraction_pool,
            plugin_worker=PluginWorker(extraction_pool, node.folder / PLUGINS, answer_budget),
            db_access=db_access,
            answer_budget=answer_budget,
        ),
        login_page_reader=LoginPageReader(extraction_pool, answer_budget),
        byte_budget=ByteBudget(capacity=int(_BODIES * settings.max_body), largest=settings.max_body),
    )


class _ImmediateExit(Struct, frozen=True):
    """Ends the process at once, from any thread: nothing may be written after a fence or a storage error."""

    name: str
    epoch: int

    def on_fenced(self) -> None:
        _log.error("%s: epoch %s is over; nothing more is written", self.name, self.epoch)
        os._exit(3)

    def on_error(self, error: CrawlError) -> None:
        _log.error("%s: %s", self.name, error)
        os._exit(3)


def _do_nothing() -> None:
    pass
