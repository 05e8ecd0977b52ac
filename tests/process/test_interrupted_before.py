"""A run that the version before stopped in the middle goes on with this one: nothing that is done is done again."""

import json
import sqlite3
from contextlib import closing
from shutil import copy

import pytest

from .interrupted_shop import FOLDER, LATE, answer, environment, names_of
from .project import Project
from .site import Site

pytestmark = [pytest.mark.timeout(90), pytest.mark.sqlite, pytest.mark.extended]
FOLLOWING = {"/store/4", "/n/4", "/s/4", "/s/5"}
"""The pages that the late ones lead to, and no other."""
LAST = "/s/5"
"""Empty: it ends its series, and is asked for once more before."""
LOGIN = {"/login"}


def load(project: Project) -> None:
    project.data.mkdir(mode=0o700)
    for name in ("crawl", "pages"):
        with closing(sqlite3.connect(project.data / f"{name}.db")) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript((FOLDER / f"{name}.sql").read_text("utf-8").replace("/srv/shop", str(project.folder)))
    copy(FOLDER / "crawl.yml", project.defs)


def test_a_run_of_format_29_is_resumed_without_a_request_for_what_is_done(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(site).items():
        monkeypatch.setenv(name, value)
    site.fallback = answer
    load(project)
    with closing(sqlite3.connect(project.data / "crawl.db")) as db:
        done = dict(db.execute("SELECT id, document FROM jobs WHERE state = 'DONE'"))
        made = db.execute("SELECT id, job, data, digest FROM rows").fetchall()
    assert len(done) > 20
    project.crawl(nodes=1)
    asked = names_of(site)
    assert set(asked) - LOGIN == LATE | FOLLOWING
    assert all(count == 1 for name, count in asked.items() if name not in LOGIN | {LAST})
    assert project.query("SELECT state, defs_version, reextracted FROM runs") == [("DONE", 1, 0)]
    assert project.query("SELECT count(*) FROM jobs WHERE page IS NOT NULL") == [(0,)]
    assert dict(project.query("SELECT id, document FROM jobs WHERE state = 'DONE'")).items() >= done.items()
    assert set(made) <= set(project.query("SELECT id, job, data, digest FROM rows"))
    for data_def, rows in json.loads((FOLDER / "rows.json").read_text("utf-8")).items():
        assert sorted(list(row.values()) for row in project.rows(data_def)) == rows, data_def


def test_documents_of_format_29_serve_a_later_run(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(site).items():
        monkeypatch.setenv(name, value)
    site.fallback = answer
    load(project)
    project.crawl(nodes=1)
    site.clear_log()
    project.crawl("--set", "live=P30000D", nodes=1)
    assert set(names_of(site)) <= LOGIN | {"/map.xml"}
    for data_def, rows in json.loads((FOLDER / "rows.json").read_text("utf-8")).items():
        assert sorted(list(row.values()) for row in project.rows(data_def)) == rows, data_def
