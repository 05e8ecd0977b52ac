"""A run in nine situations is called the same, in the same colour, wherever it is shown."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from crawl_console.cli.main import main
from crawl_console.cli.progress import Progress
from crawl_console.crawl.source import DataSource, PollResult, poll
from crawl_console.notify.message import EndedRun, describe_end
from crawl_console.tui.screens.runs import RunsTable
from crawl_console.tui.screens.summary import SummaryPane
from crawl_console.tui.widgets.header import Header
from crawl_console.words.crawl_table import crawl_row
from crawl_console.words.node_table import node_rows
from crawl_console.words.run_table import run_row
from crawl_engine.judge.summary import read_summary
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.read.history import list_runs, read_report
from tests.contract.console.run_situations import SITUATIONS, Situation, bring_about
from tests.contract.store.harness import StoreHarness


@pytest.fixture(params=SITUATIONS)
def situation(request: pytest.FixtureRequest) -> Situation:
    return SITUATIONS[request.param]


@pytest.fixture
def folder(situation: Situation, new_store: Callable[..., StoreHarness], tmp_path: Path) -> Path:
    return bring_about(situation, new_store(), tmp_path / "empty")


@pytest.fixture
def read(folder: Path) -> Iterator[PollResult]:
    source = DataSource(folder)
    yield poll(source, 50)
    source.close()


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], folder: Path) -> Callable[..., str]:
    """Runs a command, `DIR` in place of the data dir; returns what it printed."""

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([str(folder) if word == "DIR" else word for word in words])
        assert not ended.value.code
        return capsys.readouterr().out

    return run


def verdict(situation: Situation) -> dict[str, str]:
    return {"word": situation.word, "level": situation.level, "text": situation.text}


def test_status_and_runs_say_it(situation: Situation, say: Callable[..., str]) -> None:
    assert situation.text in say("status", "--data", "DIR")
    assert situation.word in say("status", "--all", "DIR").splitlines()[1]
    assert situation.word in say("runs", "--data", "DIR")
    assert situation.text in say("runs", "show", "--data", "DIR")


def test_json_has_it(situation: Situation, say: Callable[..., str]) -> None:
    answers: list[Any] = [
        orjson.loads(say(*words))
        for words in (
            ("status", "--json", "--data", "DIR"), ("status", "--all", "DIR", "--json"),
            ("runs", "show", "--json", "--data", "DIR"),
        )
    ]  # fmt: skip
    answers += orjson.loads(say("runs", "--json", "--data", "DIR"))["runs"]
    assert [answer["verdict"] for answer in answers] == [verdict(situation)] * (3 if situation.state is None else 4)
    assert {answer["state"] for answer in answers} == {situation.state}


def test_the_terminal_shows_it(situation: Situation, read: PollResult) -> None:
    header = Header()
    header.last_poll = read
    lines = header.paint(160, 3)
    assert any(situation.word in text and role in (situation.level, "dim") for text, role in lines[0].spans)
    if situation.exit_code is not None:
        ends = [role for text, role in lines[2].spans if text == f" {situation.text} "]
        assert ends == [situation.level] * (situation.text != situation.word), "the word alone is not said twice"
        assert lines[1].spans[0][1] == situation.level, "the bar"
        pane = SummaryPane("")
        pane.update_from(read)
        assert situation.word in pane.heading
        assert (situation.text, situation.level) in pane.lines
    if situation.state is not None:
        row = crawl_row("shop", Path(), read, 0, None, "")
        assert row.cells[1] == (situation.word, situation.level)


def test_the_screen_of_runs_shows_it(situation: Situation, read: PollResult, folder: Path) -> None:
    if situation.state is None:
        return
    with closing(DataSource(folder)) as source:
        (past,) = list_runs(source.db)
        row = run_row(read_report(source.db, past), is_live=read.is_live)
    titles = [column.title for column in RunsTable.COLUMNS]
    assert row.cells[titles.index("STATE")] == (situation.word, situation.level)
    assert RunsTable.COLUMNS[titles.index("STATE")].width >= len(situation.word)


async def test_the_web_shows_it(situation: Situation, folder: Path) -> None:
    pytest.importorskip("prometheus_client", reason="the extra serve is missing")
    from crawl_console.web.access import Access
    from crawl_console.web.app import create_app
    from crawl_console.web.watch import Crawls, Watch

    token = "a-token-of-the-tests"
    watch = Watch("shop", folder)
    app = create_app(Crawls({"shop": watch}), Access(lambda: token, 80))
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers
        ) as client:
            texts = {path: (await client.get(path)).text for path in ("/", "/crawl", "/crawl/runs", "/crawl/jobs")}
            health, status = await client.get("/health"), (await client.get("/status.json")).json()
            metrics = (await client.get("/metrics")).text
    finally:
        watch.close()
    assert status["verdict"] == verdict(situation)
    for path, text in texts.items():
        assert situation.word in text, path
        if situation.state is not None:
            assert re.search(rf'class="[^"]*\b{situation.level}\b[^"]*"[^>]*>\s*{situation.word}<', text), path
        if situation.exit_code is not None and path != "/":
            end = f'<p id="end" class="lines"><span class="{situation.level}">{situation.text}</span></p>'
            assert (end in text) is (situation.text != situation.word)
            assert f'<rect class="part {situation.level}"' in text
    is_well = situation.level == "good" or situation.lives
    assert (health.status_code, health.text == "ok\n") == ((200, True) if is_well else (503, False))
    assert (f'crawl_last_exit_code{{crawl="shop"}} {situation.exit_code}.0' in metrics) == (
        situation.exit_code is not None
    )


def test_the_end_is_told_in_the_same_words(
    situation: Situation, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if situation.exit_code is None:
        return
    with closing(DataSource(folder)) as source:
        (past,) = list_runs(source.db)
        summary = orjson.loads(read_summary(source.db, past.seq, exit_code=situation.exit_code))
        Progress("plain", folder / CRAWL).finish(source.db, past.seq, situation.exit_code)
    message = describe_end("shop", past.id, EndedRun(exit_code=situation.exit_code, summary=summary), [])
    assert message.title == f"shop: {situation.text}"
    assert message.level == {"good": "success", "warn": "warning", "bad": "failure"}[situation.level]
    assert f"run {past.id} {situation.text}; " in capsys.readouterr().err


def test_nodes_of_an_ended_run_are_ended(situation: Situation, say: Callable[..., str], read: PollResult) -> None:
    if situation.exit_code is None:
        return
    text = say("status", "--data", "DIR")
    assert "APPARENT_DEATH" not in text
    assert "stopped    ended" in text
    assert [row.cells[1] for row in node_rows(read)] == [("□ stopped", "dim")]
