"""`status --all DIR…`: several data dirs, one line each, bad ones too; the Content-Signal of hosts."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from crawl_console import client
from crawl_console.cli.main import main
from crawl_engine.model.run import Eta, Judgement, RunState
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.run import machines, runs, supervisors
from tests.contract.store.harness import StoreHarness, failed

NewStore = Callable[..., StoreHarness]


def invoke(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["status", *words])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def crawl(store: StoreHarness) -> str:
    """One page of each kind and three rows; returns the run's id."""
    store.seed("http://a/1", "http://a/2", "http://a/3")
    first, second = store.take("http://a/", free=2)
    store.commit(store.done(first, data=['{"title":"x"}'] * 3), failed(second))
    return runs.get(store.db, store.run).id


def test_each_data_dir_has_its_line(new_store: NewStore, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    stores = [new_store(), new_store()]
    ids = [crawl(store) for store in stores]
    with stores[1].db.transaction():
        runs.set_state(stores[1].db, stores[1].run, RunState.CANCELLED, "by signal")
        stores[1].db.execute("UPDATE runs SET ended_at = 1700000000")
    empty = tmp_path / "empty"
    empty.mkdir()
    folders = [*(str(store.folder) for store in stores), str(empty)]
    code, out, error = invoke(capsys, "--all", *folders)
    assert (code, error) == (0, ""), out
    heading, first, second, third = [line.split() for line in out.splitlines()]
    assert heading == ["DATA", "RUN", "STATE", "DONE", "READY", "FAILED", "PAGES/S", "ROWS", "END", "ALARMS"]
    assert first[:7] == [folders[0], ids[0], "SUPERVISOR", "LOST", "1", "1", "1"]
    assert first[8:11] == ["3", "no", "supervisor"]
    assert second[:3] == [folders[1], ids[1], "CANCELLED"]
    assert second[8].startswith("2023-11-1")
    assert third == [folders[2], "-", "no", "run", "yet"]


def test_a_living_crawl_shows_its_speed_and_estimate(
    store: StoreHarness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl(store)
    with store.db.transaction():
        runs.add_time(store.db, store.run, 1.0, Judgement(12.5, 3.0), Eta(192.0, "a:80", exact=True))
    monkeypatch.setattr(client, "supervisor_pid", lambda _: os.getpid())
    (line,) = [orjson.loads(line) for line in invoke(capsys, "--all", str(store.folder), "--json")[1].splitlines()]
    assert (line["supervisor"], line["pages_per_s"], line["ended"]) == ({"pid": os.getpid()}, 12.5, None)
    assert line["eta"]["bound_by"] == "a:80"
    assert "  12.5  " in (text := invoke(capsys, "--all", str(store.folder))[1])
    assert "  ETA 3:1" in text


def test_hosts_with_the_same_content_signal_share_a_line(
    store: StoreHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    store.seed(*[f"http://h{number}/" for number in range(7)])
    with store.db.transaction():
        for host in range(1, 7):
            signal = {"search": "yes", "ai-train": "no"} if host < 6 else {"ai-input": "no"}
            hosts.set_robots(store.db, host, 200, "", 0.0, fetched_at=1.0, content_signal=signal)
    out = invoke(capsys, "--data", str(store.folder))[1]
    lines = [line for line in out.splitlines() if "Content-Signal" in line]
    assert lines == [
        "  Content-Signal search=yes, ai-train=no: h0:80, h1:80, h2:80, h3:80 and 1 more",
        "  Content-Signal ai-input=no: h5:80",
    ]
    (shown,) = [orjson.loads(line) for line in invoke(capsys, "--json", "--data", str(store.folder))[1].splitlines()]
    signals = [host["content_signal"] for host in shown["hosts"]]
    assert signals == [{"search": "yes", "ai-train": "no"}] * 5 + [{"ai-input": "no"}, {}]


def damage(folder: Path) -> Path:
    folder.mkdir()
    (folder / "crawl.db").write_bytes(b"not a database")
    return folder


def test_a_bad_data_dir_is_a_line_with_its_error(
    store: StoreHarness, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = crawl(store)
    file = tmp_path / "file"
    file.touch()
    other = tmp_path / "other"
    other.mkdir()
    (other / "crawl.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    bad = [damage(tmp_path / "bad"), tmp_path / "nothing", file, other]
    folders = [*map(str, bad), str(store.folder)]
    code, out, _ = invoke(capsys, "--all", *folders)
    assert code == 3
    lines = out.splitlines()
    texts = ("damaged", "no such directory", "a file, not a folder", "of another program")
    for line, text in zip(lines[1:-1], texts, strict=True):
        assert " error: " in line
        assert text in line
    assert lines[-1].split()[1] == run, "the others are shown"
    code, out, _ = invoke(capsys, "--all", *folders, "--json")
    shown: list[dict[str, Any]] = [orjson.loads(line) for line in out.splitlines()]
    assert code == 3
    assert [bool(line["error"]) for line in shown] == [True] * 4 + [False]
    assert {tuple(line) for line in shown} == {tuple(shown[0])}, "every line has the same keys"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--all",), "status --all: which data directories?"),
        (("data",), "status data: no such argument\n  Write --data DIR, or --all DIR… for several."),
        (("--all", "x", "--data", "y"), "status: --all excludes --run and --data"),
        (("--all", "x", "--run", "y"), "status: --all excludes --run and --data"),
        (("--all", ""), "the path is empty"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    code, out, error = invoke(capsys, *words)
    assert (code, out) == (2, "")
    assert message in error


def test_machines_that_share_the_database_are_shown(store: StoreHarness, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", str(store.folder))
    crawl(store)
    assert orjson.loads(invoke(capsys, "--json", *data)[1])["machines"] == []
    with store.db.transaction():
        supervisors.end(store.db, store.supervisor, 0.0)
        leader, other = (
            machines.join(store.db, identity=f"boot:{number}:1", host="web", program="1", now=0.0) for number in (7, 8)
        )
        machines.set_role(store.db, leader, "LEADER", store.run)
        machines.set_role(store.db, other, "STANDBY")
        machines.set_leader(store.db, leader)
        store.db.execute("UPDATE nodes SET supervisor = ?, done = 12", (leader,))
    shown = orjson.loads(invoke(capsys, "--json", *data)[1])
    assert shown["supervisor"] == {"pid": 7}
    assert [{**machine, "heart": machine["heart"] < 5} for machine in shown["machines"]] == [
        {"name": "web", "leader": True, "role": "LEADER", "heart": True, "nodes": 1, "done": 12},
        {"name": f"web-{other}", "leader": False, "role": "STANDBY", "heart": True, "nodes": 0, "done": 0},
    ]
    text = invoke(capsys, *data)[1]
    assert "  machine web leads\n" in text
    assert re.search(rf"\n  machine web-{other}  STANDBY  beat [\d.]+ s ago  0 nodes  0 done\n", text)
    assert re.search(r"\n  database answers in \d+ ms\n", text)
    store.db.execute("UPDATE supervisors SET beat_at = beat_at - 9 WHERE epoch = ?", (leader,))
    assert "  no supervisor\n" in invoke(capsys, *data)[1], "its beats decide, not a process of this machine"
