"""The command `steps`: the chains of the tasks of defs, and the classes that defs may name; it runs no plugin code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from crawl_console.cli.main import main

DEFS = """\
steps:
  mine:
    seed: {class: LocatorSeeder, previous: start, next: load}
    load: {class: many.Many, previous: seed, next: parse, limit: 2500ms}
    parse: {class: RecordParser, previous: load, next: keep}
    keep: {class: DataFilter, previous: parse, next: score}
    score: {class: command, run: [awk, -f, "a b.awk"], previous: keep, next: write, workers: 4}
    fork: {class: many.Other, previous: keep, next: seeder, options: {factor: 2, words: [a, é]}}
    links: {class: LocatorCreator, previous: fork, next: seeder, options: {linkGroup: wares}}
    write: {class: DataAppender, previous: score, next: end}
locatorGroups:
  start: {locators: [{url: "http://shop.example/"}]}
  tables: {locators: [{url: "http://shop.example/tables"}]}
taskGroups:
  start: {first: {dataDef: book, steps: mine}}
  tables: {plain: {dataDef: book, steps: htmlUnitDefault}}
  wares: {plain: {dataDef: book}}
dataDefs: {book: {fields: {title: {selector: h1}}, links: [{selector: a, linkGroup: wares}]}}
"""
PLUGIN = '''\
raise SystemExit("plugin code was run")
from crawl_console import StepError

class Many:
    """Loads and\tconverts \x1b[31m.

    More."""
    def load(self, request, context): ...
    def convert(self, value, context): ...

class Other(StepError):
    """Inherits."""

class Helper:
    """Has no method that counts."""
'''

Output = Callable[..., tuple[int, str, str]]


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Output:
    """Run the command in a folder with these defs; returns exit code, stdout and stderr."""
    (tmp_path / "defs" / "plugins").mkdir(parents=True)
    (tmp_path / "defs" / "shop.yml").write_text(DEFS)
    (tmp_path / "defs" / "plugins" / "many.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["steps", *arguments])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_each_task_has_its_steps_in_order(steps: Output) -> None:
    code, out, err = steps()
    assert (code, err) == (0, "")
    tasks = out.splitlines()
    assert tasks[:9] == [
        "start/first (dataDef book)",
        "  seed       LocatorSeeder   built-in  built-in",
        "  load       many.Many       loader    plugins/many.py:4   limit 2.5 s",
        "  parse      RecordParser    built-in  built-in",
        "  keep       DataFilter      built-in  built-in",
        '    fork     many.Other      step      plugins/many.py:11  options {"factor":2,"words":["a","é"]}',
        '      links  LocatorCreator  built-in  built-in            options {"linkGroup":"wares"}',
        "  score      command         command   built-in            run awk -f 'a b.awk'  workers 4",
        "  write      DataAppender    built-in  built-in",
    ]
    assert [line for line in tasks if not line.startswith(" ")] == [
        "start/first (dataDef book)", "tables/plain (dataDef book)", "wares/plain (dataDef book)",
    ]  # fmt: skip
    assert "HtmlUnitParser" in out


def test_a_task_is_chosen_by_name(steps: Output) -> None:
    assert [line for line in steps("plain")[1].splitlines() if line[0] != " "] == [
        "tables/plain (dataDef book)", "wares/plain (dataDef book)",
    ]  # fmt: skip
    assert steps("wares/plain")[1].splitlines()[0] == "wares/plain (dataDef book)"
    for wrong, close in (("ware/plain", "wares/plain"), ("frist", "first")):
        code, out, err = steps(wrong)
        assert (code, out) == (2, "")
        assert f"unknown task '{wrong}' (did you mean '{close}'?)" in err


def test_json_is_one_object(steps: Output) -> None:
    (line,) = steps("first", "--json")[1].splitlines()
    (task,) = json.loads(line)["tasks"]
    assert (task["group"], task["task"], task["data_def"]) == ("start", "first", "book")
    assert {step["name"]: step["previous"] for step in task["steps"]} == {
        "seed": None, "load": None, "parse": None, "keep": None, "fork": "keep", "links": "fork", "score": None,
        "write": None,
    }  # fmt: skip
    by_name = {step["name"]: step for step in task["steps"]}
    assert by_name["fork"] == {
        "name": "fork", "class": "many.Other", "kind": "step", "origin": "plugins/many.py:11",
        "options": {"factor": 2, "words": ["a", "é"]}, "run": [], "limit": None, "workers": 1, "previous": "keep",
    }  # fmt: skip
    assert (by_name["score"]["run"], by_name["score"]["workers"]) == (["awk", "-f", "a b.awk"], 4)
    assert by_name["load"]["limit"] == 2.5


def test_invalid_defs_are_reported(steps: Output, tmp_path: Path) -> None:
    (tmp_path / "defs" / "more.yml").write_text("taskGroup: {}\n")
    code, out, err = steps()
    assert (code, out) == (2, "")
    assert err.startswith("defs/more.yml:1:1: unknown-key")


def test_every_class_that_defs_may_name_is_available(steps: Output) -> None:
    code, out, err = steps("--available")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    rows = {tuple(line.split()[:4]) for line in out.splitlines()[1:]}
    assert rows >= {
        ("PageLoader", "built-in", "built-in", "Python"),
        ("command", "built-in", "built-in", "any"),
        ("csv", "appender", "built-in", "Python"),
        ("jsonl", "appender", "built-in", "Python"),
        ("sqlite", "appender", "built-in", "Python"),
        ("many.Many", "loader", "plugins/many.py:4", "Python"),
        ("many.Many", "converter", "plugins/many.py:4", "Python"),
        ("many.Other", "unknown", "plugins/many.py:11", "Python"),
    }
    assert "Helper" not in out
    classes = json.loads(steps("--available", "--json")[1])["classes"]
    assert all(entry["summary"] for entry in classes if entry["origin"] == "built-in")
    (other,) = [entry for entry in classes if entry["name"] == "many.Other"]
    assert other == {
        "name": "many.Other", "kind": "unknown", "origin": "plugins/many.py:11", "language": "Python",
        "summary": "Inherits.",
    }  # fmt: skip


def test_classes_are_available_where_the_defs_have_problems(steps: Output, tmp_path: Path) -> None:
    (tmp_path / "defs" / "more.yml").write_text("a: [\n")
    (tmp_path / "defs" / "plugins" / "bad.py").write_text("class X(:\n")
    (tmp_path / "defs" / "plugins" / "latin.py").write_bytes(b"\xff")
    code, out, err = steps("--available")
    assert code == 0
    assert "many.Many" in out
    assert [line.split()[:2] for line in err.splitlines()] == [
        ["defs/plugins/bad.py:1:9:", "bad-python"],
        ["defs/plugins/latin.py:1:1:", "not-utf8"],
    ]
    code, out, err = steps("--available", "--defs", "nowhere")
    assert code == 0
    assert "many.Many" not in out
    assert "PageLoader" in out
    assert err.startswith("nowhere: no such file or directory")


def test_installed_classes_have_their_package_as_origin(
    steps: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    info = packages / "tea_steps-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tea-steps\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[crawl_console.steps]\nTeaMark = tea_steps:Mark\nGone = tea_gone:Gone\n")
    (packages / "tea_steps.py").write_text(
        'raise SystemExit\nclass Mark:\n    """Marks tea."""\n    def __init__(self, factor, words): ...\n'
        "    def run(self, rows, context): ...\n"
    )
    monkeypatch.syspath_prepend(str(packages))
    classes = json.loads(steps("--available", "--json")[1])["classes"]
    entries = {entry["name"]: entry for entry in classes}
    assert entries["TeaMark"] == {
        "name": "TeaMark", "kind": "step", "origin": "tea-steps 1.2", "language": "Python", "summary": "Marks tea.",
    }  # fmt: skip
    assert (entries["Gone"]["kind"], entries["Gone"]["origin"]) == ("unknown", "tea-steps 1.2")
    shop = tmp_path / "defs" / "shop.yml"
    shop.write_text(shop.read_text().replace("class: many.Other", "class: TeaMark"))
    (task,) = json.loads(steps("first", "--json")[1])["tasks"]
    assert {step["origin"] for step in task["steps"]} == {"built-in", "plugins/many.py:4", "tea-steps 1.2"}


def test_tasks_and_classes_are_not_listed_together(steps: Output) -> None:
    code, out, err = steps("first", "--available")
    assert (code, out) == (2, "")
    assert "--available lists classes" in err
