"""The extraction process: parses and extracts documents under limits of CPU time and memory.

It opens no database and no socket, and dies with the node that it serves.
"""

import logging
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import convert

from crawl_engine.extract.documents.sitemap import parse_sitemap
from crawl_engine.extract.page.page import MAX_URL_CHARACTERS, Page, PageTooCostly
from crawl_engine.extract.page.patterns import PatternTimeout
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.css import LexborError
from crawl_engine.extract.select.selection import Selection, select_values
from crawl_engine.extract.select.selector_syntax import XPATH_PREFIX
from crawl_engine.model.definition import Definitions, definition_hash
from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.board import Phase, ProgressBoard, ProgressSlot
from crawl_engine.node.extraction.inbox import Inbox
from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.page_extraction import (
    UnreadablePage,
    UnsupportedContent,
    apply_data_defs,
    estimate_tree_bytes,
    parse_page,
    read_sitemap_text,
)
from crawl_engine.node.extraction.result import MAX_SITEMAP_URLS, AnswerTooLarge, PageResult, SitemapResult
from crawl_engine.node.extraction.task import SHOWN_REJECTIONS, PageTask
from crawl_engine.node.lines import unpacked_size
from crawl_engine.node.rules import list_selectors
from crawl_engine.node.tuning import LARGE_PAGE_BYTES, trim_heap, tune_garbage_collection
from crawl_engine.plugins.plugin_errors import StepError
from crawl_engine.processes.child_limits import ignore_stop_signals, limit_memory
from crawl_engine.processes.frames import encode_frame
from crawl_engine.processes.start import ChildStart
from crawl_engine.runtime import log_file
from crawl_engine.runtime.beat_file import resident_bytes
from crawl_engine.store.pages.body import Body
from crawl_engine.urls import QueryStripper

if TYPE_CHECKING:
    from crawl_engine.node.extraction.steps.apply import PluginSteps
    from crawl_engine.robots.rules import RobotsRules


def tracked_page(slot: ProgressSlot) -> type[Page]:
    """A page that notes when it is parsed."""

    class TrackedPage(Page):
        @cached_property
        def tree(self) -> Any:
            before = slot.enter(Phase.PARSING)
            tree = super().tree
            slot.enter(before)
            return tree

        @cached_property
        def element(self) -> Any:
            before = slot.enter(Phase.PARSING)
            element = super().element
            slot.enter(before)
            return element

    return TrackedPage


_log = logging.getLogger(__name__)
_JOINED_BYTES = 65_536
_EXIT_DAMAGED = 70
_KEPT_SHARE = 0.25
"""Part of `parse_memory` that a process may keep between two documents; a process that keeps more is replaced."""


class _KnownDefs:
    """A version of the defs, with the dataDefs that are compiled."""

    def __init__(self, text: str) -> None:
        self.definitions = Definitions.from_json(text)
        self.needs_text = XPATH_PREFIX in text or _reads_bodies(self.definitions)
        """Whether dataDefs need the text of a page beside its tree."""
        self.extractors: dict[str, RecordExtractor] = {}


_Document = tuple[int, dict[str, Any], Body | None, int]
"""The number of a question, its header, its body (None: it does not fit in memory) and the size of that."""


class ExtractionChild:
    """Serves one socket until its end."""

    def __init__(self, connection: socket.socket, slot: ProgressSlot, limits: ExtractionLimits, base: int) -> None:
        """`base`: bytes of resident memory at the start of the process."""
        self._connection = connection
        self._inbox = Inbox(connection)
        self._slot = slot
        self._limits = limits
        self._base = base
        self._page_class = tracked_page(slot)
        self._defs: dict[int, _KnownDefs] = {}
        self._extractors = WeakValueDictionary[tuple[str, str, str], RecordExtractor]()
        """Those of all defs: an unchanged dataDef keeps its memo of links."""
        self._number = 0
        self._must_end = self._ran_plugins = False
        self._question = 0
        """The number of the question that it works on."""
        self._waiting = deque[_Document]()
        """Documents that arrived while plugin code waited for the node."""
        self._plugins: dict[int, PluginSteps] = {}
        self._call_lock = threading.Lock()
        self._robots: tuple[tuple[bytes, str], RobotsRules] | None = None
        """The last robots.txt, the product token for which it was parsed, and its rules."""
        self._handlers: dict[str, Callable[[dict[str, Any], Body], bytes]] = {
            "page": self._extract_page, "steps": self._resume_steps, "sitemap": self._read_sitemap,
            "robots": self._judge_urls, "select": self._select,
        }  # fmt: skip

    def serve(self) -> None:
        """Work until the socket is closed, or until too much memory is kept."""
        while (document := self._next_document()) is not None:
            question, header, body, size = document
            self._question = question
            self._number += 1
            self._slot.begin(self._number, Phase.DECODING)
            self._must_end = False
            message = self._out_of_memory_answer() if body is None else self._work(header, body)
            large = size >= LARGE_PAGE_BYTES
            answer = encode_frame({}, message, question)
            if len(message) <= _JOINED_BYTES:
                answer = [b"".join(answer)]  # the node wakes up once
            del header, body, message
            while answer:
                self._connection.sendall(answer.pop(0))
            self._slot.enter(Phase.IDLE)
            if large:
                self._inbox.trim_when_idle()
            self._ran_plugins = bool(self._plugins)
            if self._must_end or ((large or self._ran_plugins) and self._keeps_too_much()):
                return

    def _next_document(self) -> _Document | None:
        """The next document; None: the socket is closed."""
        if self._waiting:
            return self._waiting.popleft()
        while (sizes := self._inbox.read_header()) is not None:
            number, header, size = sizes
            if header["kind"] != "defs":
                return number, header, self._inbox.read_body(size), size
            self._add_defs(header["defs"], size)
        return None

    def _call_node(self, document: int, call: str, key: str, value: Any) -> Any:
        """Ask the node something while a document is worked on. Callable from any thread.

        Raises StepError if the node cannot answer or the document has ended, ConnectionResetError if the node is gone.
        """
        with self._call_lock:
            left, _ = signal.setitimer(signal.ITIMER_REAL, 0)  # the wait does not count for the step
            try:
                if document != self._number or self._slot.document != document:
                    raise StepError("the page of this context has ended", "page-ended")
                return self._exchange(call, key, value)
            finally:
                signal.setitimer(signal.ITIMER_REAL, left)

    def _exchange(self, call: str, key: str, value: Any) -> Any:
        message = wire.encode(wire.NodeCallRequest.from_value(call, key, value))
        self._connection.sendall(b"".join(encode_frame({}, message, self._question)))
        while (sizes := self._inbox.read_header()) is not None:
            number, header, size = sizes
            if header["kind"] == "reply":
                if header["problem"]:
                    raise StepError(header["problem"], "node-call")
                return header["value"]
            if header["kind"] == "defs":
                self._add_defs(header["defs"], size)
            else:
                self._waiting.append((number, header, self._inbox.read_body(size), size))
        raise ConnectionResetError

    def _work(self, header: dict[str, Any], body: Body) -> bytes:
        failure: wire.Failure | None
        signal.setitimer(signal.ITIMER_PROF, self._limits.seconds)
        try:
            if (needed := estimate_tree_bytes(body.read(), self._limits.memory)) > self._limits.memory:
                raise MemoryError(needed)
            return self._handlers[header["kind"]](header, body)
        except AnswerTooLarge as large:
            failure = wire.Failure(kind="unreadable", reason=str(large))
        except UnsupportedContent as error:
            failure = wire.Failure(kind="unsupported", reason=str(error))
        except (PageTooCostly, UnreadablePage) as error:
            failure = wire.Failure(kind="unreadable", reason=str(error))
        except (MemoryError, LexborError):
            failure = None  # the traceback still holds the tree: memory for an answer is free only after this statement
        except Exception as error:
            if self._ran_plugins:  # an earlier page may have damaged the interpreter: a fresh process decides
                os._exit(_EXIT_DAMAGED)
            _log.exception("extraction of %s", header.get("url"))
            failure = wire.Failure(kind="internal", reason=f"{type(error).__name__}: {error}"[:300])
            self._must_end = bool(self._plugins)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return self._out_of_memory_answer() if failure is None else wire.encode(failure)

    def _out_of_memory_answer(self) -> bytes:
        self._must_end = True
        unit, step = self._slot.step or (None, 0)
        return wire.encode(wire.Failure(kind="memory", reason="", unit=unit, step=step))

    def _extract_page(self, header: dict[str, Any], body: Body) -> bytes:
        task = PageTask.from_header(header)
        if task.tasks:
            return self._run_plugins(task, body)
        selectors = list_selectors(task.context.rules)
        needs_text = self._known(task.defs).needs_text or any(XPATH_PREFIX in selector for selector in selectors)
        page = self._parse(task, body.read(), only_tree=not needs_text)
        body.forget()  # the page has what it needs of it
        result = apply_data_defs(
            page,
            task.context,
            [(self._extractor(task.defs, name), wants_rows) for name, wants_rows in task.data_defs],
            self._limits.links,
            self._slot,
        )
        return self._encode_page(result, task.max_rejections)

    def _run_plugins(self, task: PageTask, body: Body) -> bytes:
        """Extract a page whose rows go through plugin code; only plugin parsers read what is not text."""
        content = body.read()
        page = None
        try:
            page = self._parse(task, content)
        except (UnsupportedContent, UnreadablePage):
            if not self._plugins_of(task.defs).has_parser(task):
                raise
        return self._encode_page(self._plugins_of(task.defs).apply(task, page, content), task.max_rejections)

    def _parse(self, task: PageTask, content: bytes, *, only_tree: bool = False) -> Page:
        return parse_page(
            content, task.content_type, url=task.url, status=task.status, fetched_at=task.fetched_at,
            headers=task.headers, page_class=self._page_class, reads_documents=True, only_tree=only_tree,
        )  # fmt: skip

    def _resume_steps(self, header: dict[str, Any], body: Body) -> bytes:
        """The steps behind a command."""
        return self._encode_page(self._plugins_of(header["defs"]).resume(header, body.read()))

    def _encode_page(self, result: PageResult, max_rejections: int = SHOWN_REJECTIONS) -> bytes:
        self._slot.enter(Phase.ANSWER)
        result.pack(max_rejections, max_bytes=self._limits.answer, max_rows_bytes=self._limits.rows)
        return wire.encode(result)

    def _plugins_of(self, defs: int) -> "PluginSteps":
        from crawl_engine.node.extraction.steps.apply import PluginSteps  # slow: only runs with plugin code pay

        code = self._plugins.get(defs)
        if code is None:
            definitions = self._known(defs).definitions
            if not self._plugins:
                # what plugin code forks must not hold the socket: the node waits for its end
                os.register_at_fork(after_in_child=self._connection.close)
            code = self._plugins[defs] = PluginSteps(definitions, self._slot, self._limits, self._call_node)
        return code

    def _read_sitemap(self, header: dict[str, Any], body: Body) -> bytes:
        text = read_sitemap_text(body.read(), header["content_type"])
        self._slot.enter(Phase.PARSING)
        entries = parse_sitemap(text, header.get("now"), header.get("names", ()))
        self._slot.enter(Phase.ANSWER)
        kept, dropped = entries.cut(MAX_SITEMAP_URLS, MAX_URL_CHARACTERS)
        answer = SitemapResult.from_entries(kept, dropped)
        if sum(map(unpacked_size, (answer.pages, answer.sitemaps, answer.values))) > self._limits.answer:
            raise AnswerTooLarge(self._limits.answer)
        return wire.encode(answer)

    def _judge_urls(self, header: dict[str, Any], body: Body) -> bytes:
        from crawl_engine.robots.rules import RobotsRules

        file = (body.read(), header["agent"])
        self._slot.enter(Phase.PARSING)
        if self._robots is None or self._robots[0] != file:
            self._robots = None  # two do not fit
            self._robots = file, RobotsRules(file[0].decode(), file[1])
        rules = self._robots[1]
        self._slot.enter(Phase.SELECTING)
        answer = wire.RobotsAnswer(
            crawl_delay=rules.crawl_delay, rules=tuple(rules.disallowing_rule(url) for url in header["urls"])
        )
        return wire.encode(answer)

    def _select(self, header: dict[str, Any], body: Body) -> bytes:
        page = parse_page(
            body.read(), header["content_type"], url=header["url"], status=200, fetched_at=0.0,
            headers=tuple((name, value) for name, value in header["headers"]),
            page_class=self._page_class, reads_documents=True,
        )  # fmt: skip
        self._slot.enter(Phase.SELECTING)
        try:
            return wire.encode(select_values(page, convert(header["selection"], Selection)))
        except (ValueError, PatternTimeout) as error:
            return wire.encode(wire.Failure(kind="selector", reason=str(error)))

    def _known(self, defs: int) -> _KnownDefs:
        """Raises MemoryError if the defs did not fit."""
        if defs not in self._defs:
            raise MemoryError
        return self._defs[defs]

    def _extractor(self, defs: int, name: str) -> RecordExtractor:
        known = self._known(defs)
        if name not in known.extractors:
            definitions = known.definitions
            data_def = definitions.data_def(name)
            assert data_def is not None, "the node knows these defs"
            priorities = {group.name: group.priority for group in definitions.task_groups}
            stripper = QueryStripper.from_definitions(definitions)
            key = (definition_hash(data_def), definition_hash(priorities), "" if stripper is None else stripper.key)
            extractor = self._extractors.get(key) or RecordExtractor(
                data_def, priorities, max_links=self._limits.links, query_stripper=stripper
            )
            known.extractors[name] = self._extractors[key] = extractor
        return known.extractors[name]

    def _add_defs(self, key: int, size: int) -> None:
        try:
            if (body := self._inbox.read_body(size)) is not None:
                self._defs[key] = _KnownDefs(body.read().decode())
        except MemoryError:
            return  # the next document says so
        if len(self._defs) > wire.MAX_KNOWN_DEFS:
            del self._defs[next(iter(self._defs))]

    def _keeps_too_much(self) -> bool:
        kept = resident_bytes() - self._base
        if kept > self._limits.memory * _KEPT_SHARE:
            trim_heap()
            kept = resident_bytes() - self._base
        return kept > self._limits.memory * _KEPT_SHARE


def main(start: ChildStart) -> None:
    """Serve a node until it closes the socket."""
    ignore_stop_signals()
    log_file.log_to_stderr()
    tune_garbage_collection()
    limits = ExtractionLimits(**start.arguments["limits"])
    slot = ProgressBoard(start.files["board"]).slot(start.arguments["slot"])
    base = resident_bytes()
    limit_memory(limits.growth(base))
    ExtractionChild(start.connect(), slot, limits, base).serve()


def _reads_bodies(definitions: Definitions) -> bool:
    """Whether documents inside pages may be read from their whole text."""
    return any(one.sources or any(link.source for link in one.links) for one in definitions.data_defs)
