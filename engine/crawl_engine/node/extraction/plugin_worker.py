"""Extracts a page whose rows go through plugin code, in extraction processes and commands."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
from msgspec.structs import replace

from crawl_engine.http.byte_budget import BodyShare, ByteBudget
from crawl_engine.model.definition import Definitions, Task, TaskGroup
from crawl_engine.model.record import RecordCounts, RejectCode, RejectedCount, Texts
from crawl_engine.model.step import BAD_ANSWER, ChainStep, StepResult
from crawl_engine.node.extraction.death import LONGER_THAN_LIMIT
from crawl_engine.node.extraction.node_calls import NodeCalls
from crawl_engine.node.extraction.process_pool import ExtractionPool
from crawl_engine.node.extraction.request import ExtractionRequest, StepDied
from crawl_engine.node.extraction.result import LinkColumns, PageResult
from crawl_engine.node.extraction.steps.command import CommandFailed, CommandPool, StepCommand
from crawl_engine.node.extraction.task import PageTask
from crawl_engine.plugins.files import resolve_arguments
from crawl_engine.store.pages.body import Body

PARSER = "parser"


class PluginWorker:
    """Works pages with plugin code, for one event loop."""

    def __init__(self, pool: ExtractionPool, folder: Path, budget: ByteBudget | None = None) -> None:
        """`folder`: for plugin files of commands. `budget`: bytes that their answers may hold."""
        self._pool = pool
        self._folder = folder
        self._budget = budget
        self._commands = CommandPool(pool.link, max_bytes=pool.limits.answer)
        self._arguments: dict[tuple[int, tuple[str, ...]], tuple[str, ...]] = {}
        """By def version and `run` of a step."""

    async def extract(
        self, task: PageTask, body: Body, definitions: tuple[int, Definitions], *, share: BodyShare | None = None,
        on_call: NodeCalls | None = None,
    ) -> PageResult:  # fmt: skip
        """Extract a page. A unit whose step failed has an `error` among the results, and no rows.

        A task that names no tasks runs no plugin code. Raises UnsupportedContent and UnreadablePage.
        """
        if not task.tasks:
            request = ExtractionRequest(header=task.to_header(), body=body, definitions=definitions, share=share)
            answer = await self._pool.work(request)
            assert isinstance(answer, PageResult)
            return answer
        tasks = [self._find_task(definitions[1], task, index) for index in range(len(task.data_defs))]
        died: list[tuple[int, StepResult]] = []
        while True:
            request = self._extraction(task.to_header(), body, definitions, tasks, share, on_call)
            try:
                answer = await self._pool.work(request)
                break
            except StepDied as death:
                if on_call is not None:
                    on_call.restart()
                if task.data_defs[death.unit][1]:  # otherwise it was applied only for its links, and keeps its results
                    died.append((death.unit, self._describe_death(definitions[1], task, tasks[death.unit], death)))
                task = _without_plugins(task, death.unit)
                tasks[death.unit] = None
        assert isinstance(answer, PageResult)
        if share is not None:
            share.finish_reading()  # the answers of commands have shares of their own
        finished = await asyncio.gather(
            *(self._finish(task, unit, tasks[unit], step, answer, definitions, on_call) for unit, step in answer.stops)
        )
        for (unit, _), end in zip(answer.stops, finished, strict=True):
            answer = _merge(answer, unit, end)
        return replace(answer, results=(*answer.results, *died), stops=())

    def close(self) -> None:
        """End the commands."""
        self._commands.close()

    def _extraction(
        self, header: dict[str, Any], body: Body, definitions: tuple[int, Definitions], tasks: Sequence[Task | None],
        share: BodyShare | None, on_call: NodeCalls | None,
    ) -> ExtractionRequest:  # fmt: skip
        chains = [() if task is None else task.chain for task in tasks]
        steps = [step for chain in chains for step in chain if step.kind in ("step", "parser")]
        return ExtractionRequest(
            header=header,
            body=body,
            definitions=definitions,
            share=share,
            key=str(definitions[0]),
            chains=chains,
            size=min((step.workers for step in steps), default=1),
            step_seconds=sum(step.limit or self._pool.limits.seconds for step in steps),
            on_call=on_call,
        )

    def _find_task(self, definitions: Definitions, task: PageTask, unit: int) -> Task | None:
        """The task of a unit; None: the default chain."""
        group = definitions.task_group(task.context.group) or TaskGroup(name="")
        name = task.tasks[unit]
        return next((task for task in group.tasks if name and task.name == name), None)

    def _describe_death(
        self, definitions: Definitions, task: PageTask, chain: Task | None, death: StepDied
    ) -> StepResult:
        """`chain`: None for the default chain. Only its converters die, which count as part of the parser."""
        group = definitions.task_group(task.context.group) or TaskGroup(name="")
        data_def = task.data_defs[death.unit][0]
        name = next((one.name for one in group.tasks if one.data_def == data_def), "") if chain is None else chain.name
        steps = () if chain is None else chain.chain
        step = steps[death.step] if death.step < len(steps) else None
        limit = step.limit if step is not None else None
        text = death.reason
        if text == LONGER_THAN_LIMIT:
            text += f" of {limit or self._pool.limits.seconds:g} s"
        return StepResult(name, step.name if step is not None else PARSER, "error", "died", 0.0, text)

    async def _finish(
        self, task: PageTask, unit: int, chain: Task | None, at: int, answer: PageResult,
        definitions: tuple[int, Definitions], on_call: NodeCalls | None,
    ) -> PageResult:  # fmt: skip
        """Finish the chain of a unit that stopped before a command."""
        assert chain is not None
        rows = next((texts for index, texts in answer.rows if index == unit), ())
        parts: list[PageResult] = []
        while True:
            step = chain.chain[at]
            line = _command_line(chain, task.url, rows)
            began = time.perf_counter()
            share = self._budget.open_share() if self._budget is not None else None
            try:
                command = self._command(step, definitions)
                async with self._commands.ask(command, definitions[0], line, share) as (reply, milliseconds, process):
                    header = {
                        "kind": "steps", "defs": definitions[0], "at": at, "ms": milliseconds,
                        "task": replace(task, data_defs=(task.data_defs[unit],), tasks=(task.tasks[unit],)).to_header(),
                    }  # fmt: skip
                    body = Body(line + b"\n" + reply)
                    request = self._extraction(header, body, definitions, [chain], None, on_call)
                    end = await self._pool.work(request)
                    assert isinstance(end, PageResult)
                    if any(result.code == BAD_ANSWER for _, result in end.results):
                        process.is_usable = False  # what it writes next may belong to this page
            except (CommandFailed, OSError) as error:
                milliseconds = round((time.perf_counter() - began) * 1000, 3)
                result = StepResult(chain.name, step.name, "error", "command", milliseconds, str(error))
                return _join_chain([*parts, PageResult(page_kind="rows", results=((0, result),))])
            except StepDied as death:
                result = self._describe_death(definitions[1], task, chain, death)
                return _join_chain([*parts, PageResult(page_kind="rows", results=((0, result),))])
            finally:
                if share is not None:
                    share.release()
            parts.append(end)
            if not end.stops:
                return _join_chain(parts)
            [(_, at)] = end.stops
            rows = next((texts for _, texts in end.rows), ())

    def _command(self, step: ChainStep, definitions: tuple[int, Definitions]) -> StepCommand:
        """The program of a step. Raises OSError if plugin files cannot be written."""
        version = definitions[0]
        run = self._arguments.get((version, step.run))
        if run is None:
            arguments = resolve_arguments(step.run, definitions[1].plugins, self._folder)
            run = self._arguments[version, step.run] = tuple(arguments)
            for old in [key for key in self._arguments if key[0] < version - 1]:
                del self._arguments[old]
        return StepCommand(run, step.workers, step.limit or self._pool.limits.seconds)


def _command_line(task: Task, url: str, rows: Texts | Sequence[str]) -> bytes:
    """The line that a command gets; the rows are JSON already."""
    head = orjson.dumps({"task": task.name, "dataDef": task.data_def, "document": {"url": url}})
    texts = [text.encode() if isinstance(text, str) else bytes(text) for text in rows]
    return head[:-1] + b',"rows":[' + b",".join(texts) + b"]}"


def _without_plugins(task: PageTask, unit: int) -> PageTask:
    """The task in which a unit is applied only for the links of its dataDef."""
    data_defs, tasks = list(task.data_defs), list(task.tasks)
    data_defs[unit], tasks[unit] = (data_defs[unit][0], False), ""
    return replace(task, data_defs=tuple(data_defs), tasks=tuple(tasks))


def _join(parts: Sequence[PageResult], **changes: Any) -> PageResult:
    """The first of these parts with changes; links, problems and results of steps are those of all."""
    links = [part.links for part in parts if len(part.links)]
    counts = Counter[tuple[str, str, RejectCode]]()
    for one in chain.from_iterable(part.rejected_counts for part in parts):
        counts[one.data_def, one.field, one.code] += one.records
    return replace(
        parts[0],
        links=links[0] if len(links) == 1 else LinkColumns.from_links([link for of_part in links for link in of_part]),
        rejected=tuple(rejection for part in parts for rejection in part.rejected),
        rejected_counts=tuple([RejectedCount(name, n, field, code) for (name, field, code), n in counts.items()]),
        filtered=sum(part.filtered for part in parts),
        results=tuple(result for part in parts for result in part.results),
        **changes,
    )


def _join_chain(parts: Sequence[PageResult]) -> PageResult:
    """Join the parts of a chain, whose rows are those of the last part."""
    return _join(parts, rows=parts[-1].rows, counts=parts[-1].counts, stops=())


def _merge(answer: PageResult, unit: int, end: PageResult) -> PageResult:
    """The answer, with the results of a unit's chain behind a command in the place of those before it."""
    rows = tuple((index, texts) for index, texts in answer.rows if index != unit)
    counts = []
    for index, before in answer.counts:
        if index == unit:
            after = next((counted for _, counted in end.counts), RecordCounts())
            missing = dict(before.missing) | dict(after.missing)
            records = max(before.records, after.records)
            rejected = min(records, before.rejected + after.rejected)
            before = RecordCounts(records, rejected, tuple(missing.items()), before.filtered + after.filtered)
        counts.append((index, before))
    end = replace(end, results=tuple((unit, result) for _, result in end.results))
    rows = (*rows, *((unit, texts) for _, texts in end.rows))
    return _join([answer, end], rows=rows, counts=tuple(counts))
