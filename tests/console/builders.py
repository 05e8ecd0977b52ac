"""Builds rows of a snapshot and of lists, with defaults that a test changes."""

from msgspec.structs import replace

from crawl_engine.model.host import HostState
from crawl_engine.model.run import Alarm, Eta, HostGroup, Judgement, RunState, Stage
from crawl_engine.runtime.beat_file import BrowserState, NodeBrowsers
from crawl_engine.store.read.browse import JobLine
from crawl_engine.store.read.data_warnings import DataWarning
from crawl_engine.store.read.history import PastRun, RunReport
from crawl_engine.store.read.host_rows import HostRow
from crawl_engine.store.read.snapshot import EMPTY_SNAPSHOT, NodeRow, OutputRow, SequenceRow
from crawl_engine.store.tables.row.health import DataDefHealth
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.tables.run.samples import Sample
from crawl_engine.store.tables.run.supervisors import Epoch

AT = 1_700_000_000.0
"""A moment: 22:13:20 UTC."""


def group(state, count, *names):
    return HostGroup(HostState(state), count, names)


def run(**changes):
    defaults = {
        "seq": 1, "id": "3f2a", "state": RunState.READY, "stage": Stage.RUNNING, "defs_version": 3, "seeded_version": 3,
        "base_url": None, "paused": None, "seconds": 754.0, "reason": None, "created_at": AT,
        "judgement": Judgement(
            42.1, 118.0, share=0.66,
            hosts=(
                group("ok", 1, "shop.example:443"), group("resting", 1, "img.example:443"),
                group("unasked", 1, "slow.example:80"),
            ),
        ),
        "eta": Eta(296.0, "img.example:443", exact=False, reason="delay 0.5 s"), "recorded_at": 0.0,
    }  # fmt: skip
    values = {**dict.fromkeys(Run.__struct_fields__), **defaults, **changes}
    return Run(**{**values, "state": RunState(values["state"])})


def node(number, state="READY", role="RUNNER", **changes):
    defaults = {
        "id": f"n{number}", "role": role, "state": state, "heart": "HEALTHY", "done": 11_204, "failed": 2,
        "pid": 4000 + number, "beat_age": 0.3, "in_flight": 8, "rss": 87_031_808, "lag": 0.0,
        "jobs_per_s": 6.1,
        "now": f"https://shop.example/item/8812{number}", "replaces": None, "reason": None, "past": False,
    }  # fmt: skip
    return NodeRow(**{**defaults, **changes})


def browsing():
    """Two nodes with browsers, one of which crashed; a third node has started none."""
    urls = tuple(f"https://shop.example/catalogue/shoes/{number}" for number in range(3))
    starting = BrowserState(pid=5003, pages=0, loading=0, rss=0, age=0.4, urls=())
    idle = BrowserState(pid=5002, pages=2, loading=0, rss=312 << 20, age=2.0, urls=())
    busy = BrowserState(pid=5001, pages=120, loading=3, rss=812 << 20, age=95.0, urls=urls)
    fault = NodeBrowsers(replaced=2, reason="its process ended (signal 9)", is_fault=True, processes=(idle, starting))
    groups = [
        {"group": "books", "browser": "987 of 1,000 pages needed no browser"},
        {"group": "detail", "browser": None},
    ]
    return snapshot(
        nodes=[node(1, browsers=NodeBrowsers(processes=(busy,))), node(2, browsers=fault), node(3)],
        metrics={**EMPTY_SNAPSHOT.metrics, "groups": groups}, alarms=[],
    )  # fmt: skip


def host(name, **changes):
    defaults = {
        "host": name, "running": 2, "waiting": 40, "delay": 0.5, "concurrency": 4, "next_in": None, "backoff": None,
        "strikes": 0, "throttled": 0, "blocked": 0, "errors": 0, "robots": "known", "robots_status": 200,
        "pages": 100, "records": 100, "rejected": 0, "failed": 2, "gone": 1, "bytes": 4_200_000,
        "answers": {"2xx": 100, "4xx": 1}, "p50": 0.042, "p95": 0.18, "eta": 96.0,
        "recent_p50": (0.04, 0.05, None, 0.08, 0.042), "state": HostState.OK, "pages_per_s": 8.4,
    }  # fmt: skip
    return HostRow(**{**defaults, **changes})


def sequence(number, group, host_, **changes):
    defaults = {
        "id": number, "group": group, "host": host_, "ready": 400, "delayed": 4, "taken": 8, "done": 600, "failed": 2,
        "skipped": 1, "incomplete": 0, "paused": False,
    }  # fmt: skip
    return SequenceRow(**{**defaults, **changes})


def output(name="rows/book", **changes):
    defaults = {
        "name": name, "type": "csv", "rows": 31_400, "bytes": 2_400_000, "path": f"/data/output/3f2a/{name}.csv",
        "backlog": 12, "rebuilding": False, "pid": 4100, "beat_age": 0.1, "flush_ms": 4.2, "rows_per_s": 118.0,
        "bytes_per_s": 9_000.0,
    }  # fmt: skip
    return OutputRow(**{**defaults, **changes})


def snapshot(**changes):
    defaults = {
        "run": run(),
        "epoch": Epoch(1, "boot:4121:1", 1),
        "jobs": {"done": 33_097, "failed": 7, "skipped": 12, "incomplete": 0, "ready": 12_521, "taken": 16},
        "delayed": 41,
        "running": 4,
        "bad_answers": 34, "gone": 3, "blocked": 31,
        "rows": {"book": 31_412},
        "rejected": {"book": 3},
        "data_defs": {
            "book": DataDefHealth(11_000, 31_415, 3, {"title": 0, "stock": 283}, frozenset()),
            "detail": DataDefHealth(900, 900, 0, {"isbn": 900}, frozenset()),
        },
        "warnings": [DataWarning("empty-field", "detail.isbn was never filled in 900 records", data_def="detail")],
        "alarms": [
            Alarm("node-lost", "n4 has sent no heartbeat for 2.8 s", subject="n4"),
            Alarm("host-resting", "img.example:443 answers 429 or 503: backing off 24 s", host="img.example:443"),
            Alarm("empty-field", "detail.isbn was never filled in 900 records", data_def="detail", field="isbn"),
        ],
        "appenders": [output()],
        "nodes": [
            node(1),
            node(2, "DRAINING", in_flight=1, done=11_020, failed=1),
            node(3, "DONE", in_flight=0, done=10_873, failed=0, now="", jobs_per_s=0.0),
            node(4, heart="ARRHYTHMIA", beat_age=2.8, done=9_870, failed=0, now="https://img.example/a.png"),
            node(
                5, "DEAD", "DEAD_RUNNER", heart="ASYSTOLE", pid=None, beat_age=None, in_flight=0, done=9_411,
                failed=19, now="", reason="SIGKILL",
            ),
            node(6, "STANDBY", "BACKUP_RUNNER", done=0, failed=0, in_flight=0, beat_age=0.1, now=""),
            node(7, "READY", done=120, failed=0, replaces="n5"),
        ],
        "sequences": [
            sequence(1, "books", "shop.example:443"),
            sequence(2, "detail", "img.example:443", paused=True, done=20),
        ],
        "sequence_count": 2,
        "paused_sequences": 1,
        "hosts": [
            host("shop.example:443", running=4, next_in=0.4),
            host(
                "img.example:443", backoff=24.0, throttled=31, blocked=31, errors=3, strikes=4, running=0,
                state=HostState.RESTING,
            ),
            host(
                "slow.example:80", delay=10.0, running=0, waiting=2, robots="wanted", robots_status=None,
                state=HostState.UNASKED, pages_per_s=0.0,
            ),
        ],
    }  # fmt: skip
    return replace(EMPTY_SNAPSHOT, **{**defaults, **changes})


def line(number, state="DONE", **changes):
    defaults = {
        "id": number, "kind": "page", "state": state, "group": "books", "host": "shop.example:443",
        "url": f"https://shop.example/item/{number}", "target": None, "attempts": 1, "crashes": 0,
        "reason": None, "priority": 0, "depth": 1,
        "node": "n1", "wait": None, "changed_at": None, "origin": "link",
    }  # fmt: skip
    return JobLine(**{**defaults, **changes})


def run_report(seq, id_, rows, *, warnings=(), emptied=(), **changes):
    defaults = {
        "seq": seq, "id": id_, "state": "DONE", "reason": None, "created_at": AT - 86_400 * (3 - seq), "ended_at": AT,
        "seconds": 754.0, "defs_version": seq, "done": 33_097, "failed": 7 * (seq - 1), "rows": sum(rows.values()),
        "stage": "SHUTDOWN_COMPLETE", "exit_code": int(seq > 1), "paused": None,
    }  # fmt: skip
    newer = seq == 2
    return RunReport(
        PastRun(**{**defaults, **changes}), rows, warnings, emptied, {"book.stock": 0.991 if newer else 0.98},
        (("HTTP 500", 7),) if newer else (), 0.18 if newer else 0.2, ("7 failed",) if newer else (),
    )  # fmt: skip


def samples():
    return [
        Sample(
            AT + i * 5, 40.0 + i % 7, 100.0 + i % 11, i // 9, 900 - i,
            {"2xx": 40.0 + i % 7, "4xx": 2.0, "429": 1.0 * (i > 30), "5xx": 3.0 * (i > 40)}, 0.04 + i % 5 / 100, 0.2,
        )
        for i in range(60)
    ]  # fmt: skip
