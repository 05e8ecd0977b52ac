"""`status` shows the alarms that the supervisor stored, and what was acknowledged."""

import json
import os

import pytest

from crawl_console.cli.main import main
from crawl_console.client import acknowledge
from crawl_console.format import describe_eta
from crawl_engine.model.run import Alarm, Eta
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness

SILENT = Alarm("host-silent", "a:80 is silent: no answer for 24 s (deadline 30 s)", "bad", host="a:80", since=5.0)


def status(store: StoreHarness, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    with pytest.raises(SystemExit):
        main(["status", "--data", str(store.folder), *options])
    return capsys.readouterr().out


def test_alarms_stand_in_status_until_their_supervisor_ends(
    store: StoreHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    with store.db.transaction():
        store.db.execute("UPDATE supervisors SET identity = ?", (identity_of(os.getpid()),))
        runs.set_alarms(store.db, store.run, [SILENT])
    assert status(store, capsys).splitlines()[0] == f"ALARM: {SILENT.text}"
    acknowledge(store.folder, [SILENT.key])
    assert json.loads(status(store, capsys, "--json"))["alarms"] == [
        {
            "code": "host-silent", "text": SILENT.text, "host": "a:80", "data_def": None, "field": None, "since": 5.0,
            "acknowledged": True,
        }
    ]  # fmt: skip
    acknowledge(store.folder, [], [SILENT.key])
    assert not json.loads(status(store, capsys, "--json"))["alarms"][0]["acknowledged"]
    with store.db.transaction():
        store.db.execute("UPDATE supervisors SET identity = 'boot:1:1'")
    [lost] = json.loads(status(store, capsys, "--json"))["alarms"]
    assert lost["code"] == "supervisor-lost"
    assert status(store, capsys).startswith("ALARM: the supervisor is gone: `crawl-console run` resumes the run")


def test_an_estimate_that_nobody_can_give_says_why() -> None:
    assert describe_eta(Eta(None, "a:80", False, "a:80 silent 24 s")) == "cannot say: a:80 silent 24 s"
    assert describe_eta(Eta(None, "paused", False, "operator")) == "paused"
    assert describe_eta(Eta()) == "-"
