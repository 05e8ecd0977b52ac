"""Sends the requests of a job: admits them to their host, adds its headers, counts what they cost."""

from dataclasses import dataclass

from engine import urls
from engine.fetch.client import Fetcher
from engine.fetch.response import FetchResponse
from engine.fetch.retry_policy import OVERLOAD_STATUSES, host_backoff
from engine.model.job import JobOrigin, JobState, LeasedJob, Request
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.host_gate import HostBackingOff, HostGates
from engine.runtime.clock import boottime
from engine.store.transactions.outcome import JobOutcome


@dataclass(slots=True)
class _RequestStats:
    """What the requests of one job cost, and whether an answer was 429 or 503."""

    requests: int = 0
    reserved: int = 0
    responses: int = 0
    seconds: float = 0.0
    received: int = 0
    throttled: bool = False
    strike: bool = False
    backoff_until: float | None = None


class RequestSender:
    """One for each node."""

    def __init__(self, *, fetcher: Fetcher, db_access: DbAccess, def_cache: DefCache, host_gates: HostGates) -> None:
        self._fetcher = fetcher
        self._db_access = db_access
        self._def_cache = def_cache
        self._host_gates = host_gates
        self._stats: dict[int, _RequestStats] = {}

    async def admit(self, job: LeasedJob) -> JobOutcome | None:
        """Wait until the job may send its first request; or the outcome that gives it back: its host is in backoff."""
        try:
            await self._host_gates.enter(
                job,
                urls.host_key(job.target or job.url),
                send_at=job.send_at,
                delay=job.delay,
                concurrency=job.host_concurrency,
            )
        except HostBackingOff as refusal:
            return give_back(job, refusal)
        return None

    def dismiss(self, job: LeasedJob) -> None:
        """Note that the job sends no more: another may take its place at the host."""
        self._host_gates.exit(job)

    async def send(self, job: LeasedJob, url: str, request: Request) -> FetchResponse:
        """Send one request for a job, with the headers and cookies the defs set for the host.

        A further request of the job waits for its turn at its host, as the first one did in `admit`. Raises
        FetchFailed, and HostBackingOff if nothing was sent because the host is in backoff.
        """
        host_key = urls.host_key(url)
        stats = self._stats.get(job.id)
        if stats is None:
            stats = self._stats[job.id] = _RequestStats()
        gate = self._host_gates.gate_of(job)
        if gate is None or gate.host_key != host_key:
            self._host_gates.exit(job)
            policy = self._def_cache.host_policy(host_key)
            await self._host_gates.enter(
                job, host_key, send_at=None, delay=policy.delay, concurrency=policy.concurrency
            )
        elif job.delay and (stats.requests or gate.is_late(job.delay)):
            await gate.wait_turn(job.delay)
        else:
            gate.check_backoff()
        rule = self._def_cache.host_rule(job.defs_version, host_key)
        stats.requests += 1
        sent_at = boottime()
        response = await self._fetcher.send(
            url, request, headers=rule.headers, cookies=rule.cookies, url_from_defs=job.origin is JobOrigin.LOCATOR
        )
        stats.responses += 1
        stats.seconds += response.elapsed
        stats.received += response.received
        if response.status in OVERLOAD_STATUSES:
            self._back_off(job, stats, sent_at, response.retry_after)
        return response

    def mark_reserved(self, job: LeasedJob) -> None:
        """Note that the next request of the job is counted already."""
        self._stats[job.id].reserved += 1

    def complete(self, outcome: JobOutcome) -> None:
        """Add to the outcome of a job what its requests cost, and the backoff they put the host in."""
        stats = self._stats.pop(outcome.job.id, None)
        if stats is None:
            return
        outcome.requests = stats.requests - stats.reserved
        outcome.fetches, outcome.fetch_seconds = stats.responses, stats.seconds
        outcome.received_bytes = stats.received
        outcome.throttled, outcome.strike = stats.throttled, stats.strike
        outcome.backoff_until = outcome.backoff_until or stats.backoff_until

    def forget(self, job: LeasedJob) -> None:
        """Free what is kept of a job, however it ended."""
        self._host_gates.exit(job)
        self._stats.pop(job.id, None)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._fetcher.aclose()
        self._host_gates.close()

    def _back_off(self, job: LeasedJob, stats: _RequestStats, sent_at: float, retry_after: float | None) -> None:
        """Hold back the host at once, before this is committed: in this process, and through the clock in others."""
        gate = self._host_gates.gate_of(job)
        assert gate is not None, "it sent a request"
        now = boottime()
        until = now + host_backoff(self._db_access.strikes(job.host) + 1, retry_after)
        first, end = gate.strike(sent_at, until, until if retry_after is not None else now)
        stats.throttled, stats.strike = True, stats.strike or first
        stats.backoff_until = end or None


def give_back(
    job: LeasedJob, refusal: HostBackingOff, *, hops: int | None = None, target: str | None = None
) -> JobOutcome:
    """READY once more, to be leased when the backoff is over; `hops` and `target`: how far its redirects led."""
    if hops is None:
        hops, target = job.hops, job.target
    return JobOutcome(job=job, state=JobState.READY, hops=hops, target=target, backoff_until=refusal.until)
