"""Command rows: whatever a row holds, it is carried out or refused with an answer; the supervisor continues."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_engine.model.node import NodeRange
from crawl_engine.processes.spawner import Spawner
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.run import runs, supervisors
from crawl_engine.store.transactions.retry import retry_message
from crawl_engine.supervise.commands import COMMAND_NAMES, CommandHandlers
from crawl_engine.supervise.nodes.appender_process import AppenderProcess
from crawl_engine.supervise.nodes.node_pool import NodePool
from crawl_engine.supervise.reload.defs_sync import DefsSync
from crawl_engine.supervise.reload.stale_page_scan import ReextractionPlanner
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.stages import ExitReason


class ScaledPool(NodePool):
    """A pool that records its size and starts no process."""

    def scale(self, nodes: NodeRange) -> tuple[int, int]:
        assert 1 <= nodes.least <= nodes.most <= 256
        return nodes.least, 0


class Control:
    """What commands use of a supervisor; counts what they order."""

    exit_reason: ExitReason | None = None

    def __init__(self) -> None:
        self.orders: list[str] = []

    def stop(self, exit_reason: ExitReason, reason: str | None = None) -> None:
        self.orders.append(f"{exit_reason} {reason}")

    def request_kill(self, reason: str) -> None:
        self.orders.append(reason)


class Console:
    """Writes command rows of any content, and lets the handlers carry them out."""

    def __init__(self, folder: Path) -> None:
        open_databases(folder).close()
        self.db = connect(folder / CRAWL)
        with self.db.transaction():
            run = runs.create(self.db, None, 0.0)
            self.run = run.seq
            self.epoch = supervisors.begin(self.db, "", self.run, 0.0)
        options, spawner = Settings(grace=1.0), Spawner(folder, [])
        context = RunContext(self.db, folder, run, options, self.epoch)
        pool = ScaledPool(context, lambda _: None, AppenderProcess(context, spawner), spawner)
        defs_sync = DefsSync(
            run=context, ring=lambda _: None, reloader=None, planner=ReextractionPlanner(context), extract_only=False,
            notices=[],
        )  # fmt: skip
        self.handlers = CommandHandlers(context, pool, defs_sync)

    def send(self, name: object, arguments: object) -> tuple[str, str, list[str]]:
        """State and answer of a row with these columns, and what it ordered."""
        control = Control()
        with self.db.transaction():
            id_ = self.db.value(
                "INSERT INTO commands (supervisor, name, arguments, given_at) VALUES (?, ?, ?, 0) RETURNING id",
                (self.epoch, name, arguments),
            )
        self.handlers.handle_new(control)
        state, answer = self.db.all("SELECT state, answer FROM commands WHERE id = ?", (id_,))[0]
        return state, answer, control.orders


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    console = Console(tmp_path)
    yield console
    console.db.close()


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("scale", "not json", "not a JSON object"),
        ("scale", '{"n": "x"}', "unknown argument 'n'"),
        ("scale", "{}", "lacks the argument count"),
        ("scale", '{"count": "2"}', "count must be a whole number"),
        ("scale", '{"count": true}', "count must be a whole number"),
        ("scale", '{"count": 2.0}', "count must be a whole number"),
        ("scale", '{"count": 99999999999999999999999}', "whole number"),
        ("scale", '{"count": 18446744073709551615}', "between 1 and 256"),
        ("scale", '{"count": -1}', "between 1 and 256"),
        ("scale", '{"count": 1, "most": 257}', "1-257 nodes: the count must be between 1 and 256"),
        ("scale", '{"count": 4, "most": 1}', "the least is above the most; write 1-4"),
        ("scale", '{"count": 1, "most": "4"}', "most must be a whole number"),
        ("host", '{"host": "a", "delay": 1e18}', "between 0 and 86,400 seconds"),
        ("host", '{"host": "a", "delay": -0.5}', "between 0 and 86,400 seconds"),
        ("host", '{"host": "a", "concurrency": 5000000}', "between 1 and 1,000"),
        ("host", '{"host": "a", "concurrency": 0}', "between 1 and 1,000"),
        ("drain", "[]", "not a JSON object"),
        ("drain", "{}", "lacks the argument node"),
        ("drain", '{"node": ["n1"]}', "node must be text"),
        ("restart", "null", "not a JSON object"),
        ("kill", '{"Node": "n1"}', "unknown argument 'Node'"),
        ("kill", '{"node": null}', "node must be text"),
        ("pause", '{"sequence": 1e400}', "not a JSON object"),
        ("pause", '{"sequence": 7}', "sequence must be text"),
        ("resume", '{"sequence": "' + "x" * 20_000 + '"}', "longer than 10,000 bytes"),
        ("cancel", '{"now": true}', "unknown argument 'now'"),
        ("cancel", "[" * 5_000, "not a JSON object"),
        ("cancel", b"\xff\xfe", "not a JSON object"),
        ("scale", 7, "not a JSON object"),
        ("explode", "{}", "unknown command 'explode'"),
        (b"\xff\x00", "{}", "unknown command"),
        ("", "{}", "unknown command ''"),
    ],
)
def test_a_malformed_row_is_refused_with_the_reason(
    console: Console, name: object, arguments: object, answer: str
) -> None:
    state, text, orders = console.send(name, arguments)
    assert state == "REFUSED"
    assert answer in text
    assert not orders


def test_a_valid_row_is_carried_out(console: Console) -> None:
    assert console.send("scale", '{"count": 3}') == ("DONE", "3 runners: 3 started, 0 retired", [])
    assert console.send("scale", '{"count": 1, "most": 4}') == ("DONE", "1-4 runners: 1 started, 0 retired", [])
    assert console.send("pause", "{}")[0] == "DONE"
    assert console.send("kill", "{}") == ("DONE", "the run is killed", ["killed by command"])
    assert console.send("drain", '{"node": "n9"}')[:2] == ("REFUSED", "no node 'n9'; running: none")


def test_one_is_said_as_one(console: Console) -> None:
    assert console.send("scale", '{"count": 1}')[1] == "1 runner: 1 started, 0 retired"
    assert console.send("cancel", "{}")[1] == "cancelling; 0 jobs in flight have 1 s to finish"
    assert retry_message(1) == "1 job is READY again"
    assert retry_message(12_000) == "12,000 jobs are READY again"


def test_many_rows_are_handled_over_several_ticks(console: Console) -> None:
    rows = [(console.epoch, "scale", "junk", 0)] * 250
    with console.db.transaction():
        console.db.execute_values("INSERT INTO commands (supervisor, name, arguments, given_at) {values}", rows)
    pending = []
    for _ in range(3):
        console.handlers.handle_new(Control())
        pending.append(console.db.value("SELECT count(*) FROM commands WHERE state = 'NEW'"))
    assert pending == [150, 50, 0]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from(["node", "count", "sequence", "n"]) | st.text(max_size=4)
_ARGUMENTS: st.SearchStrategy[Any] = (
    st.dictionaries(_KEYS, _JSON, max_size=3).map(json.dumps)
    | _JSON.map(json.dumps)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.binary(max_size=20)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
)
_NAMES: st.SearchStrategy[Any] = st.sampled_from(COMMAND_NAMES) | st.binary(max_size=6) | st.integers(0, 9)


@given(name=_NAMES, arguments=_ARGUMENTS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_row_ends_the_supervisor(console: Console, name: Any, arguments: Any) -> None:
    state, answer, orders = console.send(name, arguments)
    assert state in ("DONE", "REFUSED")
    assert answer
    assert len(answer) < 400
    if orders:
        assert name in ("cancel", "kill")
        assert json.loads(arguments) == {}, "nothing is stopped by mistake"


@pytest.mark.sqlite
def test_text_that_is_not_utf8_is_refused(console: Console) -> None:
    assert console.db.value("SELECT typeof(CAST(x'ff41' AS TEXT))") == "text"
    with console.db.transaction():
        console.db.execute(
            "INSERT INTO commands (supervisor, name, arguments, given_at)"
            " VALUES (?, CAST(x'ff41' AS TEXT), CAST(x'7bff7d' AS TEXT), 0)",
            (console.epoch,),
        )
    console.handlers.handle_new(Control())
    assert console.db.all("SELECT state FROM commands") == [("REFUSED",)]
    with pytest.raises(sqlite3.Error):
        sqlite3.connect(":memory:").execute("SELECT CAST(x'ff41' AS TEXT)").fetchall()
