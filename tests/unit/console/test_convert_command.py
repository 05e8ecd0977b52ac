"""The command `convert`: where it writes, what it says, what it refuses."""

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from console.cli.main import crawl_console, main

DEFS = """\
locatorGroups: {g: {locators: [{name: n, url: "http://a.example/", from: seeds.txt}]}}
taskGroups: {g: {t: {dataDef: price}, u: {dataDef: years}}}
"""
TABLES = """\
dataDefs:
  price: {query: {block: "#p", selector: b}, items: [item: {name: Price, value: P}]}
  years: {query: {selector: td}, items: [item: {name: x, value: y}], dims: [item: {name: z, value: y, indexRange: 1-2}]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "scoopi"
    (folder / "more").mkdir(parents=True)
    (folder / "job.yml").write_text(DEFS, "utf-8")
    (folder / "more" / "tables.yaml").write_text(TABLES, "utf-8")
    return folder


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["convert", "scoopi", *arguments])
    assert ended.value.code == 0


def failure(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["convert", "scoopi", *arguments])
    assert ended.value.code == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def test_stdout_has_the_yaml_and_stderr_the_notes(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("scoopi")
    out, err = capfd.readouterr()
    assert '      Price:\n        selector: "#p b"\n' in out
    assert "  # not converted: 'z' has several indexes" in out
    lines = err.splitlines()
    assert "scoopi/more/tables.yaml:3:83: note kept years: is not converted, and still a table: 'z' has several" in err
    assert "scoopi/job.yml:1:32: note file '" in err
    assert lines[-1] == "1 table converted, 1 table kept"


def test_each_file_becomes_one(folder: Path, tmp_path: Path) -> None:
    run("scoopi", "-o", "out")
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.y*ml"))
    assert names == ["job.yml", "more/tables.yaml"]
    assert "dataDefs" not in (tmp_path / "out" / "job.yml").read_text("utf-8")
    checked = CliRunner().invoke(crawl_console, ["check", "out"], standalone_mode=False)
    assert checked.return_value == 0


def test_a_file_that_exists_is_not_overwritten(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out" / "more").mkdir(parents=True)
    (tmp_path / "out" / "more" / "tables.yaml").write_text("mine", "utf-8")
    err = failure(capfd, "scoopi", "-o", "out")
    assert "out/more/tables.yaml: exists already; nothing was written" in err
    assert not (tmp_path / "out" / "job.yml").exists()
    assert "exists already" in failure(capfd, "scoopi", "-o", "scoopi")
    assert (folder / "job.yml").read_text("utf-8") == DEFS


def test_a_place_that_cannot_be_written_is_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder.parent / "file").write_text("", "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["convert", "scoopi", "scoopi", "-o", "file"])
    assert ended.value.code == 3
    assert "file" in capfd.readouterr().err


def test_json_has_all_of_it(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("scoopi", "--json")
    result = orjson.loads(capfd.readouterr().out)
    assert list(result) == ["converted", "kept", "notes", "files", "defs"]
    assert (result["converted"], result["kept"], result["files"]) == (["price"], ["years"], [])
    assert {note["kind"] for note in result["notes"]} == {"kept", "differs"}
    assert set(result["notes"][0]) == {"file", "line", "col", "kind", "data_def", "message"}
    assert result["defs"].startswith("# Converted")


def test_what_cannot_be_converted_at_all_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no .yml or .yaml file" in failure(capfd, str(empty))
    assert "does not exist" in failure(capfd, str(tmp_path / "nowhere"))
    (empty / "a.yml").write_text(DEFS.replace("years", "price") + "dataDefs: {price: {fields: {a: {selector: b}}}}\n")
    assert "nothing to convert, no dataDef has `items`" in failure(capfd, str(empty))
    (empty / "a.yml").write_text("dataDefs:\n  d: {items: [item: {name: x, selectr: b}], query: {selector: b}}\n")
    assert "empty/a.yml:2:31: unknown-key" in failure(capfd, str(empty))


def test_the_settings_of_a_run_count(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("scoopi", "--set", "fact_not_found=~")
    assert 'default: "~"' in capfd.readouterr().out
    (folder / "more" / "tables.yaml").write_text(TABLES.replace("#p", "//p"), "utf-8")
    run("scoopi", "--set", "default_steps=htmlUnitDefault")
    assert 'selector: "xpath: //p/b"' in capfd.readouterr().out
