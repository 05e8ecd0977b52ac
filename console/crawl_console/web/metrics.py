"""`/metrics`: what was read of the crawls, in the format of Prometheus."""

from collections.abc import Iterator, Sequence
from heapq import nlargest

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from crawl_console.client import list_alarms
from crawl_console.web.api import crawls_of
from crawl_console.web.watch import CrawlView
from crawl_engine.store.read.host_rows import HostRow

MAX_HOSTS = 100
"""The busiest ones have metrics: each label value is a series that Prometheus keeps."""

MAX_REJECTED = 1_000
"""Fields and reasons with metrics, as many."""


async def metrics(request: Request) -> Response:
    """All data dirs; one that cannot be read has `crawl_up` 0 and nothing else."""
    encoder, content_type = choose_encoder(request.headers.get("accept", ""))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Views(await crawls_of(request).views()))
    return Response(encoder(registry), media_type=content_type)


class _Views(Collector):
    def __init__(self, views: Sequence[CrawlView]) -> None:
        self._views = views

    def collect(self) -> Iterator[Metric]:
        """The metrics of these views."""
        families = Families()
        for view in self._views:
            families.add(view)
        yield from families.all()


class Families:
    """One metric of each name, with the samples of all data dirs, which the label `crawl` tells apart."""

    def __init__(self) -> None:
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        self.up = gauge("crawl_up", "Whether the data directory can be read.", labels=("crawl",))
        self.running = gauge("crawl_running", "Whether a supervisor is alive.", labels=("crawl",))
        self.run_info = gauge(
            "crawl_run_info", "The latest run.", labels=("crawl", "run", "state", "stage", "defs_version")
        )
        self.exit_code = gauge("crawl_last_exit_code", "Of the run that ended last.", labels=("crawl",))
        self.end = gauge("crawl_last_end_timestamp_seconds", "When a run last ended; 0: none has.", labels=("crawl",))
        self.success = gauge(
            "crawl_last_success_timestamp_seconds", "When a run last ended with exit code 0; 0: none has.",
            labels=("crawl",),
        )  # fmt: skip
        self.jobs = gauge("crawl_jobs", "Pages of the latest run, by state.", labels=("crawl", "state"))
        self.pages = counter("crawl_pages", "Pages that nodes have done, repeated ones too.", labels=("crawl",))
        self.rows = counter("crawl_rows", "Rows that an output got, repeated ones too.", labels=("crawl", "output"))
        self.output_rows = gauge("crawl_output_rows", "Rows in an output now.", labels=("crawl", "output"))
        self.rejected = counter(
            "crawl_rejected_records", "Records that were rejected, repeated ones too.",
            labels=("crawl", "data_def", "field", "reason"),
        )  # fmt: skip
        self.backlog = gauge("crawl_backlog_rows", "Committed rows that an output lacks.", labels=("crawl", "output"))
        self.eta = gauge("crawl_eta_seconds", "Estimated time until the run ends.", labels=("crawl",))
        self.alarms = gauge("crawl_alarms", "Alarms that last, by code.", labels=("crawl", "code"))
        self.beat_age = gauge(
            "crawl_node_beat_age_seconds", "Age of the heartbeat of a living node.", labels=("crawl", "node")
        )
        self.requests = counter(
            "crawl_host_requests",
            "Answers of a host, by the class of their status.",
            labels=("crawl", "host", "result"),
        )
        self.seconds = gauge(
            "crawl_host_seconds", "Time that a host takes to answer, in the last minute with answers.",
            labels=("crawl", "host", "share"),
        )  # fmt: skip

    def all(self) -> list[Metric]:
        return [metric for metric in vars(self).values() if metric.samples]

    def add(self, view: CrawlView) -> None:
        crawl, snapshot, run = view.label, view.poll.snapshot, view.poll.snapshot.run
        self.up.add_metric([crawl], view.error is None)
        if view.error is not None:
            return
        self.running.add_metric([crawl], view.poll.is_live)
        last = view.last_end
        self.success.add_metric([crawl], view.last_success or 0)
        self.end.add_metric([crawl], last.at if last is not None else 0)
        if last is not None:
            self.exit_code.add_metric([crawl], last.exit_code)
        if run is None:
            return
        self.run_info.add_metric([crawl, run.id, run.state, run.stage, str(run.defs_version or "")], 1)
        for state, count in snapshot.jobs.items():
            self.jobs.add_metric([crawl, state], count)
        self.pages.add_metric([crawl], sum(node.done for node in snapshot.nodes))
        for output in snapshot.appenders:
            self.rows.add_metric([crawl, output.name], output.added)
            self.output_rows.add_metric([crawl, output.name], output.rows)
            self.backlog.add_metric([crawl, output.name], output.backlog)
        for one in snapshot.rejected_by[:MAX_REJECTED]:
            self.rejected.add_metric([crawl, one.data_def, one.field, one.code], one.records)
        if view.poll.is_live and run.eta.seconds is not None:
            self.eta.add_metric([crawl], run.eta.seconds)
        self._add_alarms(view)
        for node in snapshot.nodes:
            if node.pid is not None and node.beat_age is not None:
                self.beat_age.add_metric([crawl, node.id], node.beat_age)
        for host in nlargest(MAX_HOSTS, snapshot.hosts, key=_count_answers):
            for result, count in host.answers.items():
                self.requests.add_metric([crawl, host.host, result], count)
            for share, seconds in (("0.5", host.p50), ("0.95", host.p95)):
                if seconds is not None:
                    self.seconds.add_metric([crawl, host.host, share], seconds)

    def _add_alarms(self, view: CrawlView) -> None:
        counts: dict[str, int] = {}
        for alarm in list_alarms(view.poll.snapshot, view.status["alarm"]):
            counts[alarm.code] = counts.get(alarm.code, 0) + 1
        for code, count in counts.items():
            self.alarms.add_metric([view.label, code], count)


def _count_answers(host: HostRow) -> int:
    return sum(host.answers.values())
