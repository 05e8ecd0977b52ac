"""The command `results`, and the counts in `status`."""

import json
from collections.abc import Callable

import pytest

from crawl_console.cli.main import main
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness
from tests.contract.store.step_reports import publish_steps, report

Output = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(store: StoreHarness, capsys: pytest.CaptureFixture[str]) -> Output:
    """Run a command on the store; returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--data", str(store.folder)])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def crawled(store: StoreHarness) -> StoreHarness:
    """Four pages: ok, warning, error with an escape sequence, not applicable."""
    publish_steps(store)
    report(store, "http://a/1", ["ok"])
    report(store, "http://user:secret@a/2", ["warning"], text="nine", code="w")
    report(store, "http://a/3", ["error"], text="no \x1b[31mprice", code="price")
    report(store, "http://a/4", ["not_applicable"])
    return store


def test_results_are_listed_newest_last(command: Output, crawled: StoreHarness) -> None:
    code, out, err = command("results")
    heading, *lines = out.splitlines()
    assert (code, err) == (0, "")
    assert heading.split() == ["JOB", "TASK", "STEP", "OUTCOME", "CODE", "MS", "TEXT", "URL"]
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    assert lines[1].split() == ["2", "g/list", "mark", "warning", "w", "1.25", "nine", "http://a/2"]
    assert "\x1b" not in out
    assert command("results", "--limit", "1")[1].splitlines()[1:] == lines[2:]
    assert command("results", "--outcome", "Warning")[1].splitlines()[1:] == lines[1:2]
    assert command("results", "2")[1].splitlines()[1:] == lines[1:2]
    for name in ("list", "g/list"):
        assert command("results", "--task", name)[1] == out


def test_json_is_an_object_a_line(command: Output, crawled: StoreHarness) -> None:
    objects = [json.loads(line) for line in command("results", "--json")[1].splitlines()]
    assert objects[1] == {
        "id": 2, "job": 2, "url": "http://a/2", "group": "g", "task": "list", "step": "mark", "outcome": "warning",
        "code": "w", "ms": 1.25, "text": "nine",
    }  # fmt: skip
    assert len(objects) == 3
    assert command("results", "--json", "--task", "plain") == (0, "", "")


def test_what_is_not_applicable_is_counted(command: Output, crawled: StoreHarness) -> None:
    code, out, err = command("results", "--outcome", "not_applicable")
    assert (code, err) == (0, "not_applicable results are counted, not listed\n")
    assert out.split() == ["1", "g/list", "mark", "not_applicable"]
    expected = {"group": "g", "task": "list", "step": "mark", "outcome": "not_applicable", "results": 1}
    assert json.loads(command("results", "--outcome", "not_applicable", "--json")[1]) == expected
    assert json.loads(command("results", "4", "--outcome", "not_applicable", "--json")[1]) == expected
    assert command("results", "--outcome", "not_applicable", "--task", "plain")[1] == ""
    code, out, err = command("results", "4")
    assert (code, out) == (0, "")
    assert err.split() == ["counted,", "not", "listed:", "1", "g/list", "mark", "not_applicable"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["99"], "no job 99"),
        (["0"], "0 is not in the range"),
        (["x"], "'x' is not a valid integer"),
        ([str(2**63)], "is not in the range"),
        (["--task", "lst"], "unknown task 'lst' (did you mean 'list'?)"),
        (["--task", "h/list"], "unknown task 'h/list' (did you mean 'g/list'?)"),
        (["--outcome", "bad"], "'bad' is not one of 'ok', 'warning', 'error', 'not_applicable'"),
        (["--run", "nothing"], "unknown run 'nothing'"),
        (["--limit", "0"], "0 is not in the range"),
    ],
)
def test_bad_values_are_refused(command: Output, crawled: StoreHarness, arguments: list[str], message: str) -> None:
    code, out, err = command("results", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_job_shows_its_own_run(command: Output, crawled: StoreHarness) -> None:
    first = runs.get(crawled.db, crawled.run).id
    with crawled.db.transaction():
        newer = runs.create(crawled.db, None, 2.0).id
    assert "nine" in command("results", "2")[1]
    assert "nine" in command("results", "--run", first)[1]
    code, _, err = command("results", "2", "--run", newer)
    assert code == 2
    assert f"job 2 is of run {first}, not of {newer}" in err


def test_nothing_to_list_says_why(command: Output, store: StoreHarness) -> None:
    run = runs.get(store.db, store.run).id
    assert command("results")[::2] == (
        0, f"no results: the defs of run {run} have no steps of your own; `crawl-console steps` shows their steps\n",
    )  # fmt: skip
    publish_steps(store)
    assert command("results")[2] == f"no results: no page of run {run} has passed a step of your own yet\n"
    report(store, "http://a/1", ["ok"])
    assert command("results", "--outcome", "error")[2] == f"no such result in run {run}\n"


def test_without_a_run(command: Output, store: StoreHarness) -> None:
    with store.db.transaction():
        for table in ("nodes", "supervisors", "runs"):
            store.db.execute(f"DELETE FROM {table}")
    code, out, err = command("results")
    assert (code, out) == (0, "")
    assert "no run yet" in err


def test_status_counts_by_task_and_step(command: Output, store: StoreHarness, crawled: StoreHarness) -> None:
    counts = {"ok": 1, "warning": 1, "error": 1, "not_applicable": 1}
    assert json.loads(command("status", "--json")[1])["results"] == {"g/list": {"mark": counts}}
    *_, heading, line = command("status")[1].splitlines()
    assert heading.split() == ["task", "step", "ok", "warning", "error", "not", "applicable"]
    assert line.split() == ["g/list", "mark", "1", "1", "1", "1"]
    assert [json.loads(x)["id"] for x in command("jobs", "--match", "outcome:warning", "--json")[1].splitlines()] == [2]
    assert command("retry", "--match", "outcome:error")[1] == "1 job is READY again\n"
    assert json.loads(command("status", "--json")[1])["results"]["g/list"]["mark"]["error"] == 0


def test_status_without_results_has_no_block(command: Output, store: StoreHarness) -> None:
    store.seed("http://a/1")
    store.finish_all("http://a/1")
    assert json.loads(command("status", "--json")[1])["results"] == {}
    assert "not applicable" not in command("status")[1]
