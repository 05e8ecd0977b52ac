"""`--run RUN`: commands that read show an earlier run as well as the latest."""

import orjson
import pytest

from crawl_console.cli.main import main
from crawl_engine.store.tables.run import runs, supervisors
from tests.contract.store.harness import StoreHarness, failed


def invoke(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize("command", ["jobs", "events", "export", "status"])
def test_an_earlier_run_is_read(store: StoreHarness, capsys: pytest.CaptureFixture[str], command: str) -> None:
    store.seed("http://a/first")
    (job,) = store.take("http://a/first")
    store.commit(store.done(job, data=['{"title":"first"}']))
    earlier = runs.get(store.db, store.run).id
    with store.db.transaction():
        runs.create(store.db, None, 2.0)
    data = ("--data", str(store.folder))
    code, out, _ = invoke(capsys, command, "--run", earlier, *data)
    assert code == 0
    assert ("first" in out) is (command in ("jobs", "export"))
    assert (earlier in out) is (command == "status")
    code, out, error = invoke(capsys, command, "--run", "nothing", *data)
    assert (code, out) == (2, "")
    assert "unknown run 'nothing'" in error
    assert earlier in error


def test_only_the_latest_run_is_retried(store: StoreHarness, capsys: pytest.CaptureFixture[str]) -> None:
    store.seed("http://a/first")
    (job,) = store.take("http://a/first")
    store.commit(failed(job))
    first, data = runs.get(store.db, store.run).id, ("--data", str(store.folder))
    assert invoke(capsys, "retry", "--run", first, *data)[:2] == (0, "1 job is READY again\n")
    (job,) = store.take("http://a/first")
    store.commit(failed(job))
    with store.db.transaction():
        newer = runs.create(store.db, None, 2.0).id
    code, out, error = invoke(capsys, "retry", "--run", first, *data)
    assert (code, out) == (2, "")
    assert f"cannot be resumed: {newer} is newer" in error
    code, out, error = invoke(capsys, "retry", "--run", first, "--match", "nothing", *data)
    assert (code, out) == (2, "")
    assert f"cannot be resumed: {newer} is newer" in error, "also where nothing matches"


@pytest.mark.parametrize("match", ["state:done", "state:done,skipped", "second state:done", "!state:failed"])
def test_a_match_never_widens_what_is_retried(
    store: StoreHarness, capsys: pytest.CaptureFixture[str], match: str
) -> None:
    store.seed("http://a/first", "http://a/second")
    store.commit(*(store.done(job) for job in store.take("http://a/")))
    code, out, _ = invoke(capsys, "retry", "--match", match, "--data", str(store.folder))
    assert (code, out) in [(2, ""), (0, "0 jobs are READY again\n")]
    assert [state for _, state in store.jobs()] == ["DONE", "DONE"]
    data = ("--state", "done", "--match", "second", "--data", str(store.folder))
    assert invoke(capsys, "retry", *data)[:2] == (0, "1 job is READY again\n")


def test_following_takes_no_run(store: StoreHarness, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = invoke(capsys, "events", "-f", "--run", "x", "--data", str(store.folder))
    assert code == 2
    assert "-f follows the latest run" in error


def test_the_status_of_an_earlier_run_is_its_own(store: StoreHarness, capsys: pytest.CaptureFixture[str]) -> None:
    store.seed("http://a/first", "http://a/second")
    earlier, data = runs.get(store.db, store.run).id, ("--data", str(store.folder))
    with store.db.transaction():
        supervisors.set_meta(store.db, "defs_problems", '[{"file":"f","line":1,"col":1,"code":"c","message":"m"}]')
        newer = runs.create(store.db, None, 2.0).id
    text = invoke(capsys, "status", "--run", earlier, *data)[1]
    assert "resumes it" not in text, "only the latest run can be resumed"
    shown = orjson.loads(invoke(capsys, "status", "--json", "--run", earlier, *data)[1])
    assert (shown["run"], shown["jobs"]["ready"], shown["defs_problems"], shown["alarms"]) == (earlier, 2, [], [])
    latest = orjson.loads(invoke(capsys, "status", "--json", *data)[1])
    assert (latest["run"], latest["jobs"]["ready"], len(latest["defs_problems"])) == (newer, 0, 1)
    again = orjson.loads(invoke(capsys, "status", "--json", "--run", newer, *data)[1])
    assert again | {"alarms": []} == latest | {"alarms": []}
