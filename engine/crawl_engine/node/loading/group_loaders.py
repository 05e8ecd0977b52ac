"""Loads pages through plugin loaders, and turns their results into responses."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct

from crawl_engine import urls
from crawl_engine.browser.browsers import PageRules
from crawl_engine.browser.loader import BrowserLoader
from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.decompress import body_too_large
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest
from crawl_engine.http.rate_limit import read_rate_limit
from crawl_engine.http.response import FetchResponse, redirect_target
from crawl_engine.model.definition import TaskGroup
from crawl_engine.model.job import LeasedJob
from crawl_engine.model.retry_policy import FOUND
from crawl_engine.model.step import BrowserRule, ChainStep, Outcome, StepResult
from crawl_engine.node.def_cache import DefCache
from crawl_engine.node.extraction.steps.context import cut_text
from crawl_engine.node.host_gate import HostGates
from crawl_engine.node.loading.messages import Loaded, LoaderWarning, NotLoaded, encode_task
from crawl_engine.node.loading.pool import LoaderPool, LoaderProcess, LoaderUnavailable
from crawl_engine.processes.worker import WorkerEnded
from crawl_engine.settings import Settings
from crawl_engine.store.tables.job.results import UnitResult


class GroupLoader(Struct, frozen=True):
    """The plugin loader of a task group."""

    step: ChainStep
    tasks: tuple[tuple[str, str], ...]
    """Tasks with this loader, each with the name of its step."""

    @property
    def title(self) -> str:
        """`TASK/STEP`, the name in errors."""
        task, step = self.tasks[0]
        return f"{task}/{step}"


class LoadOutcome(Struct):
    """The result of one call of a loader. `response`: None if the built-in client is to fetch the page."""

    results: tuple[StepResult, ...]
    response: FetchResponse | None = None
    failure: FetchFailed | None = None


def find_loader(group: TaskGroup | None) -> GroupLoader | None:
    """The plugin loader of a group; `check` ensures that all tasks have the same."""
    steps = [
        (task.name, step) for task in (group.tasks if group else ()) for step in task.chain if step.kind == "loader"
    ]
    return GroupLoader(steps[0][1], tuple((task, step.name) for task, step in steps)) if steps else None


class GroupLoaders:
    """The plugin loaders of task groups; one for each node or preview, used by the fetch loop's thread alone."""

    def __init__(
        self, pool: LoaderPool, settings: Settings, *, browser: BrowserLoader, def_cache: DefCache,
        host_gates: HostGates, run: str,
    ) -> None:  # fmt: skip
        """`run`: its id, for the loaders."""
        self._pool = pool
        self._browser = browser
        self._deadline = settings.deadline
        self._max_body = settings.max_body
        self._user_agent = settings.full_user_agent
        self._def_cache = def_cache
        self._host_gates = host_gates
        self._run = run

    def find(self, job: LeasedJob, *, renders: bool = False) -> GroupLoader | BrowserRule | None:
        """The loader that fetches the job's page; None: the built-in client, as for robots.txt and sitemaps.

        `renders`: the plain page was not enough.
        """
        if not job.plan.has_loader:
            return None
        loading = job.plan.group.loader
        if loading is None:
            return find_loader(job.plan.group)
        return loading.browser if loading.browser.when is None or renders else None

    async def render(
        self, rule: BrowserRule, job: LeasedJob, url: str, request: OutgoingRequest, share: BodyShare, *,
        again: bool, on_send: Callable[[], None], begin_again: Callable[[], Awaitable[None]], rules: PageRules,
    ) -> LoadOutcome:  # fmt: skip
        """Have a browser load a page, as `load` does.

        `begin_again`: returns when the page may be asked for once more, because its browser ended with others in it.
        Raises what `begin_again` and `rules` raise, too.
        """
        async with AsyncExitStack() as approach:
            await approach.enter_async_context(self._host_gates.approach(job))
            must_wait = not self._browser.has_free()
            if must_wait:
                self._host_gates.exit(job)

            is_sent = False

            async def admit() -> None:
                nonlocal is_sent
                if is_sent:
                    await begin_again()
                    return
                await self._take_turn(job, must_wait=must_wait, again=again)
                is_sent = True
                on_send()
                await approach.aclose()

            try:
                response = await self._browser.load(
                    rule, url, request, share, admit=admit, rules=rules,
                    sends_cookies=job.plan.rule.jar_mode != "off",
                )  # fmt: skip
            except FetchFailed as failure:
                return LoadOutcome((), failure=failure)
            return LoadOutcome((), response)

    async def _take_turn(self, job: LeasedJob, *, must_wait: bool, again: bool) -> None:
        if must_wait:
            await self._host_gates.enter(job, job.plan.limited, send_at=None)
        await self._host_gates.wait_turn(job, again=again and not must_wait)

    async def load(
        self,
        loader: GroupLoader,
        job: LeasedJob,
        url: str,
        request: OutgoingRequest,
        share: BodyShare,
        *,
        again: bool,
        on_send: Callable[[], None],
    ) -> LoadOutcome:
        """Have a process load a page for a job that was admitted to its host. `url`: with unexpanded variables.

        `share` grows with the body, and is released if no body comes. `again`: the job has sent a request before.
        `on_send` is called when the loader is about to be called. Raises HostBackingOff and NoRoom.
        """
        step, version = loader.step, job.defs_version
        must_wait = not self._pool.has_free(step, version)
        if must_wait:  # a job that waits for a process must not hold a place at its host
            self._host_gates.exit(job)
        began = time.perf_counter()
        limit = max(step.limit or 0.0, self._deadline)
        definitions = self._def_cache.definitions(version)
        outcome: LoadOutcome | None = None
        try:
            async with self._pool.reserve(step, definitions, version, limit=limit) as process:
                await self._take_turn(job, must_wait=must_wait, again=again)
                on_send()
                began = time.perf_counter()
                outcome = await self._ask(loader, process, job, url, request, share)
        except LoaderUnavailable as error:
            outcome = self._failed(loader, str(error), error.code, began)
        except WorkerEnded as death:
            outcome = self._failed(loader, str(death), "died", began)
        finally:
            if outcome is not None and outcome.response is not None and outcome.response.body:
                share.finish_reading()
            else:
                share.release()
        return outcome

    def to_unit_results(self, job: LeasedJob, results: Sequence[StepResult]) -> tuple[UnitResult, ...]:
        """The results of a load as the job's commit writes them, each with the id of its task's unit."""
        ids = {(unit.data_def, unit.task): unit.id for unit in self._def_cache.compiled_data_defs(job)}
        data_defs = {task.name: task.data_def for task in job.plan.group.tasks}
        # a task whose only plugin code is its loader shares the unit of the default chain
        units = {task: ids.get((data_def, task)) or ids[data_def, ""] for task, data_def in data_defs.items()}
        return tuple(UnitResult(units[result.task], job.group, result) for result in results)

    async def aclose(self) -> None:
        """End all loader processes."""
        self._pool.close()
        await self._browser.aclose()

    async def _ask(
        self, loader: GroupLoader, process: LoaderProcess, job: LeasedJob, url: str, request: OutgoingRequest,
        share: BodyShare,
    ) -> LoadOutcome:  # fmt: skip
        header, body = encode_task(
            url=request.target,
            method=request.method,
            headers={"user-agent": self._user_agent, **request.joined_headers()},
            body=request.body or None,
            context={
                "group": job.group,
                "locator": job.lineage.locator,
                "depth": job.lineage.depth,
                "run": self._run,
                "attempt": job.attempts + 1,
                "url": url,
                "task": loader.tasks[0][0],
            },
            max_body=self._max_body,
        )
        began = time.perf_counter()
        answer = await process.load(header, body, seconds=loader.step.limit or self._deadline, share=share)
        if isinstance(answer, NotLoaded):
            return self._not_loaded(loader, process, answer, began)
        if not isinstance(answer, Loaded):
            process.kill("sent an invalid answer")
            return self._failed(loader, "its process sent an invalid answer", "died", began)
        try:
            response = self._to_response(url, request, answer, time.perf_counter() - began - process.waited)
        except _NoUrl as error:
            process.kill("sent no URL")
            return self._failed(loader, str(error), "bad-response", began)
        return LoadOutcome(_results(loader, _outcomes(answer.warnings), began), response)

    def _not_loaded(
        self, loader: GroupLoader, process: LoaderProcess, answer: NotLoaded, began: float
    ) -> LoadOutcome:  # fmt: skip
        match answer.kind:
            case "not-applicable":
                return LoadOutcome(_results(loader, [("not_applicable", "", answer.text)], began))
            case "too-large":
                failure = body_too_large(self._max_body)
                results = _results(loader, [("error", answer.code, failure.reason)], began)
                return LoadOutcome(results, failure=failure)
            case "step":
                return self._failed(loader, answer.text, answer.code, began, retryable=False)
            case "error":  # the loader's state may be broken: the next page gets a new process
                process.kill("raised an error")
        return self._failed(loader, answer.text, answer.code, began)

    def _failed(
        self, loader: GroupLoader, text: str, code: str, began: float, *, retryable: bool = True
    ) -> LoadOutcome:  # fmt: skip
        text = cut_text(text) or "failed without a text"
        failure = FetchFailed(f"{loader.title}: {text}", kind="loader", retryable=retryable)
        return LoadOutcome(_results(loader, [("error", cut_text(code, 100), text)], began), failure=failure)

    def _to_response(self, url: str, request: OutgoingRequest, answer: Loaded, seconds: float) -> FetchResponse:
        """The response. Raises _NoUrl."""
        headers = dict(reversed(answer.headers))  # the first of several headers of one name counts
        written = headers.get("location")
        target = None if written is None else written.encode("utf-8", "replace")
        final = None if answer.url is None else _final_url(request.target, answer.url)
        location, problem = redirect_target(answer.status, target, final or request.target)
        limit = read_rate_limit(answer.status, answer.headers)
        body = b"" if location is not None or problem is not None else answer.body
        return FetchResponse(
            url=urls.without_credentials(url),
            status=answer.status,
            headers=answer.headers,
            body=body,
            received=len(answer.body),
            elapsed=max(0.0, seconds),
            content_type=headers.get("content-type", ""),
            location=location,
            location_problem=problem,
            retry_after=limit.wait,
            exceeds_rate=limit.is_exceeded,
            loaded_url=None if location else final,
        )


class _NoUrl(Exception):
    """The URL of a response is not an http URL."""


def _final_url(sent: str, text: str) -> str | None:
    """The URL that a loader was led to, without credentials; None: the URL of the request. Raises _NoUrl."""
    target = None
    if urls.is_http_url(text):
        target, _ = redirect_target(FOUND, text.encode("utf-8", "replace"), sent)
    if target is None:
        raise _NoUrl("the url of its PageResponse is not an http or https URL")
    return None if target == sent else target


def _outcomes(warnings: tuple[LoaderWarning, ...]) -> list[tuple[Outcome, str, str]]:
    return [("warning", code, text) for text, code in warnings] or [("ok", "", "")]


def _results(
    loader: GroupLoader, outcomes: list[tuple[Outcome, str, str]], began: float
) -> tuple[StepResult, ...]:  # fmt: skip
    """Outcome, code and text for each task with the loader."""
    milliseconds = round((time.perf_counter() - began) * 1000, 3)
    return tuple(
        StepResult(task, step, outcome, code, milliseconds, text)
        for task, step in loader.tasks
        for outcome, code, text in outcomes
    )
