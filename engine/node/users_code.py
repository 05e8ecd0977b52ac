"""Extracts a page whose rows go through users' code: extraction process, commands, extraction process again."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from engine.fetch.byte_budget import BodyShare
from engine.model.definition import Definitions, Task, TaskGroup
from engine.model.record import RecordCounts, Texts
from engine.model.step import ChainStep, StepResult
from engine.node import extraction_wire as wire
from engine.node.extraction_death import LONGER_THAN_LIMIT
from engine.node.extraction_process import ExtractionPool
from engine.node.extraction_request import ExtractionRequest, StepDied
from engine.node.lines import as_text
from engine.node.page_task import PageTask
from engine.node.steps.command import CommandFailed, CommandPool
from engine.node.tuning import allowed_cpus
from engine.plugins.materialize import resolve_arguments
from engine.store.pages.body import Body

_MAX_POOLS = 32
"""Commands that are kept warm; the one not used for longest ends first."""
OnCall = Callable[[wire.NodeCallRequest], Awaitable[Any]]


class UsersCodeWorker:
    """Works pages with users' code, for one event loop."""

    def __init__(self, pool: ExtractionPool, folder: Path) -> None:
        """`folder`: where plugin files are written for commands."""
        self._pool = pool
        self._folder = folder
        self._cpus = allowed_cpus()
        self._commands: OrderedDict[tuple[Any, ...], CommandPool] = OrderedDict()

    async def extract(
        self, task: PageTask, body: Body, definitions: tuple[int, Definitions], *, share: BodyShare | None = None,
        on_call: OnCall | None = None,
    ) -> wire.PageAnswer:  # fmt: skip
        """What the page gives. A unit whose step failed has an `error` among the results, no rows and no links.

        Raises UnsupportedContent and UnreadablePage.
        """
        tasks = [self._find_task(definitions[1], task, index) for index in range(len(task.data_defs))]
        died: list[tuple[int, StepResult]] = []
        active = list(range(len(task.data_defs)))
        while True:
            if not active:
                return _empty_answer(died)
            request = self._request(task, active, tasks, body, definitions, share, on_call)
            try:
                answer = await self._pool.work(request)
                break
            except StepDied as death:
                unit = active.pop(death.unit)
                if task.data_defs[unit][1]:  # else it was asked for its links alone, and keeps its rows and results
                    died.append((unit, self._describe_death(tasks[unit], death)))
        assert isinstance(answer, wire.PageAnswer)
        answer = _with_units(answer, active)
        finished = await asyncio.gather(
            *(self._finish(task, unit, tasks[unit], step, answer, definitions, on_call) for unit, step in answer.stops)
        )
        for (unit, _), end in zip(answer.stops, finished, strict=True):
            answer = _merge(answer, unit, end)
        return replace(answer, results=(*answer.results, *died), stops=())

    def close(self) -> None:
        """End the commands."""
        for pool in self._commands.values():
            pool.close()
        self._commands.clear()

    def _request(
        self, task: PageTask, units: Sequence[int], tasks: Sequence[Task | None], body: Body,
        definitions: tuple[int, Definitions], share: BodyShare | None, on_call: OnCall | None,
    ) -> ExtractionRequest:  # fmt: skip
        header = replace(
            task,
            data_defs=tuple(task.data_defs[unit] for unit in units),
            tasks=tuple(task.tasks[unit] for unit in units),
        ).to_header()
        chains = [chain for unit in units if (chain := tasks[unit]) is not None]
        names = [task.data_defs[unit][0] for unit in units]
        return self._extraction(header, body, definitions, names, chains, share, on_call)

    def _extraction(
        self, header: dict[str, Any], body: Body, definitions: tuple[int, Definitions], data_defs: Sequence[str],
        tasks: Sequence[Task], share: BodyShare | None, on_call: OnCall | None,
    ) -> ExtractionRequest:  # fmt: skip
        steps = [step for task in tasks for step in task.chain if step.kind in ("step", "parser")]
        return ExtractionRequest(
            header=header,
            body=body,
            definitions=definitions,
            data_defs=data_defs,
            share=share,
            code=str(definitions[0]),
            workers=max((step.workers for step in steps), default=1),
            step_seconds=sum(step.limit or self._pool.limits.seconds for step in steps),
            on_call=on_call,
        )

    def _find_task(self, definitions: Definitions, task: PageTask, unit: int) -> Task | None:
        """The task of a unit; None: the default chain."""
        group = definitions.task_group(task.context.group) or TaskGroup(name="")
        name = task.tasks[unit]
        return next((task for task in group.tasks if name and task.name == name), None)

    def _describe_death(self, task: Task | None, death: StepDied) -> StepResult:
        assert task is not None, "only users' steps die"
        step, text = task.chain[death.step], death.reason
        if text == LONGER_THAN_LIMIT:
            text += f" of {step.limit or self._pool.limits.seconds:g} s"
        return StepResult(task.name, step.name, "error", "died", 0.0, text)

    async def _finish(
        self, task: PageTask, unit: int, chain: Task | None, at: int, answer: wire.PageAnswer,
        definitions: tuple[int, Definitions], on_call: OnCall | None,
    ) -> wire.PageAnswer:  # fmt: skip
        """What follows from the rows of a unit that stopped before a command."""
        assert chain is not None
        rows = next((texts for index, texts in answer.rows if index == unit), ())
        parts: list[wire.PageAnswer] = []
        while True:
            step = chain.chain[at]
            line = _command_line(chain, task.url, rows)
            began = time.perf_counter()
            try:
                reply = await self._command(step, definitions[1]).ask(line)
            except (CommandFailed, OSError) as error:
                milliseconds = round((time.perf_counter() - began) * 1000, 3)
                result = StepResult(chain.name, step.name, "error", "command", milliseconds, str(error))
                return _join([*parts, _empty_answer([(0, result)])])
            header = {
                "kind": "steps", "defs": definitions[0], "at": at, "ms": (time.perf_counter() - began) * 1000,
                "task": replace(task, data_defs=(task.data_defs[unit],), tasks=(task.tasks[unit],)).to_header(),
            }  # fmt: skip
            request = self._extraction(
                header, Body(line + b"\n" + reply), definitions, [task.data_defs[unit][0]], [chain], None, on_call
            )
            try:
                end = await self._pool.work(request)
            except StepDied as death:
                return _join([*parts, _empty_answer([(0, self._describe_death(chain, death))])])
            assert isinstance(end, wire.PageAnswer)
            parts.append(end)
            if not end.stops:
                return _join(parts)
            [(_, at)] = end.stops
            rows = next((texts for _, texts in end.rows), ())

    def _command(self, step: ChainStep, definitions: Definitions) -> CommandPool:
        """The processes of a step. Raises OSError if plugin files cannot be written."""
        limit = step.limit or self._pool.limits.seconds
        arguments = tuple(resolve_arguments(step.run, definitions.plugins, self._folder))
        key = (arguments, step.workers, limit)
        pool = self._commands.get(key)
        if pool is None:
            pool = CommandPool(
                arguments, workers=step.workers, limit=limit, max_bytes=self._pool.limits.answer, cpus=self._cpus
            )
            self._commands[key] = pool
            if len(self._commands) > _MAX_POOLS:
                self._commands.popitem(last=False)[1].close()
        self._commands.move_to_end(key)
        return pool


def _command_line(task: Task, url: str, rows: Texts | Sequence[str]) -> bytes:
    """The line that a command gets; the rows are JSON already."""
    head = orjson.dumps({"task": task.name, "dataDef": task.data_def, "document": {"url": url}})
    texts = [text.encode() if isinstance(text, str) else bytes(text) for text in rows]
    return head[:-1] + b',"rows":[' + b",".join(texts) + b"]}"


def _with_units(answer: wire.PageAnswer, units: Sequence[int]) -> wire.PageAnswer:
    """The answer with the indexes of all units; `units`: those that were asked."""
    if list(units) == list(range(len(units))):
        return answer
    return replace(
        answer,
        rows=tuple((units[index], texts) for index, texts in answer.rows),
        counts=tuple((units[index], counts) for index, counts in answer.counts),
        results=tuple((units[index], result) for index, result in answer.results),
        stops=tuple((units[index], step) for index, step in answer.stops),
    )


def _join(parts: Sequence[wire.PageAnswer]) -> wire.PageAnswer:
    """One answer of the parts of a chain: rows of the last, the rest of all."""
    last = parts[-1]
    failed = any(result.outcome == "error" for _, result in last.results)
    return replace(
        last,
        links=wire.LinkColumns() if failed else _join_links([part.links for part in parts]),
        rejected=tuple(rejection for part in parts for rejection in part.rejected),
        rejected_counts=_add_counts([part.rejected_counts for part in parts]),
        filtered=sum(part.filtered for part in parts),
        results=tuple(result for part in parts for result in part.results),
    )


def _merge(answer: wire.PageAnswer, unit: int, end: wire.PageAnswer) -> wire.PageAnswer:
    """The answer with the end of a unit's chain in place of what it had before a command."""
    rows = tuple((index, texts) for index, texts in answer.rows if index != unit)
    counts = []
    for index, before in answer.counts:
        if index == unit:
            after = next((counted for _, counted in end.counts), RecordCounts())
            missing = dict(before.missing) | dict(after.missing)
            records = max(before.records, after.records)
            rejected = min(records, before.rejected + after.rejected)
            before = RecordCounts(records, rejected, tuple(missing.items()))
        counts.append((index, before))
    return replace(
        answer,
        rows=(*rows, *((unit, texts) for _, texts in end.rows)),
        links=_join_links([answer.links, end.links]),
        rejected=(*answer.rejected, *end.rejected),
        rejected_counts=_add_counts([answer.rejected_counts, end.rejected_counts]),
        filtered=answer.filtered + end.filtered,
        counts=tuple(counts),
        results=(*answer.results, *((unit, result) for _, result in end.results)),
    )


def _empty_answer(results: Sequence[tuple[int, StepResult]]) -> wire.PageAnswer:
    return wire.PageAnswer(
        page_kind="html", damaged=0, rows=(), links=wire.LinkColumns(), dropped_links=0, rejected=(),
        rejected_counts=(), filtered=0, counts=(), noindex=False, results=tuple(results),
    )  # fmt: skip


def _join_links(columns: Sequence[wire.LinkColumns]) -> wire.LinkColumns:
    """The links of several columns, one after the other."""
    with_links = [column for column in columns if column.runs]
    if len(with_links) <= 1:
        return with_links[0] if with_links else wire.LinkColumns()
    return wire.LinkColumns(
        urls=tuple(as_text(url) for column in with_links for url in column.urls),
        keys=b"".join(column.keys for column in with_links),
        runs=tuple(run for column in with_links for run in column.runs),
    )


def _add_counts(counts: Sequence[tuple[tuple[str, int], ...]]) -> tuple[tuple[str, int], ...]:
    """The sums of counts by name."""
    sums: Counter[str] = Counter()
    for of_part in counts:
        sums.update(dict(of_part))
    return tuple(sums.items())
