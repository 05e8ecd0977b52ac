"""Defs with mistakes: exit 2, each mistake with file:line:col, nothing started, no traceback."""

import json
import re
from pathlib import Path

import pytest

from .library import Library
from .project import Project
from .site import Site, html

pytestmark = pytest.mark.timeout(60)

GOOD = """\
locatorGroups: {g: {locators: [{url: "http://127.0.0.1:1/"}]}}
taskGroups: {g: {t: {dataDef: d}}}
dataDefs: {d: {fields: {x: {selector: b}}}}
"""
MISTAKES = {
    "no yaml": ("dataDefs: {d: [", 0),
    "tab": ("dataDefs:\n\td: {}\n", 2),
    "not a mapping": ("- a\n- b\n", 1),
    "a word": ("hello\n", 1),
    "unknown top key": (GOOD + "datadefs: {}\n", 4),
    "duplicate key": (GOOD + "dataDefs: {}\n", 4),
    "unknown field key": (GOOD.replace("selector: b", "selctor: b"), 3),
    "bad selector": (GOOD.replace("selector: b", 'selector: "b[["'), 3),
    "bad xpath": (GOOD.replace("selector: b", 'selector: "xpath: //["'), 3),
    "bad jmespath": (GOOD.replace("selector: b", 'selector: "jmespath: a[[["'), 3),
    "bad regex": (GOOD.replace("selector: b", 'selector: b, match: "("'), 3),
    "bad type": (GOOD.replace("selector: b", "selector: b, type: number"), 3),
    "unknown dataDef": (GOOD.replace("dataDef: d", "dataDef: e"), 2),
    "unknown link group": (GOOD.replace("fields:", "links: [{selector: a, linkGroup: h}], fields:"), 3),
    "bad duration": (GOOD.replace("{t:", "{live: one day, t:"), 2),
    "bad delay": (GOOD + 'hosts: {"127.0.0.1": {delay: fast}}\n', 4),
    "negative delay": (GOOD + 'hosts: {"127.0.0.1": {delay: -1}}\n', 4),
    "zero concurrency": (GOOD + 'hosts: {"127.0.0.1": {concurrency: 0}}\n', 4),
    "bad maxPages": (GOOD.replace("{t:", "{maxPages: many, t:"), 2),
    "bad appender": (GOOD + "appenders: {a: {type: xml}}\n", 4),
    "appender outside": (GOOD + "appenders: {a: {type: csv, path: ../../x.csv}}\n", 4),
    "name outside": (GOOD.replace("dataDef: d", 'dataDef: "../d"').replace("{d:", '{"../d":'), 3),
    "bad url": (GOOD.replace("http://127.0.0.1:1/", "http://[bad"), 1),
    "wrong scheme": (GOOD.replace("http://127.0.0.1:1/", "ftp://h/"), 1),
    "no url": (GOOD.replace('url: "http://127.0.0.1:1/"', "name: x"), 1),
    "locators missing": (GOOD.replace('{locators: [{url: "http://127.0.0.1:1/"}]}', "{}"), 1),
    "filter of unknown field": (GOOD.replace("{fields:", "{filters: [{field: y, pattern: z}], fields:"), 3),
    "unknown variable": (GOOD.replace("selector: b", 'value: "%{document.colour}"'), 3),
    "unreachable group": (GOOD.replace("{g: {t: {dataDef: d}}}", "{g: {t: {dataDef: d}}, h: {t: {dataDef: d}}}"), 2),
    "alias bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n",
        0,
    ),
    "deep": ("dataDefs: " + "{a: " * 5000 + "1" + "}" * 5000 + "\n", 0),
    "empty": ("", 0),
    "only comments": ("# nothing\n", 0),
    "no task group": ('locatorGroups: {g: {locators: [{url: "http://127.0.0.1:1/"}]}}\n', 0),
    "control characters": (GOOD + "x: \x07\n", 4),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if i % 4 == 0 else pytest.mark.sweep) for i, name in enumerate(MISTAKES)]
)
def test_each_mistake_is_reported_with_its_position(project: Project, name: str) -> None:
    text, line = MISTAKES[name]
    project.write(text)
    done = project.run_command("check", str(project.defs))
    assert done.code == 2, done.out
    assert "Traceback" not in done.err
    assert "fault of the program" not in done.err
    positions = re.findall(r"^defs(?:/crawl\.yml)?:(\d+):(\d+): ([a-z0-9-]+) \S", done.err, re.MULTILINE)
    assert positions, done.err
    assert not line or line in {int(position[0]) for position in positions}, done.err


def test_mistakes_as_json(project: Project) -> None:
    project.write(MISTAKES["unknown field key"][0])
    assert project.run_command("check", "--defs", str(project.defs)).code == 2
    both = project.run_command("check", str(project.defs), "--defs", str(project.defs))
    assert both.code == 2
    assert "DEFS and --defs are the same" in both.err
    done = project.run_command("check", str(project.defs), "--json")
    assert done.code == 2
    assert done.summary["ok"] is False
    [problem] = done.summary["problems"]
    assert set(problem) >= {"file", "line", "col", "code", "message"}
    assert (problem["file"], problem["line"], problem["code"]) == ("defs/crawl.yml", 3, "unknown-key")


def test_all_mistakes_are_reported_at_once_and_nothing_is_started(project: Project, site: Site) -> None:
    text = GOOD.replace("dataDef: d", "dataDef: e").replace("selector: b", "selctor: b") + "hosts: {h: {delay: x}}\n"
    project.write(text.replace("http://127.0.0.1:1/", site.url("/")))
    done = project.start().wait()
    assert done.code == 2
    assert {int(line) for line in re.findall(r"^defs/crawl\.yml:(\d+):\d+: ", done.err, re.MULTILINE)} >= {2, 3, 4}
    assert "3 problems" in done.err
    assert done.out == ""
    assert not (project.data / "crawl.db").exists()
    assert site.exchanges == []
    project.assert_no_process_left(1)


@pytest.mark.sweep
def test_bad_defs_leave_an_unfinished_run_as_it_is(project: Project, site: Site) -> None:
    library = Library(site, shelves=2)
    project.write(library.defs())
    project.crawl("--max-pages", "3")
    before = project.status()
    project.write(library.defs().replace("selector:", "selctor:"))
    assert project.start().wait().code == 2
    assert project.status() == before
    project.write(library.defs())
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.parametrize("command", ["check", "run"])
def test_missing_defs_directory(project: Project, command: str) -> None:
    missing = str(project.folder / "nowhere")
    arguments = ["check", missing] if command == "check" else ["run", "--no-ui", "--defs", missing, "--data", "data"]
    done = project.run_command(*arguments)
    assert done.code == 2
    assert "nowhere" in done.err
    assert "Traceback" not in done.err


def test_defs_without_a_file_and_binary_defs(project: Project) -> None:
    assert "no-defs" in project.run_command("check", str(project.defs)).err
    Path(project.defs, "x.yml").write_bytes(b"\xff\xfe\x00\x01" * 20)
    done = project.run_command("check", str(project.defs))
    assert done.code == 2
    assert re.match(r"defs/x\.yml:1:1: not-utf8 ", done.err), done.err


def test_good_defs_pass_the_check(project: Project, site: Site) -> None:
    project.write(Library(site).defs())
    done = project.run_command("check", str(project.defs))
    assert (done.code, done.err) == (0, "")
    result = json.loads(project.run_command("check", str(project.defs), "--json").out)
    assert result == {"ok": True, "problems": []}


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--no-ui", "--nodes", "0"],
        ["run", "--no-ui", "--nodes", "many"],
        ["run", "--no-ui", "--colour"],
        ["run", "--no-ui", "--set", "delai=1"],
        ["run", "--no-ui", "--set", "delay"],
        ["run", "--no-ui", "--set", "delay=-1"],
        ["run", "--no-ui", "--set", "delay=nan"],
        ["run", "--no-ui", "--set", "concurrency=0"],
        ["run", "--no-ui", "--set", "live=tomorrow"],
        ["run", "--no-ui", "--max-pages", "0"],
        ["run", "--no-ui", "--grace", "-1"],
        ["run", "--no-ui", "--progress", "loud"],
        ["run", "--no-ui", "-o", "rows.xml"],
        ["run", "--no-ui", "extra"],
        ["frobnicate"],
        ["status", "--frob"],
        ["export", "--format", "xml"],
        ["export", "-o", ""],
        ["try", "http://127.0.0.1/"],
        ["try", "d"],
    ],
    ids=" ".join,
)
def test_usage_errors_exit_2(project: Project, arguments: list[str]) -> None:
    project.write(GOOD)
    done = project.run_command(*arguments)
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert done.err.strip()
    assert done.out == ""
    assert project.status()["run"] is None, "nothing was started"


def test_a_page_to_try_without_its_data_def_is_told_the_order(project: Project) -> None:
    project.write(GOOD)
    done = project.run_command("try", "http://127.0.0.1/x")
    assert done.code == 2
    assert "which dataDef?" in done.err
    assert "`crawl-console try DATADEF http://127.0.0.1/x`" in done.err


def test_a_bad_crawl_toml_is_reported(project: Project) -> None:
    project.write(GOOD)
    for text in ("delay = 'x'\n", "delai = 1\n", "= = =\n"):
        (project.folder / "crawl.toml").write_text(text)
        done = project.run_command("run", "--no-ui")
        assert done.code == 2, done.err
        assert "crawl.toml" in done.err
        checked = project.run_command("check", str(project.defs))
        assert checked.code == 2
        assert "crawl.toml" in checked.err


def test_a_relative_url_without_a_base_is_a_warning(project: Project) -> None:
    project.write(GOOD.replace("http://127.0.0.1:1/", "/shelf"))
    result = project.run_command("check", str(project.defs))
    assert result.code == 0
    assert result.err.startswith("defs/crawl.yml:1:")
    assert "warning no-base relative URL '/shelf'" in result.err
    [problem] = project.run_command("check", str(project.defs), "--json").summary["problems"]
    assert (problem["code"], problem["line"], problem["warning"]) == ("no-base", 1, True)
    refused = project.start().wait()
    assert refused.code == 2
    assert "relative URL '/shelf'" in refused.err
    project.write(GOOD.replace("http://127.0.0.1:1/", "/shelf") + "baseUrl: http://127.0.0.1:1/\n")
    assert project.run_command("check", str(project.defs)).err == ""


def test_bad_lines_of_a_seed_file_are_named(project: Project, site: Site) -> None:
    lines = ["# books", site.url("/book/1"), "", "htp//typo", *["mailto:a@b"] * 6, "http://me:secret@[/"]
    (project.defs / "seeds.txt").write_text("\n".join(lines))
    site["/book/1"] = html("<h1>x</h1>")
    defs = """
    locatorGroups: {g: {locators: [{name: l, from: seeds.txt}]}}
    taskGroups: {g: {t: {dataDef: d}}}
    dataDefs: {d: {fields: {x: {selector: h1}}}}
    hosts: {"127.0.0.1": {robots: false}}
    """
    project.write(defs)
    done = project.run_command("check", str(project.defs))
    assert done.code == 0
    assert (
        "defs/seeds.txt:4:1: warning bad-seed no usable URL: htp//typo (a relative URL, and no base is set)" in done.err
    )
    assert len([line for line in done.err.splitlines() if "bad-seed" in line]) == 5
    running = project.start().wait()
    assert "defs/seeds.txt:4: no usable URL: htp//typo" in running.err
    assert "secret" not in running.err
