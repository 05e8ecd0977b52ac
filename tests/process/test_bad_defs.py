"""Defs with mistakes: exit 2, every mistake at file:line:col, nothing started, never a traceback."""

import json
import re
from pathlib import Path

import pytest

from .house import House
from .library import Library
from .site import Site

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


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_told_by_place(house: House, name: str) -> None:
    text, line = MISTAKES[name]
    house.write(text)
    done = house.run("check", str(house.defs))
    assert done.code == 2, done.out
    assert "Traceback" not in done.err
    assert "fault of the program" not in done.err
    places = re.findall(r"^defs(?:/crawl\.yml)?:(\d+):(\d+): ([a-z0-9-]+) \S", done.err, re.MULTILINE)
    assert places, done.err
    assert not line or line in {int(place[0]) for place in places}, done.err


def test_mistakes_as_json(house: House) -> None:
    house.write(MISTAKES["unknown field key"][0])
    done = house.run("check", str(house.defs), "--json")
    assert done.code == 2
    assert done.summary["ok"] is False
    [problem] = done.summary["problems"]
    assert set(problem) >= {"file", "line", "col", "code", "message"}
    assert (problem["file"], problem["line"], problem["code"]) == ("defs/crawl.yml", 3, "unknown-key")


def test_all_mistakes_are_told_at_once_and_nothing_is_started(house: House, site: Site) -> None:
    text = GOOD.replace("dataDef: d", "dataDef: e").replace("selector: b", "selctor: b") + "hosts: {h: {delay: x}}\n"
    house.write(text.replace("http://127.0.0.1:1/", site.url("/")))
    done = house.start().wait()
    assert done.code == 2
    assert {int(line) for line in re.findall(r"^defs/crawl\.yml:(\d+):\d+: ", done.err, re.MULTILINE)} >= {2, 3, 4}
    assert "3 problems" in done.err
    assert done.out == ""
    assert not (house.data / "crawl.db").exists()
    assert site.visits == []
    house.assert_nobody_left(1)


def test_bad_defs_leave_an_unfinished_run_as_it_is(house: House, site: Site) -> None:
    library = Library(site, shelves=2)
    house.write(library.defs())
    house.crawl("--max-pages", "3")
    before = house.status()
    house.write(library.defs().replace("selector:", "selctor:"))
    assert house.start().wait().code == 2
    assert house.status() == before
    house.write(library.defs())
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


@pytest.mark.parametrize("command", ["check", "run"])
def test_missing_defs_directory(house: House, command: str) -> None:
    where = str(house.folder / "nowhere")
    arguments = ["check", where] if command == "check" else ["run", "--no-ui", "--defs", where, "--data", "data"]
    done = house.run(*arguments)
    assert done.code == 2
    assert "nowhere" in done.err
    assert "Traceback" not in done.err


def test_defs_without_a_file_and_binary_defs(house: House) -> None:
    assert "no-defs" in house.run("check", str(house.defs)).err
    Path(house.defs, "x.yml").write_bytes(b"\xff\xfe\x00\x01" * 20)
    done = house.run("check", str(house.defs))
    assert done.code == 2
    assert re.match(r"defs/x\.yml:1:1: not-utf8 ", done.err), done.err


def test_good_defs_pass_the_check(house: House, site: Site) -> None:
    house.write(Library(site).defs())
    done = house.run("check", str(house.defs))
    assert (done.code, done.err) == (0, "")
    told = json.loads(house.run("check", str(house.defs), "--json").out)
    assert told == {"ok": True, "problems": []}


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
        ["export", "--format", "csv"],
        ["export", "nothing"],
    ],
    ids=" ".join,
)
def test_usage_errors_exit_2(house: House, arguments: list[str]) -> None:
    house.write(GOOD)
    done = house.run(*arguments)
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert done.err.strip()
    assert done.out == ""
    assert house.status()["run"] is None, "nothing was started"


def test_a_bad_crawl_toml_or_environment_is_told(house: House) -> None:
    house.write(GOOD)
    for text in ("delay = 'x'\n", "delai = 1\n", "= = =\n"):
        (house.folder / "crawl.toml").write_text(text)
        done = house.run("run", "--no-ui")
        assert done.code == 2, done.err
        assert "crawl.toml" in done.err


def test_a_url_without_a_base_is_warned_of(house: House) -> None:
    house.write(GOOD.replace("http://127.0.0.1:1/", "/shelf"))
    told = house.run("check", str(house.defs))
    assert told.code == 0
    assert told.err.startswith("defs/crawl.yml:1:")
    assert "warning no-base relative URL '/shelf'" in told.err
    [problem] = house.run("check", str(house.defs), "--json").summary["problems"]
    assert (problem["code"], problem["line"], problem["warning"]) == ("no-base", 1, True)
    refused = house.start().wait()
    assert refused.code == 2
    assert "relative URL '/shelf'" in refused.err
    house.write(GOOD.replace("http://127.0.0.1:1/", "/shelf") + "baseUrl: http://127.0.0.1:1/\n")
    assert house.run("check", str(house.defs)).err == ""
