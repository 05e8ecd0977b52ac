"""`state --verify` names damaged rows, documents and files, and the commands that mend exactly these."""

import json
import shlex
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.sample import sampled

from .project import Project, until
from .site import Page, Site, html
from .verified_crawl import FILES, VerifiedCrawl

pytestmark = pytest.mark.timeout(120)

WAYS = ("removed", "added", "missing", "short", "long", "header")
DAMAGES = [
    pytest.param(name, way, marks=() if i == j else pytest.mark.sweep)
    for i, way in enumerate(WAYS)
    for j, name in enumerate(FILES)
]


@pytest.fixture
def crawl(project: Project, site: Site) -> VerifiedCrawl:
    """A crawl that is DONE."""
    crawl = VerifiedCrawl(project, site)
    project.crawl()
    return crawl


def statuses(result: dict[str, Any]) -> dict[str, str]:
    return {group["group"]: group["status"] for group in result["groups"]}


def steps_of(result: dict[str, Any], group: str) -> dict[str, str]:
    (steps,) = [one["steps"] for one in result["groups"] if one["group"] == group]
    assert isinstance(steps, dict)
    return steps


def entries_of(project: Project, group: str) -> list[dict[str, Any]]:
    lines = (project.data / "state.jsonl").read_text("utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line["group"] == group]


def invalid_outputs(result: dict[str, Any]) -> dict[str, str]:
    return {
        Path(output["path"]).name: output["reason"] for output in result["outputs"] if output["status"] == "invalid"
    }


@pytest.mark.quick
def test_one_changed_row_of_two_groups_in_one_file(crawl: VerifiedCrawl, project: Project, site: Site) -> None:
    crawl.assert_whole()
    state = (project.data / "state.jsonl").read_bytes()
    crawl.execute("UPDATE rows SET data = replace(data, 'red', 'RED') WHERE id = ?", crawl.row_of("red", 7))
    result = crawl.verify()
    assert statuses(result) == {"red": "invalid", "blue": "valid"}
    assert steps_of(result, "red") == {"page/parser": "rows: 1 of 20 differs from its checkpoint"}
    checked = {Path(output["path"]).name: output["status"] for output in result["outputs"]}
    assert checked.pop("item.parquet") == "not_checked", "its bytes follow from all rows"
    assert set(checked.values()) == {"valid"}, "the files have what was committed"
    assert result["commands"] == ["crawl-console extract item"]
    assert result["commands"][0] in project.run_with_data("state", "--verify").err
    assert (project.data / "state.jsonl").read_bytes() == state
    assert crawl.verify() == result, "a verification changes nothing"
    crawl.mend(result)
    assert site.paths == [], "its document is stored"
    crawl.assert_whole()


TAMPERINGS = [
    ("DELETE FROM rows WHERE id = ?", "rows: 19 instead of 20"),
    ("UPDATE rows SET digest = NULL WHERE id = ?", "rows: 1 of 20 differs from its checkpoint"),
    ("UPDATE rows SET data = x'ff00' WHERE id = ?", "rows: 1 of 20 differs from its checkpoint"),
    (
        "INSERT INTO rows (run, job, data_def, data) SELECT run, job, data_def, '{}' FROM rows WHERE id = ?",
        "rows: 1 of 20 differs from its checkpoint, 21 instead of 20",
    ),
    (
        "UPDATE content_sums SET row_sum = zeroblob(16) WHERE grp = 'red' AND ? > 0",
        "rows: their sum differs from the checkpoint",
    ),
]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("sql", "reason"), sampled(TAMPERINGS, 0, 4), ids=["deleted", "digest", "not text", "added", "sum"]
)
def test_rows_damaged_in_other_ways(crawl: VerifiedCrawl, site: Site, sql: str, reason: str) -> None:
    crawl.execute(sql, crawl.row_of("red", 7))
    result = crawl.verify()
    assert statuses(result) == {"red": "invalid", "blue": "valid"}
    assert steps_of(result, "red")["page/parser"] == reason
    assert result["commands"][0] == "crawl-console extract item"
    crawl.mend(result)
    assert site.paths == []
    crawl.assert_whole()


@pytest.mark.quick
@pytest.mark.parametrize(
    "damage", sampled(["changed", "unreadable", "missing", "forgotten", "unreferenced", "status"], 0)
)
def test_a_damaged_document_is_fetched_again(crawl: VerifiedCrawl, project: Project, site: Site, damage: str) -> None:
    page, path = crawl.document_of("blue", 2)
    other, _ = crawl.document_of("red", 0)
    match damage:
        case "changed":
            crawl.execute(
                "UPDATE pages SET body = (SELECT body FROM pages WHERE id = ?) WHERE id = ?", other, page,
                name="pages.db",
            )  # fmt: skip
        case "unreadable":
            crawl.execute("UPDATE pages SET body = x'00' WHERE id = ?", page, name="pages.db")
        case "missing":
            crawl.execute("DELETE FROM pages WHERE id = ?", page, name="pages.db")
        case "forgotten":
            crawl.execute("DELETE FROM documents WHERE id = ?", page)
        case "unreferenced":
            crawl.execute("UPDATE jobs SET document = NULL WHERE document = ?", page)
        case "status":
            crawl.execute("UPDATE documents SET status = 203 WHERE id = ?", page)
    result = crawl.verify()
    assert statuses(result) == {"red": "valid", "blue": "invalid"}
    text = {
        "missing": "documents: 1 of 4 is missing", "forgotten": "documents: 1 of 4 is missing",
        "unreferenced": "documents: 3 instead of 4",
    }.get(damage, "documents: 1 of 4 differs from its checkpoint")  # fmt: skip
    assert steps_of(result, "blue") == {"loader": text}
    assert crawl.mend(result) == ["retry", "run"]
    assert site.paths == [path], "nothing else is fetched"
    crawl.assert_whole()


@pytest.mark.sweep
def test_a_changed_row_whose_document_is_gone_is_fetched_again(crawl: VerifiedCrawl, site: Site) -> None:
    page, path = crawl.document_of("red", 0)
    crawl.execute("UPDATE documents SET pruned = 1, key = x'' WHERE id = ?", page)
    crawl.execute("DELETE FROM pages WHERE id = ?", page, name="pages.db")
    result = crawl.verify()
    assert result["valid"], "a pruned document is not damage"
    assert {group["group"]: group["pruned"] for group in result["groups"]} == {"red": 1, "blue": 0}
    assert "1 document is pruned" in crawl.project.run_with_data("state", "--verify").out
    crawl.execute("UPDATE rows SET data = '{}' WHERE id = ?", crawl.row_of("red", 0))
    result = crawl.verify()
    assert statuses(result) == {"red": "invalid", "blue": "valid"}
    assert crawl.mend(result)[0] == "retry"
    assert site.paths == [path]
    crawl.assert_whole()


@pytest.mark.parametrize("name", sampled(FILES, 0))
def test_a_changed_line_is_named(crawl: VerifiedCrawl, site: Site, name: str) -> None:
    crawl.change_file(name, "changed")
    result = crawl.verify()
    assert statuses(result) == {"red": "valid", "blue": "valid"}
    place = {
        "item.csv": "line 8 is not row 7", "item.jsonl": "line 7 is not row 7", "item.db": "row 7 differs",
        "item.parquet": "it differs from its rows at byte",
    }[name]  # fmt: skip
    ((damaged, reason),) = invalid_outputs(result).items()
    assert damaged == name
    assert reason.startswith(place)
    assert crawl.mend(result) == ["export"]
    assert site.paths == []
    crawl.assert_whole()


@pytest.mark.quick
@pytest.mark.parametrize(("name", "how"), DAMAGES)
def test_a_damaged_file_is_written_again(
    crawl: VerifiedCrawl, project: Project, site: Site, name: str, how: str
) -> None:
    path = project.output(name)
    match how:
        case "missing":
            path.unlink()
        case "short":
            path.write_bytes(path.read_bytes()[: -(path.stat().st_size // 3)])
        case "long" if not name.endswith(".db"):
            path.write_bytes(path.read_bytes() + b"x\n")
        case "header" | "long":
            path.write_bytes(b"x" + path.read_bytes()[1:])
        case _:
            crawl.change_file(name, how)
    result = crawl.verify()
    assert not result["valid"]
    assert list(invalid_outputs(result)) == [name]
    assert crawl.mend(result) == ["export"]
    assert site.paths == []
    crawl.assert_whole()


def test_damage_of_rows_documents_and_files_at_once(crawl: VerifiedCrawl, project: Project, site: Site) -> None:
    page, path = crawl.document_of("blue", 1)
    crawl.execute("DELETE FROM pages WHERE id = ?", page, name="pages.db")
    crawl.execute("UPDATE rows SET data = '{}' WHERE job = (SELECT id FROM jobs WHERE document = ?)", page)
    crawl.execute("UPDATE rows SET data = '[' WHERE id = ?", crawl.row_of("red", 3))
    project.output("item.csv").unlink()
    result = crawl.verify()
    assert statuses(result) == {"red": "invalid", "blue": "invalid"}
    assert crawl.mend(result) == ["retry", "extract", "run"], "an extraction writes the files again"
    assert site.paths == [path]
    crawl.assert_whole()


@pytest.mark.sweep
def test_with_a_supervisor_alive_finished_groups_are_verified(project: Project, site: Site) -> None:
    crawl = VerifiedCrawl(project, site)
    hold = threading.Event()
    site["/blue/3"] = Page(site.pages["/blue/3"].content, hold=hold)  # type: ignore[union-attr]
    running = project.start()
    assert until(lambda: (project.data / "state.jsonl").exists() and all(
        entry["completed"] for entry in entries_of(project, "red")
    ))  # fmt: skip
    assert statuses(crawl.verify()) == {"red": "valid", "blue": "unfinished"}
    row = crawl.row_of("red", 0)
    [(data,)] = project.query(f"SELECT data FROM rows WHERE id = {row}")
    crawl.execute("UPDATE rows SET data = '{}' WHERE id = ?", row)
    result = crawl.verify()
    assert statuses(result) == {"red": "invalid", "blue": "unfinished"}
    crawl.execute("UPDATE rows SET data = ? WHERE id = ?", data, row)
    hold.set()
    assert running.wait().code == 0
    crawl.assert_whole()


@pytest.mark.sweep
def test_of_an_earlier_run_only_files_are_mended(crawl: VerifiedCrawl, project: Project) -> None:
    first = crawl.verify()["run"]
    second = project.crawl("--fresh").summary["run"]
    assert first != second
    crawl.execute("UPDATE rows SET data = '{}' WHERE id = ?", crawl.row_of("red", 0))
    assert crawl.verify()["valid"], "the latest run is whole"
    path = project.data / "output" / first / "item.csv"
    path.unlink()
    result = crawl.verify("--run", first)
    assert statuses(result) == {"red": "invalid", "blue": "valid"}
    assert result["commands"] == [f"crawl-console export item --run {first} -o {path}"]
    assert project.run_with_data(*shlex.split(result["commands"][0])[1:]).code == 0
    assert len(path.read_text("utf-8").splitlines()) == 41


@pytest.mark.sweep
def test_files_with_only_new_rows(crawl: VerifiedCrawl, project: Project, site: Site) -> None:
    for page in (1, 3):
        site[f"/red/{page}"] = html(f"<ul><li><a>new {page}</a><i>1.5</i></li><li><a>newer</a><i>2</i></li></ul>")
    project.crawl("--fresh", "--only-new")
    assert len(project.rows("item")) == 4
    assert crawl.verify()["valid"]
    [(last,)] = project.query("SELECT max(id) FROM rows WHERE data GLOB '*new*'")
    crawl.execute("UPDATE rows SET data = '{}' WHERE id = ?", last)
    crawl.execute("UPDATE rows SET data = '{}' WHERE id = (SELECT max(id) FROM rows WHERE data GLOB '*blue*')")
    result = crawl.verify()
    assert statuses(result) == {"red": "invalid", "blue": "invalid"}
    assert {output["status"] for output in result["outputs"]} == {"valid"}
    site.clear_log()
    assert result["commands"] == ["crawl-console extract item"]
    assert project.run_with_data("extract", "item").code == 0
    assert site.paths == []
    assert len(project.rows("item")) == 4
    assert crawl.verify()["valid"]
    path = project.output("item.csv")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"newer", b"Newer", 1))
    result = crawl.verify()
    assert list(invalid_outputs(result)) == ["item.csv"]
    assert project.run_with_data(*shlex.split(result["commands"][0])[1:]).code == 0
    assert path.read_bytes() == whole
    assert crawl.verify()["valid"]


@pytest.mark.sweep
def test_a_kill_while_documents_are_fetched_again_leaves_exact_sums(
    crawl: VerifiedCrawl, project: Project, site: Site
) -> None:
    crawl.execute("UPDATE rows SET data = '{}'")
    crawl.execute("DELETE FROM pages WHERE id IN (SELECT id FROM pages LIMIT 3)", name="pages.db")
    result = crawl.verify()
    retries = [command for command in result["commands"] if " retry " in command]
    for command in retries:
        assert project.run_with_data(*shlex.split(command)[1:]).code == 0
    site.clear_log()
    running = project.start()
    assert until(lambda: site.paths)
    running.send(signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()
    project.crawl()
    assert project.run_with_data("extract", "item").code == 0
    crawl.assert_whole()


@pytest.mark.sweep
def test_an_interrupted_run_has_unfinished_groups(project: Project, site: Site) -> None:
    crawl = VerifiedCrawl(project, site)
    hold = threading.Event()
    site["/blue/3"] = Page(html(""), hold=hold)
    running = project.start("--grace", "0.2")
    assert until(lambda: len(site.paths) >= 8)
    running.send(signal.SIGINT)
    running.wait()
    hold.set()
    assert statuses(crawl.verify())["blue"] == "unfinished"


def test_without_a_run_nothing_is_verified(project: Project) -> None:
    done = project.run_with_data("state", "--verify", "--json")
    assert (done.code, done.out) == (0, "")


def test_a_copy_is_compared_with_its_own_files(crawl: VerifiedCrawl, project: Project) -> None:
    original = project.data
    copy, moved = original.with_name("copy"), original.with_name("moved")
    shutil.copytree(original, copy, symlinks=True)
    damaged = copy / "output" / "latest" / "item.csv"
    damaged.write_text(damaged.read_text().replace("red", "RED", 1))
    project.data = copy
    assert [output["status"] for output in crawl.verify()["outputs"]].count("invalid") == 1
    assert {Path(output["path"]).parents[2] for output in crawl.verify()["outputs"]} == {copy}
    original.rename(moved)
    project.data = moved
    crawl.assert_whole()
