"""Extracts pages outside a crawl: cheap ones in this process, others in a killable one.

For one thread at a time. The process is started at the first need and stays warm until `close`.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from crawl_engine.errors import PageUnavailable
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import PageTooCostly
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.selection import Selection, SelectionResult
from crawl_engine.model.definition import DataDef, Definitions
from crawl_engine.model.fingerprint import ExtractionUnit, list_units
from crawl_engine.node.extraction.inline import extract_inline
from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.page_extraction import (
    ExtractionUnavailable,
    UnreadablePage,
    UnsupportedContent,
)
from crawl_engine.node.extraction.request import ExtractionRequest
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.extraction.task import PageTask
from crawl_engine.processes.launcher import OwnTemplate
from crawl_engine.settings import Settings
from crawl_engine.store.pages.body import Body
from crawl_engine.urls import QueryStripper

if TYPE_CHECKING:  # cheap pages need none of them, and both are slow to import
    from crawl_engine.node.extraction.plugin_worker import PluginWorker
    from crawl_engine.node.extraction.process_pool import ExtractionPool


SELECTORS_NEED = "Selectors need HTML, XML, JSON, CSV, or a PDF with text."
_MAX_REJECTIONS = 10_000
"""Rejections of a page to show."""


class TrialDocument(Struct, frozen=True, kw_only=True):
    """A page that defs are tried on."""

    body: bytes
    content_type: str
    url: str
    status: int = 200
    fetched_at: float
    """Seconds since 1970."""
    origin: str
    """For example `fetched`, `file`, `job 12`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Of its answer, names in lower case."""
    is_rendered: bool = False
    """Whether a browser has just rendered it."""
    notes: tuple[str, ...] = ()
    """What a browser was refused for it, and how its crawl would load it otherwise."""
    refusal: str = ""
    """Why its answer refuses the crawler; empty for a page."""


class ExtractionClient:
    """Applies dataDefs to documents under the limits of the settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._limits = ExtractionLimits.from_settings(settings)
        self._runner: asyncio.Runner | None = None
        self._pool: ExtractionPool | None = None
        self._template = OwnTemplate(["crawl_engine.node.extraction.child"])
        self._worker: PluginWorker | None = None
        self._sent: list[Definitions] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "ExtractionClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._runner is not None and self._pool is not None:
            for part in (self._worker, self._pool):
                if part is not None:
                    self._runner.get_loop().call_soon(part.close)
            self._runner.run(asyncio.sleep(0))
            self._runner.close()
        self._runner = self._pool = self._worker = None
        self._template.close()
        self._stack.close()

    def extract(
        self, document: TrialDocument, definitions: Definitions, data_def: DataDef, context: Context
    ) -> PageResult:
        """The results of the dataDef. Raises PageUnavailable, also at a limit.

        If several tasks of the context's group apply it with chains of their own, the rows of all.
        """
        tasks = [unit.task for unit in _units_of(definitions, context.group) if unit.data_def == data_def.name] or [""]
        runs_plugins = any(tasks) or data_def.code
        key = self._key_of(definitions)
        task = PageTask(
            defs=key, data_defs=((data_def.name, True),) * (len(tasks) if runs_plugins else 1), url=document.url,
            content_type=document.content_type, status=document.status, fetched_at=document.fetched_at,
            context=context, headers=document.headers, max_rejections=_MAX_REJECTIONS,
            tasks=tuple(tasks) if runs_plugins else (),
        )  # fmt: skip
        with _explained(document.url):
            if not runs_plugins:
                priorities = {group.name: group.priority for group in definitions.task_groups}
                extractor = RecordExtractor(
                    data_def, priorities, max_links=self._limits.links,
                    query_stripper=QueryStripper.from_definitions(definitions),
                )  # fmt: skip
                result = extract_inline(task, document.body, [(extractor, True)], self._limits.links)
                if result is not None:
                    return result
            runner, worker, _ = self._start()
            return runner.run(worker.extract(task, Body(document.body), (key, definitions)))

    def select(self, document: TrialDocument, selection: Selection) -> SelectionResult:
        """The matches of a selector, always in a process of its own.

        Raises ValueError with the fault of the selector or pattern, and PageUnavailable.
        """
        header = {
            "kind": "select", "url": document.url, "content_type": document.content_type,
            "selection": to_builtins(selection), "headers": document.headers,
        }  # fmt: skip
        with _explained(document.url):
            runner, _, pool = self._start()
            answer = runner.run(pool.work(ExtractionRequest(header=header, body=Body(document.body))))
        assert isinstance(answer, SelectionResult)
        return answer

    def read_source(self, document: TrialDocument) -> str:
        """The text that selectors read; for a PDF its HTML. Raises PageUnavailable."""
        result = self.select(document, Selection(selector=r"(?s)\A.+", regex=True))
        return "".join(value or "" for value in result.values)

    def _start(self) -> "tuple[asyncio.Runner, PluginWorker, ExtractionPool]":
        if self._runner is None or self._pool is None or self._worker is None:
            from crawl_engine.node.extraction.plugin_worker import PluginWorker
            from crawl_engine.node.extraction.process_pool import ExtractionPool

            self._runner = asyncio.Runner()
            self._pool = ExtractionPool(self._template, self._limits, max_children=1)
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="crawl-console-plugins-")))
            self._worker = PluginWorker(self._pool, folder)
        return self._runner, self._worker, self._pool

    def _key_of(self, definitions: Definitions) -> int:
        """A number for these defs during the life of the process."""
        if not any(sent is definitions for sent in self._sent):
            self._sent.append(definitions)
        return next(number for number, sent in enumerate(self._sent) if sent is definitions)


def _units_of(definitions: Definitions, group: str) -> list[ExtractionUnit]:
    task_group = definitions.task_group(group)
    return [] if task_group is None else list_units(definitions, task_group)


@contextlib.contextmanager
def _explained(url: str) -> Iterator[None]:
    """Errors of the page become PageUnavailable."""
    try:
        yield
    except UnsupportedContent as error:
        raise PageUnavailable(f"{url}: not a page: {error}", SELECTORS_NEED) from error
    except PageTooCostly as error:
        raise PageUnavailable(error.message, error.remedy) from error
    except ExtractionUnavailable as error:
        raise PageUnavailable(f"{url}: {error}", "Memory, processes or open files may be used up.") from error
    except UnreadablePage as error:
        raise PageUnavailable(f"{url}: {error}", "A crawl would report the same, as FAILED.") from error
