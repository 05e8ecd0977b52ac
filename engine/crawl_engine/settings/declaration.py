"""Declares every setting: its name, type, bounds, default and meaning."""

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawl_engine import __version__
from crawl_engine.model import bounds
from crawl_engine.model.node import NodeRange
from crawl_engine.settings.values import duration_seconds, parse_share

_STOP_RESERVE = 3.0
_ONE_NODE = NodeRange(1, 1)


def default_nodes() -> NodeRange:
    """One node, and more while jobs wait for one: up to one for each usable CPU, at least 2, at most 4."""
    return NodeRange(1, min(4, max(2, usable_cpus())))


def usable_cpus() -> int:
    """CPUs this process may use, by its affinity and by the quota of its cgroup."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            count = min(count, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return count


class Helper(Struct, frozen=True, kw_only=True):
    """A program that a crawl needs beside it: one table `[helpers.NAME]` of crawl.toml. Times are in seconds."""

    name: str
    run: tuple[str, ...]
    """The program and its arguments."""
    port: int | None = None
    """It is ready when this TCP port of 127.0.0.1 accepts a connection."""
    line: str | None = None
    """It is ready when its output contains this text. Without `port` and `line` it is ready as soon as it runs."""
    within: float = 30.0
    """The time it has to get ready."""
    stop: float = 5.0
    """The time it has to end after SIGTERM."""


class Settings(Struct, frozen=True, kw_only=True):
    """Every setting, by its stable name. Times are in seconds, sizes in bytes. docs/settings.md says more of each."""

    nodes: NodeRange = _ONE_NODE
    """Node processes, or their range, within `bounds.NODES`. Where no source gives it, `default_nodes()`."""
    node_wait: Annotated[float, bounds.WAIT] = 5.0
    """With a range: how long jobs wait for a node before another one starts."""
    node_idle: Annotated[float, bounds.PERIOD] = 60.0
    """With a range: how long a node has no job before it is retired."""
    backups: Annotated[int, bounds.BACKUPS] = 0
    """Warm standby nodes."""
    quorum: Annotated[int, bounds.NODES] = 1
    """With PostgreSQL: how many machines must have joined before a run starts."""
    concurrency: Annotated[int, bounds.CONCURRENCY] = 32
    """Concurrent requests of one node."""
    batch: Annotated[int, bounds.BATCH] = 32
    """The most jobs that a node leases at once."""
    grace: Annotated[float, bounds.GRACE] = 25.0
    """The time that running jobs have after a cancel."""
    stop_within: Annotated[float, bounds.STOP] | None = None
    """The time in which a stop ends; None: 28, or what `grace` needs."""
    node_drain: Annotated[float, bounds.DRAIN] = 1800.0
    """The time after the last page until nodes are killed."""
    file_drain: Annotated[float, bounds.DRAIN] = 300.0
    """The time after the nodes' end until the appender is killed."""
    send_drain: Annotated[float, bounds.SEND_DRAIN] = 15.0
    """The time after the nodes' end in which a sender tries again."""
    output_every: Annotated[float, bounds.PERIOD] = 600.0
    """The time between two times that an output without appending, such as parquet, is written while rows wait."""
    heart_timeout: Annotated[float, bounds.HEART] = 1.0
    """The time without a beat after which a process counts as irregular."""
    start_timeout: Annotated[float, bounds.START] = 20.0
    """The time that a process has for its first beat."""
    deadline: Annotated[float, bounds.REQUEST] = 30.0
    """The time of one request."""
    max_attempts: Annotated[int, bounds.ATTEMPTS] = 4
    """Requests for one page that fails."""
    max_body: Annotated[int, bounds.BODY_BYTES] = 10_000_000
    """Of a decompressed page."""
    max_file: Annotated[int, bounds.FILE_BYTES] = 1_000_000_000
    """Of a downloaded file, as sent and decoded."""
    max_redirects: Annotated[int, bounds.REPEATS] = 10
    """Of one page."""
    seed_retries: Annotated[int, bounds.REPEATS] = 3
    """How often a list of URLs that cannot be read is read again."""
    max_failed: Annotated[int, bounds.COUNT] = 0
    """Failed jobs above which the exit code is 1."""
    min_rows: Annotated[int, bounds.COUNT] | None = None
    """Rows of a complete run below which the exit code is 1."""
    max_rejected: str | None = None
    """The share of rejected records, as `5%`, above which the exit code is 1."""
    robots: bool = True
    """Whether to obey robots.txt."""
    user_agent: str = f"crawl-console/{__version__}"
    """How the crawler identifies itself."""
    contact: str | None = None
    """A URL or mail address for site owners, added to `user_agent` as ` (+CONTACT)`."""
    meta_nofollow: bool = True
    """Whether to obey `nofollow` of a page."""
    meta_noindex: bool = False
    """Whether a page that says `noindex` gives no rows."""
    meta_refresh: bool = True
    """Whether a page that leads to another one within 5 seconds is a redirect."""
    throttle: Literal["off", "auto"] = "off"
    """`auto`: the delay of a host follows its latency."""
    host_clock: bool = True
    """Whether the crawls of this machine share each host's clock."""
    delay: Annotated[float, bounds.DELAY] = 0.0
    """The time between two requests to a host."""
    host_concurrency: Annotated[int, bounds.CONCURRENCY] = 8
    """Concurrent requests to one host, over all nodes."""
    live: str = "PT0S"
    """The age, as an ISO 8601 duration, up to which a stored document replaces a fetch."""
    documents: bool = True
    """Whether groups that do not say keep the bodies of their pages beyond the end of the run."""
    on_reload: Literal["reextract", "new_only"] = "reextract"
    """Whether changed defs apply to pages already done."""
    on_save: Literal["publish", "ask"] = "publish"
    """`ask`: saved defs wait until an operator publishes them."""
    refresh: Annotated[float, bounds.HERTZ] = 2.0
    """Updates of the console in a second."""
    parse_limit: Annotated[float, bounds.REQUEST] = 5.0
    """CPU seconds for parsing and extracting one page."""
    parse_memory: Annotated[int, bounds.PARSE_BYTES] = 400_000_000
    """Memory of an extraction process."""
    browser: str | None = None
    """The program of `loader: browser`; None: Chromium or Chrome on PATH."""
    browsers: Annotated[int, bounds.BROWSERS] = 1
    """Browsers of a node."""
    browser_pages: Annotated[int, bounds.BROWSERS] = 4
    """Pages of a browser at once."""
    browser_memory: Annotated[int, bounds.PARSE_BYTES] = 2_000_000_000
    """Bytes of a browser above which it is replaced after its pages."""
    browser_sandbox: bool = True
    """Whether browsers isolate their pages by the sandbox of the system."""
    max_links: Annotated[int, bounds.LINKS] = 50_000
    """Links followed from one page."""
    max_repeats: Annotated[int, bounds.POSITIVE_COUNT] | None = None
    """Pages in a row that give the same, after which the next ones are skipped."""
    cpu_affinity: Literal["auto", "off"] = "auto"
    """`auto`: keep a node's threads on one CPU while it is not contended."""
    max_pages: Annotated[int, bounds.POSITIVE_COUNT] | None = None
    """Requests for pages after which the run stops."""
    max_time: Annotated[float, bounds.PERIOD] | None = None
    """The time after which the run stops."""
    min_free: Annotated[int, bounds.FREE_BYTES] = 64_000_000
    """Free disk space below which no jobs start."""
    keep_runs: Annotated[int, bounds.POSITIVE_COUNT] | None = None
    """Newest runs that are kept."""
    keep_pages: Annotated[float, bounds.KEEP] | None = None
    """The age up to which stored documents are kept that are not the newest of their URL."""
    keep_events: Annotated[float, bounds.KEEP] | None = None
    """The age up to which events of ended runs are kept."""
    max_data: Annotated[int, bounds.DATA_BYTES] | None = None
    """Of the data directory, above which old runs are deleted, and no jobs start."""
    store: str | None = None
    """The URL of the PostgreSQL database that has the crawl; None: files of the data directory, with SQLite."""
    project: str | None = None
    """The schema of the crawl in `store`; None: the first `run` of a data directory names one."""
    page_store: str | None = None
    """With PostgreSQL: the URL of the bucket or folder that has the larger bodies; None: all are in the database."""
    helpers: tuple[Helper, ...] | None = None
    """Programs that run beside the crawl, in the order in which they start."""
    on_start: tuple[str, ...] | None = None
    """A command and its arguments, run before a run starts."""
    on_end: tuple[str, ...] | None = None
    """As `on_start`, after a run has ended."""
    on_alarm: tuple[str, ...] | None = None
    """As `on_start`, for each new alarm."""
    notify: tuple[str, ...] | None = None
    """URLs of receivers that are told of ended runs and of alarms; may hold `%{env.NAME}`."""
    base_url: str | None = None
    """The base URL of relative locators."""
    allow_file: bool = False
    """Whether locators may be files."""
    default_steps: str = "jsoupDefault"
    """The set of steps of tables whose tasks have none."""
    fact_blank: str = "-"
    """The text of a blank fact of a table."""
    fact_not_found: str = "not found"
    """The text of a fact that a table lacks."""
    date_time_pattern: str | None = None
    """The Java pattern of dates of tables; None: ISO 8601."""
    run_time: str | None = None
    """The time of the run, in `date_time_pattern` or ISO 8601; None: when it was started."""

    @property
    def full_user_agent(self) -> str:
        """The User-Agent header: `user_agent`, and `contact` if given."""
        return f"{self.user_agent} (+{self.contact})" if self.contact else self.user_agent

    @property
    def live_seconds(self) -> float:
        """`live` in seconds. Raises UsageError if it is not an ISO 8601 duration of fixed length."""
        return duration_seconds(self.live)

    @property
    def max_rejected_share(self) -> float | None:
        """`max_rejected` as a share of 1."""
        return None if self.max_rejected is None else parse_share(self.max_rejected)

    @property
    def stop_seconds(self) -> float:
        """Seconds within which a requested stop ends."""
        return max(28.0, self.grace + _STOP_RESERVE) if self.stop_within is None else self.stop_within

    @property
    def stop_reserve(self) -> float:
        """Seconds at the end of a stop in which no job runs any more: for commits, files and the end of processes."""
        return min(_STOP_RESERVE, self.stop_seconds / 2)

    @property
    def job_grace(self) -> float:
        """`grace`, as far as the whole stop allows it."""
        return min(self.grace, self.stop_seconds - self.stop_reserve)

    def to_json(self) -> str:
        """The form in which child processes receive the settings, without those that they do not need."""
        return msgspec.json.encode(replace(self, helpers=None, notify=None, store=None, project=None)).decode()

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """The settings of a text from `to_json`."""
        return msgspec.json.decode(text, type=cls)
