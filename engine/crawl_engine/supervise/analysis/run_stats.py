"""Records the duration and rates of a run, and checks its limits."""

import time
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.judge.rates import RateMeter
from crawl_engine.judge.trouble import RunJudge
from crawl_engine.model.host import count_by_class
from crawl_engine.model.job import JobKind
from crawl_engine.model.run import NO_ETA, Alarm, Judgement, OutputRate, Stage
from crawl_engine.store.read import situation
from crawl_engine.store.read.data_warnings import HOST_WARNINGS, DataWarning, find_warnings
from crawl_engine.store.tables.host import host_speeds
from crawl_engine.store.tables.host.host_speeds import HostNow
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row import health, rows
from crawl_engine.store.tables.run import metrics, nodes, page_limits, runs, samples, supervisors
from crawl_engine.store.tables.run.events import Level
from crawl_engine.store.tables.run.samples import Sample
from crawl_engine.supervise.analysis.alarm_keeper import AlarmKeeper
from crawl_engine.supervise.analysis.expectations import gave_nothing
from crawl_engine.supervise.analysis.health_watch import HealthWatch
from crawl_engine.supervise.analysis.host_watch import HostWatch
from crawl_engine.supervise.disk_guard import DiskGuard
from crawl_engine.supervise.run_context import RunContext

_Identity = tuple[str | None, ...]


_SAMPLE_SECONDS = 5.0
_MAX_ETAS = 1_000
"""Hosts whose estimates are recorded."""
_COST_SHARE = 0.02
"""The share of its time that the supervisor spends on alarms and estimates: with very many hosts they are rarer."""


class WarningLog(Struct):
    """The warnings of one run. A start that resumes the run repeats warnings that still hold."""

    run: RunContext
    _logged: dict[_Identity, bool] = {}
    """By subject of the warning: whether its end is logged, too."""
    _written: dict[_Identity, bool] = {}

    def update(self, warnings: Iterable[DataWarning]) -> None:
        """Add an event for each warning that is new or has ended, in the open transaction; then call `confirm`."""
        self._written = {}
        for warning in warnings:
            if warning.code == "expectation":
                continue  # the end of the run logs it as an error
            if self._logged.get(_identity(warning)) is not warning.ended:
                self._written[_identity(warning)] = warning.ended
                level: Level = "INFO" if warning.ended else "WARNING"
                self.run.log(level, "data", warning.text)

    def confirm(self) -> None:
        """The transaction of the last update is committed: its warnings are not logged again."""
        self._logged |= self._written
        self._written = {}


def _identity(warning: DataWarning) -> _Identity:
    return warning.code, warning.data_def, warning.host, warning.subject


_FIRST_SAMPLE_SECONDS, _SAMPLES_AT_FIRST = 0.9, 12
"""A run that has just begun is sampled at each second."""


class RunStats:
    """Statistics of one run under one supervisor."""

    def __init__(self, run: RunContext, disk: DiskGuard) -> None:
        self._run = run
        self._disk = disk
        self._started_at = self._recorded_at = time.monotonic()
        self._meter = RateMeter()
        pages, row_count, _ = self._measure(self._started_at)
        self._last_sample = (self._started_at, pages, row_count)
        self._health_watch = HealthWatch(run)
        self._warning_log = WarningLog(run)
        self._judge = RunJudge(runs.list_alarms(run.db, run.seq))
        self._keeper = AlarmKeeper(run)
        self._warnings: Sequence[DataWarning] = ()
        """Of the last judgement."""
        self._eta = NO_ETA
        self._next_judgement = 0.0
        self._host_watch = HostWatch(run)
        self._recorded_etas: dict[int, float] = {}
        self._recorded_states: dict[int, HostNow] = {}
        self._last_answers = self._read_answers()

    def record(self, waiting_hosts: Mapping[int, float], *, last: bool = False) -> None:
        """Record the time and the rates since the last call. Raises DatabaseBusy; the next call covers it.

        `waiting_hosts`: by id, when the oldest request in flight was sent. `last`: no other call follows, so the plots
        get their last sample.
        """
        now, run = time.monotonic(), self._run.seq
        pages, row_count, judgement = self._measure(now)
        elapsed = max(1e-3, now - self._recorded_at)
        speeds = self._host_watch.measure(waiting_hosts)
        sample, answers = None, self._last_answers
        if last or not self._sampled_recently(now):
            answers = self._read_answers()
            sample = self._next_sample(now, pages, row_count, answers)
        self._health_watch.update([speed.host for speed in speeds], last=last)  # its drops are among the alarms
        stage = self.judge()
        forecast = self._judge.forecast
        judgement = replace(
            judgement, queue_per_s=round(forecast.queue_per_s, 2), hosts=self._judge.groups,
            share=forecast.share, growing=forecast.growing,
        )  # fmt: skip
        states = dict(self._judge.states.items() - self._recorded_states.items())
        etas = self._longest_etas() if stage is Stage.RUNNING else {}
        with self._run.db.transaction():
            runs.add_time(self._run.db, run, elapsed, judgement, self._eta)
            supervisors.record_clock(self._run.db)
            self._host_watch.record(speeds)
            host_speeds.set_states(self._run.db, run, states)
            if etas != self._recorded_etas:
                host_speeds.set_etas(self._run.db, run, etas)
            if sample is not None:
                samples.add(self._run.db, run, sample)
                # of hosts, alarms tell it at once; the end of the run tells of the whole run
                self._warning_log.update(one for one in self._warnings if one.code not in HOST_WARNINGS)
            self._keeper.record()
        self._keeper.confirm()
        self._host_watch.confirm(sampled=sample is not None)
        self._recorded_etas = etas
        self._recorded_states |= states
        if sample is not None:
            self._warning_log.confirm()
            self._last_sample = (now, pages, row_count)
            self._last_answers = answers
        self._recorded_at = now

    @property
    def alarms(self) -> Sequence[Alarm]:
        """The alarms of now, also while no table can be written."""
        return self._keeper.alarms

    def judge(self) -> Stage:
        """Find the alarms, and estimate the end; returns the stage. It writes nothing."""
        now, run = time.monotonic(), runs.get(self._run.db, self._run.seq)
        if now >= self._next_judgement or run.stage is not Stage.RUNNING:
            current = situation.read(self._run.db, run, self._judge.hosts.settled)
            limit = self._run.settings.max_time
            current.max_time_left = None if limit is None else max(0.0, limit - (now - self._started_at))
            current.disk, current.deadline = self._disk.alarm, self._run.settings.deadline
            for id_, host in current.hosts.items():
                host.silent = round(self._host_watch.silences.seconds(id_, current.at), 1) if host.left else 0.0
            self._eta, alarms = self._judge.update(current)
            self._warnings = current.warnings
            self._keeper.update(alarms)
            self._next_judgement = now + (time.monotonic() - now) / _COST_SHARE
        return run.stage

    def _measure(self, now: float) -> tuple[int, int, Judgement]:
        """Pages done and rows extracted in the run, over all its starts, and the rates of the last seconds."""
        db, run, meter = self._run.db, self._run.seq, self._meter
        pages = sequences.count(db, run, "done")
        row_count = sum(of.rows for of in rows.counts(db, run).values())
        done, sizes = nodes.count_done(db, run), outputs.list_sizes(db, run)
        counts: dict[str, float] = {"pages": pages, "rows": row_count}
        counts |= {f"node {node}": count for node, count in done.items()}
        for name, (written, size) in sizes.items():
            counts |= {f"rows {name}": written, f"bytes {name}": size}
        meter.add(now, counts)
        judgement = Judgement(
            meter.rate("pages"), meter.rate("rows"), nodes={node: meter.rate(f"node {node}") for node in done},
            outputs={name: OutputRate(meter.rate(f"rows {name}"), meter.rate(f"bytes {name}")) for name in sizes},
        )  # fmt: skip
        return pages, row_count, judgement

    def _sampled_recently(self, now: float) -> bool:
        begun = now - self._started_at
        return now - self._last_sample[0] < min(_SAMPLE_SECONDS, max(_FIRST_SAMPLE_SECONDS, begun / _SAMPLES_AT_FIRST))

    def _read_answers(self) -> dict[str, int]:
        return count_by_class(host_speeds.answers_by_status(self._run.db, self._run.seq))

    def _longest_etas(self) -> dict[int, float]:
        longest = nlargest(_MAX_ETAS, self._judge.forecast.host_etas.items(), key=lambda item: item[1])
        return {host: round(seconds, 1) for host, seconds in longest}

    def _next_sample(self, now: float, pages: int, row_count: int, answers: Mapping[str, int]) -> Sample:
        """A data point for the plots."""
        at, last_pages, last_rows = self._last_sample
        now = max(now, at + 1e-3)
        p50, p95 = self._host_watch.latencies()
        failed = sequences.count(self._run.db, self._run.seq, "failed")
        queue = sequences.count(self._run.db, self._run.seq, "ready", "delayed")
        return Sample(
            time.time(),
            max(0, pages - last_pages) / (now - at),
            max(0, row_count - last_rows) / (now - at),
            failed,
            queue,
            {name: (count - self._last_answers.get(name, 0)) / (now - at) for name, count in answers.items()},
            p50,
            p95,
        )

    def limit_reached(self) -> str | None:
        """The limit that ends the run now, as the user wrote it, or None."""
        if (room := page_limits.find_end(self._run.db, self._run.seq)) is not None:
            return f"{room} reached"
        seconds = self._run.settings.max_time
        if seconds is not None and time.monotonic() - self._started_at >= seconds:
            return f"--max-time {seconds:g} s reached"
        return None

    def log_warnings(self) -> bool:
        """Log the warnings about the data that are new since the last sample, in the open transaction.

        Returns whether one of them says that the run gave nothing.
        """
        db, run = self._run.db, self._run.seq
        warnings = find_warnings(db, runs.get(db, run), health.read(db, run))
        self._warning_log.update(warnings)
        return gave_nothing(db, run, self._run.settings, warnings)

    def confirm_warnings(self) -> None:
        """Call it after the commit of `log_warnings`."""
        self._warning_log.confirm()

    def log_noindex(self) -> None:
        """At the end of the run, log how many of its pages say `noindex`, if any do, in the open transaction."""
        count = metrics.count_noindex(self._run.db, self._run.seq)
        pages = "1 page says" if count == 1 else f"{count:,} pages say"
        if count and self._run.settings.meta_noindex:
            self._run.log("INFO", "host", f"{pages} noindex: no rows (meta_noindex)")
        elif count:
            kept = f"{'its' if count == 1 else 'their'} rows are kept, because meta_noindex is false"
            self._run.log("WARNING", "host", f"{pages} noindex: {kept}")

    def too_many_failed(self) -> bool:
        failed = sum(
            sequences.count(self._run.db, self._run.seq, "failed", kind=kind) for kind in (JobKind.PAGE, JobKind.FILE)
        )
        return failed > self._run.settings.max_failed
