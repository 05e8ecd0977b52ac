"""Makes the kept data dirs of today's schema: run it once after adding a schema script, and commit what it writes.

    python -m tests.data.make_dump        (or `just keep-schema`)

Writes `schema-N/killed/` and `schema-N/cancelled/`: the databases, as SQL, of a real crawl whose processes were killed,
and of one that was cancelled; and `schema-N/scripts.json`: hashes of the schema scripts, which may not change any more.
"""

import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from engine.runtime.clock import boot_id
from engine.store.db.schema import CRAWL, MIGRATIONS
from tests.data.kept_crawl import DATABASES, DUMPS, HELD, KeptCrawl, serve_kept_crawl
from tests.data.script_hashes import hash_scripts
from tests.process.project import Project, until

_NO_BOOT = "00000000-0000-0000-0000-000000000000"
_STATES = "SELECT DISTINCT state, not_before IS NOT NULL FROM jobs WHERE run = 2"
_ENDED = frozenset({("DONE", 0), ("FAILED", 0), ("SKIPPED", 0)})
_STATES_BEFORE = _ENDED | {("READY", 1), ("TAKEN", 0)}
"""The states of jobs that the second run must have before its end, and whether they are delayed."""


def main() -> int:
    """Write the dumps of the newest schema."""
    target = DUMPS / f"schema-{len(MIGRATIONS[CRAWL])}"
    endings: Mapping[str, tuple[Callable[[Project], None], frozenset[tuple[str, int]]]] = {
        "killed": (_kill, _STATES_BEFORE),
        "cancelled": (_cancel, _ENDED | {("INCOMPLETE", 0)}),
    }
    for name, (end, expected) in endings.items():
        with tempfile.TemporaryDirectory() as folder, serve_kept_crawl() as crawl:
            project = Project(Path(folder))
            try:
                _begin(project, crawl)
                end(project)
            finally:
                project.kill_all()
            if missing := expected - _states(project):
                raise SystemExit(f"{name}: no job is {missing}; try again")
            (target / name).mkdir(parents=True, exist_ok=True)
            for database in DATABASES:
                text = _dump(project.data / database, folder)
                (target / name / database).with_suffix(".sql").write_text(text, "utf-8")
    (target / "scripts.json").write_text(json.dumps(hash_scripts(), indent=2) + "\n")
    sys.stdout.write(f"written: {target}\n")
    return 0


def _begin(project: Project, crawl: KeptCrawl) -> None:
    """One complete run, then a second that waits for pages that are held back."""
    project.write(crawl.defs())
    project.crawl(code=1)
    crawl.hold_back()
    project.start("--fresh", "--grace", "1", nodes=2)

    def is_waiting() -> bool:
        return _states(project) >= _STATES_BEFORE and all(crawl.site.count(path) > 1 for path in HELD)

    assert until(is_waiting, 30), project.describe_state()


def _states(project: Project) -> set[tuple[str, int]]:
    """The states of jobs of the second run, and whether they are delayed."""
    return {(state, delayed) for state, delayed in project.query(_STATES)}


def _kill(project: Project) -> None:
    project.kill_all()


def _cancel(project: Project) -> None:
    assert project.run_with_data("cancel").code == 0
    assert until(lambda: not project.live_processes(), 30)


def _dump(path: Path, folder: str) -> str:
    """The database as SQL, without paths and process ids of this machine."""
    with closing(sqlite3.connect(path)) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        statements = [line for line in db.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;")]
    text = "\n".join([*statements, f"PRAGMA user_version = {version};", ""])
    return text.replace(boot_id() or _NO_BOOT, _NO_BOOT).replace(str(folder), "/kept")


if __name__ == "__main__":
    raise SystemExit(main())
