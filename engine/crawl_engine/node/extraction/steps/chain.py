"""Runs the chain of a task in an extraction process: parser, filters, plugin steps, branches."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct, field

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.fields import RecordRejected
from crawl_engine.extract.page.patterns import TimeBudget
from crawl_engine.extract.records import RecordFilter
from crawl_engine.model.definition import DataDef, Task
from crawl_engine.model.record import RecordCounts, Rejection
from crawl_engine.model.step import BAD_ANSWER, ChainStep, Outcome, StepResult
from crawl_engine.node.extraction.steps.context import PageContext, cut_text
from crawl_engine.node.extraction.steps.rows import RowChecker, RowInvalid
from crawl_engine.plugins.contracts import Document, Row
from crawl_engine.plugins.loading import Awaiter
from crawl_engine.plugins.plugin_errors import NotApplicable, PluginUnavailable, StepError, describe_error, error_text

LOCATOR_CREATOR, DATA_FILTER, COMMAND = "LocatorCreator", "DataFilter", "command"
Creator = Callable[[str, Mapping[str, Any]], Any]
"""Makes an instance of a class, with its options. Raises PluginUnavailable."""
OnStep = Callable[[int], None]
"""Called when a step begins, with its index in the chain."""


class StepFailed(Exception):
    """A step ended with `error` on this page."""


class ChainWork(Struct):
    """The work of a chain on a page. `stopped_at`: the command that works on the rows next; None: the chain ended."""

    rows: list[Row]
    results: list[StepResult] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    counts: RecordCounts = field(default_factory=RecordCounts)
    """Counts of the fields that steps fill."""
    filtered: int = 0
    stopped_at: int | None = None


class TaskChain:
    """The chain of one task. Instances of plugin classes are made at their first use, and kept."""

    def __init__(self, task: Task, data_def: DataDef, create: Creator, awaiter: Awaiter, default_limit: float) -> None:
        """`default_limit`: seconds for a step that sets none."""
        self._awaiter = awaiter
        self.task = task.name
        self.data_def = data_def
        self._create = create
        self._default_limit = default_limit
        self._chain = task.chain
        self._main = [(index, step) for index, step in enumerate(task.chain) if not step.previous]
        self.parser = next(((index, step) for index, step in self._main if step.kind == "parser"), None)
        """The plugin parser, with its index; None: the fields of the dataDef make the rows."""
        late = needs_late_filters(task)  # otherwise the extractor filters, as without plugin code
        self._filters = tuple(RecordFilter(rule, data_def) for rule in data_def.filters) if late else ()
        self._checker = RowChecker(data_def)
        self._instances: dict[int, Any] = {}

    def parse(self, document: Document, context: PageContext, on_step: OnStep) -> ChainWork:
        """Run the plugin parser on a document, and the chain after it."""
        assert self.parser is not None
        index, step = self.parser
        work = ChainWork([])
        try:
            rows = self._call(index, step, "parse", (document, context), context, work, on_step, unchanged=[])
        except StepFailed:
            return work
        return self.run(rows, context, on_step, after=index, work=work)

    def run(
        self, rows: Sequence[Mapping[str, Any]], context: PageContext, on_step: OnStep, *, after: int = -1,
        work: ChainWork | None = None,
    ) -> ChainWork:  # fmt: skip
        """Run the steps behind index `after` on rows."""
        work = work or ChainWork([])
        work.rows = [dict(row) for row in rows]
        try:
            for index, step in self._main:
                if index > after:
                    if step.class_name == COMMAND and step.kind == "command":
                        work.stopped_at = index
                        return work
                    self._run_step(index, step, context, work, on_step)
                    self._run_branches(step.name, context, work, on_step)
        except StepFailed:
            return work
        work.rows, rejected, work.counts = self._checker.complete(work.rows)
        work.rejected += rejected
        return work

    def run_after_command(
        self, sent: Any, answer: Any, context: PageContext, on_step: OnStep, *, written: bytes, at: int,
        milliseconds: float,
    ) -> ChainWork:  # fmt: skip
        """Continue after the answer of the command at index `at`.

        `sent`: the object sent to it. `written`: the beginning of the line of its answer.
        """
        step, work = self._chain[at], ChainWork([])
        try:
            rows = self._read_answer(step, sent, answer, written, context, work, milliseconds)
            self._run_branches(step.name, context, work, on_step)
        except StepFailed:
            return work
        return self.run(rows, context, on_step, after=at, work=work)

    def _read_answer(
        self,
        step: ChainStep,
        sent: Any,
        answer: Any,
        written: bytes,
        context: PageContext,
        work: ChainWork,
        milliseconds: float,
    ) -> list[Row]:
        began = time.perf_counter() - milliseconds / 1000
        if not isinstance(answer, dict):
            shown = quote_text(written.decode("utf-8", "replace"))
            self._fail(step, f"its answer is no JSON object: {shown}", BAD_ANSWER, began, work)
        for key in ("task", "dataDef", "document"):
            if key in answer and answer[key] != sent[key]:
                self._fail(step, f"its answer has another `{key}` than the page that it got", BAD_ANSWER, began, work)
        text, code = cut_text(answer.get("text", "")), cut_text(answer.get("code", ""))
        match answer.get("outcome", "ok"):
            case "error":
                self._fail(step, text or "error", code, began, work)
            case "not_applicable":
                self._note(step, "not_applicable", code, began, text, work)
                return self._checked(step, sent["rows"], context, began, work)
            case "warning":
                context.warning(text, code)
            case "ok":
                pass
            case _:
                text = "its `outcome` must be ok, warning, error or not_applicable"
                self._fail(step, text, BAD_ANSWER, began, work)
        if "rows" not in answer:
            self._fail(step, "its answer has no `rows`", BAD_ANSWER, began, work)
        rows = self._checked(step, answer["rows"], context, began, work)
        try:
            for link in answer.get("links") or ():
                url, group = (link.get("url"), link.get("group")) if isinstance(link, dict) else (link, None)
                context.follow(url, group)
        except (StepError, TypeError) as error:
            self._fail(step, str(error), "bad-link", began, work)
        self._succeed(step, context, began, work)
        return rows

    def _run_step(self, index: int, step: ChainStep, context: PageContext, work: ChainWork, on_step: OnStep) -> None:
        if step.kind == "step":
            unchanged = work.rows
            work.rows = self._call(
                index, step, "run", (list(map(dict, unchanged)), context), context, work, on_step, unchanged=unchanged
            )
        elif step.class_name == DATA_FILTER:
            self._filter(work)

    def _run_branches(self, name: str, context: PageContext, work: ChainWork, on_step: OnStep) -> None:
        """Run the side branches that begin at a step, on a copy of its rows: they make links alone."""
        for index, step in enumerate(self._chain):
            if step.previous == name:
                if step.class_name == LOCATOR_CREATOR and step.kind == "built-in":
                    self._create_locators(step, context, work)
                    continue
                branch = ChainWork([dict(row) for row in work.rows], results=work.results)
                try:
                    self._run_step(index, step, context, branch, on_step)
                    self._run_branches(step.name, context, branch, on_step)
                except StepFailed:
                    work.rows = []
                    raise

    def _create_locators(self, step: ChainStep, context: PageContext, work: ChainWork) -> None:
        """Follow the URL in each row's field `field` (default: the first) into `linkGroup`."""
        began = time.perf_counter()
        name = step.options.get("field") or next(iter(self.data_def.columns), "")
        try:
            for row in work.rows:
                if row.get(name):
                    context.follow(row[name], step.options.get("linkGroup"))
        except StepError as error:
            self._fail(step, str(error), error.code, began, work)

    def _filter(self, work: ChainWork) -> None:
        budget, kept = TimeBudget(), []
        for row in work.rows:
            try:
                if any(record_filter.drops(row, budget) for record_filter in self._filters):
                    work.filtered += 1
                else:
                    kept.append(row)
            except RecordRejected as error:
                rejection = Rejection(
                    data_def=self.data_def.name,
                    field=error.field,
                    reason=error.reason,
                    place=str(error.place),
                    code=error.code,
                )
                work.rejected.append(rejection)
        work.rows = kept

    def _call(
        self, index: int, step: ChainStep, method: str, arguments: tuple[Any, ...], context: PageContext,
        work: ChainWork, on_step: OnStep, *, unchanged: list[Row],
    ) -> list[Row]:  # fmt: skip
        """Call plugin code within the limit of its step. Raises StepFailed, and MemoryError."""
        on_step(index)
        began = time.perf_counter()
        try:
            with TimeLimit(step.limit or self._default_limit):
                instance = self._instances.get(index)
                if instance is None:
                    instance = self._instances[index] = self._create(step.class_name, step.options)
                rows = self._awaiter.finish(getattr(instance, method)(*arguments))
        except MemoryError:
            raise
        except NotApplicable as reason:
            self._note(step, "not_applicable", "", began, error_text(reason), work)
            context.take_warnings()
            return unchanged
        except StepError as error:
            self._fail(step, error_text(error), error.code, began, work)
        except PluginUnavailable as error:
            self._fail(step, str(error), "unavailable", began, work)
        except BaseException as error:
            self._fail(step, describe_error(error), type(error).__name__, began, work)
        checked = self._checked(step, rows, context, began, work)
        self._succeed(step, context, began, work)
        return checked

    def _checked(self, step: ChainStep, rows: Any, context: PageContext, began: float, work: ChainWork) -> list[Row]:
        try:
            return self._checker.check(rows, context)
        except RowInvalid as error:
            self._fail(step, str(error), "bad-row", began, work)
        except MemoryError:
            raise
        except Exception as error:  # of an object among the rows
            self._fail(step, describe_error(error), "bad-row", began, work)

    def _succeed(self, step: ChainStep, context: PageContext, began: float, work: ChainWork) -> None:
        warnings = context.take_warnings()
        for text, code in warnings:
            self._note(step, "warning", code, began, text, work)
        if not warnings:
            self._note(step, "ok", "", began, "", work)

    def _fail(self, step: ChainStep, text: str, code: str, began: float, work: ChainWork) -> NoReturn:
        """Note the error, drop the rows, and raise StepFailed."""
        self._note(step, "error", code, began, text or "failed without a text", work)
        work.rows = []
        raise StepFailed

    def _note(self, step: ChainStep, outcome: Outcome, code: str, began: float, text: str, work: ChainWork) -> None:
        milliseconds = round((time.perf_counter() - began) * 1000, 3)
        work.results.append(
            StepResult(self.task, step.name, outcome, cut_text(code, 100), milliseconds, cut_text(text))
        )


class TimeLimit:
    """The system ends this process after so many seconds; meanwhile the CPU limit of the page stands still.

    A signal without a handler works inside C code, too.
    """

    def __init__(self, seconds: float, *, pauses_cpu_limit: bool = True) -> None:
        self._seconds = seconds
        self._pauses = pauses_cpu_limit
        self._left = 0.0

    def __enter__(self) -> None:
        if self._pauses:
            self._left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._pauses:
            signal.setitimer(signal.ITIMER_PROF, self._left)


def needs_late_filters(task: Task) -> bool:
    """Whether the chain filters by itself: a plugin step comes before the filter, or the chain has no filter."""
    for step in task.chain:
        if step.previous or step.kind == "loader":
            continue
        if step.is_plugin:
            return True
        if step.class_name == DATA_FILTER:
            return False
    return True
