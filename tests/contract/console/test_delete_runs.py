"""`runs delete` and `runs prune`: what goes, what stays as it is, and what is refused."""

import contextlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawl_console.cli.main import main
from crawl_engine.append.loop.only_new import SeenRows
from crawl_engine.errors import LockHeld
from crawl_engine.model.run import RunState, Stage
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.row.rowkeys import RowKeys
from crawl_engine.store.tables.run import deleted_runs, runs
from crawl_engine.store.transactions import delete_run
from crawl_engine.supervise.lock import Lock
from crawl_engine.supervise.retention.deletion import delete_left
from tests.contract.store.harness import StoreHarness, document

Cli = Callable[..., tuple[int, str, str]]
HOST = "http://a"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Run a command on the data dir; returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--data", str(tmp_path)])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    StoreHarness(tmp_path).close()
    opened = connect(tmp_path / CRAWL, durable=False)
    with opened.transaction():
        opened.execute("UPDATE runs SET state = 'KILLED', stage = 'SHUTDOWN_COMPLETE'")
        opened.execute("UPDATE supervisors SET ended_at = 1")
    yield opened
    opened.close()


def crawl(folder: Path, pages: dict[str, str], *, state: RunState = RunState.DONE, at: float = 0.0) -> str:
    """A run that stored pages, each with a row of its text, and an output folder; returns its id."""
    store = StoreHarness(folder)
    bodies = PageStore(folder)
    try:
        store.seed(*(f"{HOST}/{name}" for name in pages))
        while taken := store.take(f"{HOST}/x"):
            for job in taken:
                new = document(job.url, pages[job.url.rpartition("/")[2]].encode(), at=at)
                documents.find_equal(store.db, [new])
                [page] = bodies.add([new])
                title = json.dumps({"title": new.body.read().decode()})
                store.commit(store.done(job, new, data=[title], page=page))
        run = runs.get(store.db, store.run)
        with store.db.transaction():
            if state is RunState.DONE:
                runs.set_state(store.db, run.seq, RunState.DRAINING)
            runs.set_state(store.db, run.seq, state)
            store.db.execute("UPDATE runs SET stage = ?, created_at = ? WHERE seq = ?",
                             (Stage.SHUTDOWN_COMPLETE, at, run.seq))  # fmt: skip
            store.db.execute("UPDATE supervisors SET ended_at = 1")
            store.db.execute("UPDATE nodes SET ended_at = 1, identity = NULL, state = 'TERMINATED'")
        target = folder / "output" / run.id
        target.mkdir(parents=True)
        (target / "book.csv").write_text("title\r\n")
        for name in ("current", *(["latest"] if state is RunState.DONE else [])):
            (folder / "output" / name).unlink(missing_ok=True)
            (folder / "output" / name).symlink_to(run.id)
        return run.id
    finally:
        bodies.close()
        store.close()


def crawl_again(folder: Path, seed: int, count: int) -> list[str]:
    """Runs of one site whose pages change sometimes."""
    rng = random.Random(seed)
    site = {str(page): f"text {page}" for page in range(8)}
    made = []
    for number in range(count):
        for page in rng.sample(sorted(site), 2):
            site[page] = f"text {page} of {number}"
        made.append(crawl(folder, dict(rng.sample(sorted(site.items()), 6)), at=float(number + 1)))
    return made


def exports(cli: Cli, ids: list[str]) -> dict[str, str]:
    return {id_: cli("export", "book", "--run", id_)[1] for id_ in ids}


@pytest.mark.parametrize("seed", range(4))
def test_other_runs_stay_as_they_are_and_valid(cli: Cli, tmp_path: Path, seed: int) -> None:
    """Random runs are deleted, one of them in several attempts that a kill ended."""
    rng = random.Random(seed)
    made = crawl_again(tmp_path, seed, 6)
    gone = rng.sample(made, 3)
    left = [id_ for id_ in made if id_ not in gone]
    before = exports(cli, left)
    changes = cli("export", "book", "--changes", "--run", left[-1], "--since", left[0])[1]
    db = connect(tmp_path / CRAWL, durable=False)
    run = runs.get_by_id(db, gone[0])
    assert run is not None
    delete_run.begin(db, run.seq)
    for _ in range(3):
        steps = rng.randrange(1, 4)
        for _, _ in zip(range(steps), delete_left(db, tmp_path, with_documents=True), strict=False):
            pass
    db.close()
    code, out, _ = cli("runs", "delete", *gone[1:], "--yes", "--json")
    assert (code, json.loads(out)["deleted"]) == (0, [id_ for id_ in made if id_ in gone[1:]])
    assert exports(cli, left) == before
    assert cli("export", "book", "--changes", "--run", left[-1], "--since", left[0])[1] == changes
    for id_ in left:
        verified = json.loads(cli("state", "--verify", "--json", "--run", id_)[1])
        assert [group["status"] for group in verified["groups"] if group["status"] == "invalid"] == [], verified
    assert {path.name for path in (tmp_path / "output").iterdir() if not path.is_symlink()} == set(left)
    assert (tmp_path / "output" / "latest").readlink() == Path(left[-1])
    assert (tmp_path / "output" / "current").readlink() == Path(left[-1])
    db = connect(tmp_path / CRAWL)
    assert deleted_runs.list_open(db) == []
    db.close()


def test_documents_that_another_run_uses_stay_and_the_newest_of_each_url(
    cli: Cli, db: Database, tmp_path: Path
) -> None:
    old = crawl(tmp_path, {"1": "a", "2": "b", "3": "only here"}, at=1.0)
    crawl(tmp_path, {"1": "a", "2": "changed"}, at=2.0)
    assert cli("runs", "delete", old, "--yes")[0] == 0
    assert db.all("SELECT url, run FROM documents ORDER BY id") == [
        (f"{HOST}/3", 2),
        (f"{HOST}/1", 3),
        (f"{HOST}/2", 3),
    ]
    with contextlib.closing(PageStore(tmp_path, read_only=True)) as pages:
        texts = {url: pages.read(page) for page, url in db.all("SELECT id, url FROM documents")}
    assert texts == {f"{HOST}/1": b"a", f"{HOST}/2": b"changed", f"{HOST}/3": b"only here"}


def test_the_memory_of_only_new_outlives_its_run(cli: Cli, db: Database, tmp_path: Path) -> None:
    """`export --since` tells the rows of deleted runs apart, too, once a file with only new rows did."""
    old = crawl(tmp_path, {"1": "a", "2": "b"}, at=1.0)
    middle = crawl(tmp_path, {"1": "a"}, at=2.0)
    new = crawl(tmp_path, {"1": "a", "2": "b", "3": "c"}, at=3.0)
    with db.transaction():
        db.execute(
            "INSERT INTO outputs (run, appender, type, data_def, path, settings)"
            " VALUES (2, 'book', 'csv', 'book', 'x', '{\"only_new\":[\"title\"]}')"
        )
    assert cli("runs", "delete", old, "--yes")[0] == 0
    (tmp_path / "keys.db").unlink(missing_ok=True)
    assert db.value("SELECT count(*) FROM seen_rows") == 2
    keys = RowKeys(tmp_path / "keys.db", db)
    seen = SeenRows(db, keys, {"book": ("title",)}, 4)
    while not seen.complete:
        seen.step()
    rows = [(id_, text) for id_, text in db.all("SELECT id, data FROM rows WHERE run = 4")]
    assert [text for _, text in seen.unseen("book", rows)] == ['{"title": "c"}']
    keys.close()
    assert cli("export", "book", "--since", old, "--run", new)[0] == 2
    assert cli("export", "book", "--since", middle, "--run", new)[0] == 0


def test_a_run_that_is_gone_is_named_with_the_oldest_that_is_left(cli: Cli, db: Database, tmp_path: Path) -> None:
    made = crawl_again(tmp_path, 1, 3)
    first = runs.oldest_id(db)
    assert cli("runs", "delete", str(first), made[0], "--yes")[0] == 0
    for command in (
        ["export", "book", "--since", made[0]],
        ["export", "book", "--changes", "--since", made[0]],
        ["jobs", "--run", made[0]],
        ["runs", "show", made[0]],
        ["runs", "delete", made[0], "--yes"],
    ):
        code, out, error = cli(*command)
        assert (code, out) == (2, ""), command
        assert error == f"error: run {made[0]} was deleted\n  The oldest run that is left is {made[1]}.\n"
    assert f"; {made[1]} is the oldest run that is left" in cli("export", "book", "--changes", "--run", made[1])[2]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["delete"], "runs delete: neither RUN nor a limit"),
        (["delete", "--yes"], "runs delete: neither RUN nor a limit"),
        (["delete", "x", "--keep", "1"], "runs delete: both RUN and a limit"),
        (["delete", "--keep", "1", "--max-size", "5"], "--keep and --max-size exclude each other"),
        (["delete", "--older-than", "P1D", "--keep", "1"], "--older-than and --keep exclude each other"),
        (["delete", "--keep", "1", "--force"], "runs delete: --force without RUN"),
        (["delete", "x", "--limit", "3"], "runs delete: --limit has no effect"),
        (["delete", "--older-than", "P1Y"], "Invalid value for '--older-than': 'P1Y' is not a time"),
        (["delete", "--older-than", "-1"], "Invalid value for '--older-than'"),
        (["delete", "--keep", "-1"], "Invalid value for '--keep'"),
        (["delete", "--keep", "many"], "Invalid value for '--keep'"),
        (["delete", "--max-size", "1.5"], "Invalid value for '--max-size'"),
        (["delete", "--max-size", "-5"], "Invalid value for '--max-size'"),
        (["delete", "absent", "--yes"], "unknown run 'absent'"),
        (["prune"], "runs prune: no limit"),
        (["prune", "x"], "runs prune x: `prune` takes no RUN"),
        (["prune", "--set", "keep_runs=0"], "keep_runs cannot be '0'"),
        (["prune", "--set", "max_data=1k"], "max_data cannot be '1k'"),
        (["list", "--keep", "1"], "runs list: limits, --force and --yes have no effect"),
        (["show", "--yes"], "runs show: limits, --force and --yes have no effect"),
        (["show", "a", "b"], "runs show: 2 RUNs"),
        (["remove"], "'remove' is not one of 'list', 'show', 'delete', 'prune'"),
    ],
)
def test_a_wrong_call_is_refused_and_nothing_goes(cli: Cli, db: Database, arguments: list[str], error: str) -> None:
    code, out, said = cli("runs", *arguments)
    assert (code, out) == (2, "")
    assert error in said
    assert "Traceback" not in said
    assert db.value("SELECT count(*) FROM runs") == 1


def test_without_a_terminal_it_needs_yes(cli: Cli, db: Database, tmp_path: Path) -> None:
    made = crawl_again(tmp_path, 1, 2)
    for arguments in (["delete", made[0]], ["prune", "--keep", "1"]):
        code, out, error = cli("runs", *arguments)
        assert (code, out) == (2, "")
        assert "no terminal to ask on; nothing was deleted\n  Add --yes." in error
    assert runs.list_ids(db, 9)[:2] == made[::-1]


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_it_asks(
    cli: Cli, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    made = crawl_again(tmp_path, 1, 2)
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: answer)
    code, _, shown = cli("runs", "delete", made[0])
    assert code == (0 if answer else 130)
    assert f"{made[0]}  1970-01-01" in shown
    assert "DONE  6 pages, 6 rows, about" in shown
    assert (made[0] in runs.list_ids(db, 9)) is not answer


def test_limits_choose_the_oldest_and_never_the_unfinished_and_the_last_done(
    cli: Cli, db: Database, tmp_path: Path
) -> None:
    first = str(runs.oldest_id(db))
    done = [crawl(tmp_path, {"1": "a"}, at=float(day * 86_400)) for day in (1, 2)]
    later = [crawl(tmp_path, {"1": "a"}, state=RunState.CANCELLED, at=float(day * 86_400)) for day in (3, 4)]
    assert json.loads(cli("runs", "delete", "--keep", "3", "--yes", "--json")[1])["deleted"] == [first, done[0]]
    assert json.loads(cli("runs", "delete", "--older-than", "1d", "--yes", "--json")[1])["deleted"] == [later[0]]
    answer = json.loads(cli("runs", "prune", "--max-size", "1", "--yes", "--json")[1])
    assert answer["deleted"] == []
    assert answer["bytes_after"] > 1
    assert runs.list_ids(db, 9) == [later[1], done[1]]
    assert "no other run may go" in cli("runs", "prune", "--max-size", "1", "--yes")[2]
    assert cli("runs", "prune", "--set", "keep_runs=1", "--yes")[0] == 0


def test_the_unfinished_run_needs_force_and_is_not_resumed(cli: Cli, db: Database, tmp_path: Path) -> None:
    done = crawl(tmp_path, {"1": "a"}, at=1.0)
    unfinished = crawl(tmp_path, {"1": "a"}, state=RunState.CANCELLED, at=2.0)
    code, _, error = cli("runs", "delete", unfinished, "--yes")
    assert code == 2
    assert f"run {unfinished} is unfinished (CANCELLED)" in error
    assert "Add --force" in error
    assert cli("runs", "delete", unfinished, "--yes", "--force")[0] == 0
    assert runs.list_ids(db, 1) == [done]
    assert not (tmp_path / "output" / unfinished).exists()
    assert (tmp_path / "output" / "current").readlink() == Path(done)
    assert f'"run":"{done}"' in (tmp_path / "state.jsonl").read_text() or not (tmp_path / "state.jsonl").read_text()


def test_the_last_run_of_all_may_go_with_its_links(cli: Cli, db: Database, tmp_path: Path) -> None:
    only = crawl(tmp_path, {"1": "a"}, at=1.0)
    assert cli("runs", "delete", only, str(runs.oldest_id(db)), "--yes")[0] == 0
    assert list((tmp_path / "output").iterdir()) == []
    assert cli("runs")[1].endswith("no run yet; start one with `crawl-console run`\n")


def test_a_page_names_a_deleted_run_that_found_it_unchanged(cli: Cli, db: Database, tmp_path: Path) -> None:
    first, second, last = (crawl(tmp_path, {"1": "a"}, at=at) for at in (1.0, 2.0, 3.0))
    [(page,)] = db.all("SELECT d.id FROM documents d JOIN runs r ON r.seq = d.run WHERE r.id = ?", (last,))
    with db.transaction():
        db.execute("UPDATE documents SET checked_at = 9, checked_run = (SELECT seq FROM runs WHERE id = ?)", (second,))
    assert f", by run {second}\n" in cli("pages", "show", str(page))[1]
    assert cli("runs", "delete", first, second, "--yes")[0] == 0
    shown = cli("pages", "show", str(page))[1]
    assert f" by run {last}\n" in shown
    assert ", by a run that was deleted\n" in shown


def test_a_run_in_use_is_refused_and_the_pages_of_another_go_later(cli: Cli, db: Database, tmp_path: Path) -> None:
    made = crawl_again(tmp_path, 3, 3)
    with db.transaction():
        db.execute("UPDATE runs SET state = 'KILLED' WHERE id = ?", (made[2],))
    held = Lock.acquire(tmp_path)
    held.write_holder(made[2])
    documents_before = db.value("SELECT count(*) FROM documents")
    try:
        for arguments in ([made[2], "--force"], [made[1]]):
            code, _, error = cli("runs", "delete", *arguments, "--yes")
            assert code == 2
            assert f"run {arguments[0]} is in use" in error
        code, _, error = cli("runs", "delete", made[0], "--yes")
        assert code == 0
        assert "stored pages that no run needs go when a crawl ends or starts" in error
        assert db.value("SELECT count(*) FROM documents") == documents_before
        with pytest.raises(LockHeld):
            Lock.acquire(tmp_path)
    finally:
        held.release()
    assert [run.id for run in deleted_runs.list_open(db)] == [made[0]]
    assert cli("runs", "prune", "--keep", "5")[0] == 0
    assert deleted_runs.list_open(db) == []
    assert db.value("SELECT count(*) FROM documents") < documents_before
