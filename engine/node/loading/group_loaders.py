"""The plugin loaders of task groups: each call waits for its process and for its host."""

from collections.abc import Callable, Sequence

from engine.http.byte_budget import BodyShare
from engine.http.exchange import OutgoingRequest
from engine.model.job import LeasedJob
from engine.model.step import StepResult
from engine.node.def_cache import DefCache
from engine.node.host_gate import HostGates
from engine.node.loading.page_loader import GroupLoader, LoadOutcome, PageLoader, find_loader
from engine.store.tables.job.results import UnitResult


class GroupLoaders:
    """One for each node; used by the fetch loop's thread alone."""

    def __init__(self, *, page_loader: PageLoader, def_cache: DefCache, host_gates: HostGates, run: str) -> None:
        self._page_loader = page_loader
        self._def_cache = def_cache
        self._host_gates = host_gates
        self._run = run

    def find(self, job: LeasedJob) -> GroupLoader | None:
        """The loader that fetches the job's page; None: the built-in client, as for robots.txt and sitemaps."""
        return find_loader(job.plan.group) if job.plan.has_loader else None

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
        """Have the loader fetch a page for a job that was admitted to its host.

        `again`: the job has sent a request before. `on_send` is called when the loader is about to be called.
        Raises HostBackingOff and NoRoom.
        """
        definitions = self._def_cache.definitions(job.defs_version)
        must_wait = not self._page_loader.has_free(loader, job.defs_version)
        if must_wait:  # a job that waits for a process must not hold a place at its host
            self._host_gates.exit(job)

        async def admit() -> None:
            if must_wait:
                await self._host_gates.enter(job, job.plan.host_key, send_at=None)
            await self._host_gates.wait_turn(job, again=again and not must_wait)
            on_send()

        context = {
            "group": job.group, "locator": job.lineage.locator, "depth": job.lineage.depth, "run": self._run,
            "attempt": job.attempts + 1,
        }  # fmt: skip
        return await self._page_loader.load(
            loader, definitions, job.defs_version, url=url, request=request, context=context, share=share, admit=admit
        )

    def to_unit_results(self, job: LeasedJob, results: Sequence[StepResult]) -> tuple[UnitResult, ...]:
        """The results of a load as the job's commit writes them, each with the id of its task's unit."""
        ids = {(unit.data_def, unit.task): unit.id for unit in self._def_cache.compiled_data_defs(job)}
        data_defs = {task.name: task.data_def for task in job.plan.group.tasks}
        # a task whose only plugin code is its loader shares the unit of the default chain
        units = {task: ids.get((data_def, task)) or ids[data_def, ""] for task, data_def in data_defs.items()}
        return tuple(UnitResult(units[result.task], job.group, result) for result in results)

    def close(self) -> None:
        """End the loader processes."""
        self._page_loader.close()
