"""Rows new across the runs of a data dir: `run --only-new` and `export --since`, also after kills."""

import csv
import os
import signal
from collections.abc import Callable

import pytest

from crawl_console.cli.main import main

from .library import Library
from .project import Completed, Project, until
from .site import Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{shelf: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{shelf: {{keyed: {{dataDef: keyed}}, whole: {{dataDef: whole}}}}}}
dataDefs:
  keyed:
    query: {{block: li}}
    key: [sku]
    fields: {{sku: {{selector: b}}, price: {{selector: i, type: decimal}}}}
  whole:
    query: {{block: li}}
    fields: {{sku: {{selector: b}}, price: {{selector: i, type: decimal}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


def shelf(**prices: str) -> str:
    return html("".join(f"<li><b>{sku}</b><i>{price}</i></li>" for sku, price in prices.items()))


def csv_rows(done: Completed) -> list[tuple[str, str]]:
    header, *rows = csv.reader(done.out.splitlines())
    assert header == ["sku", "price"]
    return [(sku, price) for sku, price in rows]


InProcess = Callable[..., Completed]


@pytest.fixture
def run_here(project: Project, capfd: pytest.CaptureFixture[str]) -> InProcess:
    """Runs a read-only command in this process."""

    def run(*arguments: str, data: str | None = None) -> Completed:
        with pytest.raises(SystemExit) as exit_info:
            main([*arguments, "--data", data or str(project.data)])
        out, err = capfd.readouterr()
        return Completed(int(str(exit_info.value.code)), out, err, 0.0)

    return run


def file_rows(project: Project, name: str) -> list[tuple[str, str]]:
    return [(row["sku"], row["price"]) for row in project.rows(name)]


@pytest.mark.sweep
def test_only_rows_new_to_all_runs_reach_the_files(project: Project, site: Site, run_here: InProcess) -> None:
    project.write(DEFS.format(url=site.url("/")))
    site["/"] = shelf(a="1.50", b="2", c="3")
    first = project.crawl("--only-new").summary["run"]
    assert file_rows(project, "keyed") == file_rows(project, "whole") == [("a", "1.50"), ("b", "2"), ("c", "3")]

    site["/"] = shelf(a="1.60", b="2", d="4")
    done = project.crawl("--only-new")
    assert file_rows(project, "keyed") == [("d", "4")], "a has another price, but its key is not new"
    assert file_rows(project, "whole") == [("a", "1.60"), ("d", "4")]
    assert done.summary["rows"] == {"keyed": 3, "whole": 3}, "the database has all of them"
    assert {a["name"]: a["rows"] for a in done.summary["appenders"]} == {"rows/keyed": 1, "rows/whole": 2}

    assert csv_rows(run_here("export", "keyed")) == [("a", "1.60"), ("b", "2"), ("d", "4")]
    assert csv_rows(run_here("export", "keyed", "--since", first)) == [("d", "4")]
    assert csv_rows(run_here("export", "whole", "--since", first)) == [("a", "1.60"), ("d", "4")]
    assert csv_rows(run_here("export", "whole", "--since", done.summary["run"])) == []
    unknown = run_here("export", "whole", "--since", "nope")
    assert unknown.code == 2
    assert first in unknown.err

    site["/"] = shelf(c="3", e="5", f="")
    project.crawl()
    assert file_rows(project, "keyed") == [("c", "3"), ("e", "5"), ("f", "")], "without the flag all rows are written"
    assert csv_rows(run_here("export", "keyed", "--since", first)) == [("e", "5"), ("f", "")]

    listed = run_here("runs", "--json").summary["runs"]
    assert [(run["state"], run["done"], run["rows"]) for run in listed] == [("DONE", 1, 6)] * 3
    assert listed[2]["run"] == first
    assert len(run_here("runs", "--limit", "2", "--json").summary["runs"]) == 2
    assert run_here("runs").out.splitlines()[3].startswith(first)
    shown = run_here("runs", "show", first, "--json").summary
    assert (shown["run"], shown["rows"]) == (first, {"keyed": 3, "whole": 3})
    assert f"run {first}  DONE" in run_here("runs", "show", first).out
    assert run_here("runs", "show", "nope").code == 2
    assert run_here("runs", "--json", data=str(project.folder / "nowhere")).summary == {"runs": []}

    (project.data / "keys.db").write_bytes(b"no database at all, " * 300)
    site["/"] = shelf(c="3.0", f="", g="7")
    project.crawl("--only-new")
    assert file_rows(project, "keyed") == [("g", "7")]
    assert file_rows(project, "whole") == [("c", "3.0"), ("g", "7")]


@pytest.mark.sweep
def test_a_changed_key_changes_what_counts_as_new(project: Project, site: Site) -> None:
    project.write(DEFS.format(url=site.url("/")))
    site["/"] = shelf(a="1", b="2")
    project.crawl("--only-new")
    site["/"] = shelf(a="1", b="9", c="1")
    project.write(DEFS.format(url=site.url("/")).replace("key: [sku]", "key: [price]"))
    project.crawl("--only-new")
    assert file_rows(project, "keyed") == [("b", "9")]


@pytest.mark.sweep
@pytest.mark.parametrize("victim", ["appender", "supervisor"])
def test_a_kill_does_not_change_which_rows_are_new(project: Project, site: Site, victim: str) -> None:
    small = Library(site, shelves=2, books=6)
    project.write(small.defs())
    project.crawl()
    site.clear_log()
    library = Library(site, shelves=8, books=6, delay=0.05)
    running = project.start("--only-new", nodes=2)
    assert until(lambda: running.exited or len(site.paths) > library.size / 2)
    if victim == "appender":
        for pid in project.children("appender"):
            os.kill(pid, signal.SIGKILL)
        assert running.wait().code == 0
    else:
        running.send(signal.SIGKILL)
        running.wait()
        project.assert_no_process_left()
        project.crawl()  # resumes with the flag of its start
    assert project.count_rows("entry", "book") == library.rows() - small.rows()
