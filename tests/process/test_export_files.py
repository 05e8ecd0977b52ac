"""Files of `export -o`: a kill or a full disk leaves the old file; formulas are escaped where that is ordered."""

import contextlib
import csv
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sample import sampled

from .library import Library
from .project import Project, until
from .site import Page, Site, html
from .small_disk import small_disk

pytestmark = pytest.mark.timeout(60)

DEFS = """
locatorGroups: {{g: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{g: {{page: {{dataDef: row}}}}}}
dataDefs:
  row:
    query: {{block: li}}
    fields:
      text: {{selector: b}}
      number: {{selector: i, type: int}}
      list: {{selector: s, all: true}}
appenders: {{plain: {{type: csv}}, safe: {{type: csv, escapeFormulas: true, path: safe.csv}}}}
"""
FORMULA = '=HYPERLINK("http://x/")'


@pytest.fixture
def crawled(project: Project, site: Site) -> Library:
    library = Library(site, shelves=2)
    project.write(library.defs())
    project.crawl()
    return library


@pytest.mark.sweep
def test_formulas_are_escaped_by_an_appender_and_by_export(project: Project, site: Site) -> None:
    site["/"] = Page(f"<ul><li><b>{FORMULA}</b><i>-5</i><s>+1</s><s>2</s></li></ul>")
    project.write(DEFS.format(url=site.url("/")))
    project.crawl()
    plain, safe = [FORMULA, "-5", "+1|2"], [f"'{FORMULA}", "-5", "'+1|2"]
    assert cells(project.output("row.csv").read_text()) == [plain]
    assert cells(project.output("safe.csv").read_text()) == [safe]
    assert cells(project.run_with_data("export").out) == [plain]
    assert cells(project.run_with_data("export", "--escape-formulas").out) == [safe]
    out = project.folder / "out.csv"
    assert project.run_with_data("export", "--escape-formulas", "-o", str(out)).code == 0
    assert cells(out.read_text()) == [safe]
    refused = project.run_with_data("export", "--escape-formulas", "--format", "jsonl")
    assert refused.code == 2
    assert "--escape-formulas has no effect with jsonl" in refused.err


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines(), strict=True))[1:]


@pytest.mark.usefixtures("crawled")
@pytest.mark.parametrize("suffix", sampled(["csv", "jsonl", "db"], 0))
def test_a_full_disk_leaves_the_old_file(project: Project, tmp_path: Path, suffix: str) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        out = disk.path / f"out.{suffix}"
        export = ("export", "book", "-o", str(out))
        assert project.run_with_data(*export).code == 0
        old = out.read_bytes()
        new = disk.path / f"new.{suffix}"
        ballast = disk.fill()
        for command in (export, ("export", "book", "-o", str(new))):
            done = project.run_with_data(*command)
            assert done.code == 3, done.err
            assert "Traceback" not in done.err
            assert str(disk.path) in done.err
        assert out.read_bytes() == old
        assert sorted(path.name for path in disk.path.iterdir()) == ["ballast", out.name]
        ballast.unlink()
        assert project.run_with_data(*export).code == 0


@pytest.mark.quick
@pytest.mark.usefixtures("crawled")
@pytest.mark.parametrize("suffix", sampled(["csv", "jsonl", "db"], 2))
def test_a_kill_leaves_the_old_file_and_the_next_export_cleans_up(project: Project, suffix: str) -> None:
    out = project.folder / "exported" / f"out.{suffix}"
    out.parent.mkdir()
    export = ("export", "book", "-o", str(out), "--data", str(project.data))
    with contextlib.closing(sqlite3.connect(project.data / "crawl.db")) as db, db:
        row = db.execute("SELECT run, job, data_def FROM rows ORDER BY id DESC LIMIT 1").fetchone()
        text = '{"isbn":"' + "x" * 2_000 + '"}'
        [(many,)] = db.execute("SELECT name FROM data_defs WHERE id = ?", (row[2],)).fetchall()
        assert many == "book"
        db.executemany(
            "INSERT INTO rows (run, job, data_def, data) VALUES (?, ?, ?, ?)", [(*row, text) for _ in range(20_000)]
        )
    running = project.start_command(*export)
    began = until(lambda: any(p.stat().st_size for p in out.parent.iterdir()), 10)
    running.send(signal.SIGKILL)
    running.wait()
    assert began
    assert not out.exists()
    assert project.run_command(*export).code == 0
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    if suffix != "db":
        assert out.read_bytes().count(b"\n") > 20_000


@pytest.mark.sweep
@pytest.mark.usefixtures("crawled")
def test_links_and_permissions_are_kept(project: Project) -> None:
    real, link = project.folder / "real.csv", project.folder / "link.csv"
    real.write_text("old")
    real.chmod(0o604)
    link.symlink_to(real.name)
    assert project.run_with_data("export", "book", "-o", str(link)).code == 0
    assert link.is_symlink()
    assert real.read_text().startswith("isbn,")
    assert stat.S_IMODE(real.stat().st_mode) == 0o604
    for name in ("/dev/stdout", "/dev/null"):
        done = project.run_with_data("export", "book", "-o", name)
        assert done.code == 0, done.err
        assert done.out.startswith("isbn,") == (name == "/dev/stdout")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_run_writes_its_rows_to_stdout_while_it_crawls(project: Project, site: Site) -> None:
    """Each page but the first is held until the row before it is out."""
    out = project.folder / "rows"
    site.fallback = lambda request: Page(html(f"<h1>{request.path[1:]}</h1>"))
    defs = """
    locatorGroups: {{g: {{locators: [{{url: "{url}/{{1..20}}"}}]}}}}
    taskGroups: {{g: {{t: {{dataDef: page}}{more}}}}}
    dataDefs: {{page: {{fields: {{title: {{selector: h1}}}}}}, other: {{fields: {{x: {{selector: h1}}}}}}}}
    hosts: {{"127.0.0.1": {{robots: false, concurrency: 1}}}}
    """
    one = defs.format(url=site.url(""), more="").replace(", other: {fields: {x: {selector: h1}}}", "")
    project.write(one)
    where = ("run", "--defs", str(project.defs), "--data", str(project.data), "--nodes", "1", "-o", "-")

    def hold(request: Any) -> Page:
        number = int(request.path[1:])
        assert number == 1 or until(lambda: f'"{number - 1}"' in out.read_text(), 10)
        return Page(html(f"<h1>{number}</h1>"))

    site.fallback = hold
    command = [sys.executable, "-m", "crawl_console", *where, "--json"]
    with out.open("wb") as rows:
        done = subprocess.run(command, cwd=project.folder, stdout=rows, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in out.read_text().splitlines()] == [{"title": str(n)} for n in range(1, 21)]
    assert json.loads(done.stderr.splitlines()[-1])["rows"] == {"page": 20}
    assert not (project.folder / "-").exists()
    site.fallback = lambda request: Page(html(f"<h1>{request.path[1:]}</h1>"), delay=0.1)
    piped = subprocess.run(
        f"{sys.executable} -m crawl_console {' '.join(where)} --format csv --fresh | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", cwd=project.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert piped.stdout == "title\n"
    assert (piped.returncode, project.status()["state"]) == (0, "CANCELLED"), "as with a limit"
    assert "stdout takes no more rows" in piped.stderr
    resumed = project.run_command(*where)
    assert (resumed.code, project.status()["state"]) == (0, "DONE")
    assert sorted(int(json.loads(line)["title"]) for line in resumed.out.splitlines()) == list(range(1, 21))
    project.write(defs.format(url=site.url(""), more=", u: {dataDef: other}"))
    site.clear_log()
    refused = project.run_command(*where, "--fresh", "--format", "csv")
    assert refused.code == 2
    assert "-o - --format csv writes one dataDef, and the defs have other, page" in refused.err
    assert site.paths == []
