"""The object that `run --json` prints: a run as it stands, or how it ended."""

from typing import Any

import orjson
from msgspec.structs import asdict

from crawl_engine.judge.run_verdict import verdict_of
from crawl_engine.model.run import mean_rate
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read import snapshot
from crawl_engine.store.read.snapshot import Snapshot
from crawl_engine.store.tables.row.health import DataDefHealth

_OUTPUT_KEYS = ("name", "rows", "bytes", "path", "backlog")
_NODE_KEYS = ("id", "role", "state", "heart", "done", "failed")
"""Keys in the summary; `status --json` has all fields."""


def build_report(view: Snapshot, *, exit_code: int | None) -> dict[str, Any]:
    """The object `--no-ui --json` prints: a run as it stands, or as it ended."""
    run = view.run
    seconds = run.seconds if run else 0.0
    return {
        "run": run.id if run else None,
        "state": run.state if run else None,
        "exit_code": exit_code,
        "seconds": round(seconds, 3),
        "pages_per_s": mean_rate(view.jobs["done"], seconds),
        "jobs": view.jobs,
        "rows": view.rows,
        "appenders": [{key: getattr(output, key) for key in _OUTPUT_KEYS} for output in view.appenders],
        "nodes": [{key: getattr(node, key) for key in _NODE_KEYS} for node in view.nodes],
        "defs_version": run.defs_version if run else None,
        "rejected": view.rejected,
        "duplicates": view.duplicates,
        "warnings": [asdict(warning) for warning in view.warnings],
        "fields": {name: _report_fields(data_def) for name, data_def in view.data_defs.items()},
        "results": view.results,
        "verdict": asdict(verdict_of(view, is_live=view.is_live)),
    }


def read_summary(db: Database, run: int, *, exit_code: int | None) -> str:
    """What `build_report` gives for a run now, as JSON."""
    return orjson.dumps(build_report(snapshot.read(db, run=run), exit_code=exit_code)).decode()


def _report_fields(data_def: DataDefHealth) -> dict[str, dict[str, int]]:
    records = data_def.records
    return {name: {"filled": records - missing, "of": records} for name, missing in data_def.missing.items()}
