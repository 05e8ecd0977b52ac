"""docs/commands.md against the code: commands, options, exit codes, keys of JSON objects, states."""

import re

import click
import orjson
import pytest
from msgspec.structs import fields, replace

from crawl_console.cli.commands.defs.check import problem_as_dict
from crawl_console.cli.main import crawl_console
from crawl_console.client import job_as_dict
from crawl_console.crawl import status
from crawl_console.crawl.status import status_as_dict
from crawl_console.filter_syntax import EVENT_KEYS, JOB_KEYS, JOB_NUMERIC_KEYS
from crawl_engine.errors import Problem
from crawl_engine.judge import summary
from crawl_engine.model.job import JobState
from crawl_engine.model.node import HeartbeatState, NodeState, Role
from crawl_engine.model.run import RunState, Stage
from crawl_engine.store.read.browse import JobLine
from crawl_engine.store.read.host_rows import HostRow
from crawl_engine.store.read.snapshot import EMPTY_SNAPSHOT, NodeRow, OutputRow, SequenceRow
from crawl_engine.store.tables.run.checkpoints import Checkpoint, to_state_record
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.tables.run.metrics import GroupTotals, build_metrics
from crawl_engine.supervise.verification.output_check import OutputResult
from crawl_engine.supervise.verification.verifier import GroupResult

from .doc_pages import (
    COMMANDS,
    PAGES,
    first_column,
    quoted,
    section,
    table,
)


def options(command):
    return {name for option in command.params if isinstance(option, click.Option) for name in option.opts}


SHARED = {"--data", "--set"}


CONTEXT = click.Context(crawl_console)
COMMAND_NAMES = crawl_console.list_commands(CONTEXT)
CLI = {name: crawl_console.get_command(CONTEXT, name) for name in COMMAND_NAMES}
CONTROL = ("cancel", "kill", "drain", "restart", "scale", "pause", "resume", "stop", "reload")


TITLES = dict.fromkeys(CONTROL, "Controlling a run")


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_a_command_and_each_of_its_options_are_documented(name):
    assert any(entry.startswith(f"`{name}`") or f"[`{name}`]" in entry for entry, *_ in table(COMMANDS))
    command = CLI[name]
    title = TITLES.get(name, name)
    documented = {flag for row in table(section(COMMANDS, title)) for flag in re.findall(r"^`(-[\w-]+)", row[0])}
    assert options(command) >= SHARED
    assert documented == options(command) - SHARED


def test_shared_options_are_documented():
    documented = {flag for row in table(COMMANDS) for flag in re.findall(r"^`(-[\w-]+)", row[0])}
    assert documented >= SHARED
    assert {"--version", "--help", "-h"} <= set(re.findall(r"`(?:crawl-console )?(-[\w-]+)`", COMMANDS))


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_the_default_of_an_option_is_documented(name):
    title = TITLES.get(name, name)
    rows = {re.split(r"[` ]", row[0])[1]: row for row in table(section(COMMANDS, title))}
    for option in CLI[name].params:
        matching = [rows[flag] for flag in option.opts if flag in rows]
        shown = getattr(option, "show_default", False) or isinstance(option.default, (int, float))
        if matching and shown and option.default is not None and not option.is_flag:
            default = f"{option.default:g}" if isinstance(option.default, float) else str(option.default)
            assert matching[0][1].strip("`") == default


USERS = [page for page in PAGES if page.name != "performance.md" and page.parent.name != "decisions"]
"""Pages for users; the others may mention flags of other tools."""


@pytest.mark.parametrize("page", USERS, ids=lambda page: page.name)
def test_every_flag_mentioned_exists(page):
    existing = {"--version", "--help", "-h", "--list"}.union(*map(options, CLI.values()))
    text = page.read_text("utf-8")
    others = r"\b(pip|pytest|ruff|venv|curl|just kills|just hostile)\b"
    lines = [line for line in text.splitlines() if not re.search(others, line)]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", "\n".join(lines)))
    assert named - existing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_mentioned_exists(page):
    named = re.findall(r"crawl-console ([a-z]+)\b", page.read_text("utf-8"))
    inline = [name for name in named if name not in COMMAND_NAMES]
    prose_words = {"supervises"}  # "`crawl-console` supervises": a verb, no command
    assert set(inline) - prose_words == set()


def test_arguments_are_documented():
    for name, metavar in (("check", "DEFS"), ("export", "DATADEF"), ("kill", "NODE")):
        assert [p.name for p in CLI[name].params if isinstance(p, click.Argument)]
        assert f"`[{metavar}]`" in COMMANDS


def test_exit_codes_are_documented():
    codes = {row[0] for row in table(section(COMMANDS, "Exit codes"))}
    assert codes == {"0", "1", "2", "3", "4", "130", "137", "143"}


def test_the_keys_of_the_summary_are_documented():
    assert first_column(COMMANDS.split("## The summary")[1].split("###")[0]) == set(
        summary.build_report(EMPTY_SNAPSHOT, exit_code=0)
    )


def test_the_additional_keys_of_status_are_documented():
    added = set(status_as_dict(EMPTY_SNAPSHOT)) - set(summary.build_report(EMPTY_SNAPSHOT, exit_code=None))
    assert first_column(COMMANDS.split("## The snapshot")[1].split("###")[0]) == added


def json_keys(row_type):
    """The keys of a row's JSON object: the fields of its class."""
    return {column.name for column in fields(row_type)}


@pytest.mark.parametrize(("title", "row_type"), [("Outputs", OutputRow), ("Nodes", NodeRow), ("Hosts", HostRow)])
def test_the_keys_of_inner_objects_are_documented(title, row_type):
    assert first_column(section(COMMANDS, title)) == json_keys(row_type)


def test_the_keys_of_sequences_are_documented():
    (row,) = [row for row in table(COMMANDS) if row[0] == "`sequences`"]
    assert set(re.findall(r"`([a-z_]+)`", row[1])) == json_keys(SequenceRow)


def test_rows_are_printed_with_every_field(monkeypatch):
    types = {"appenders": OutputRow, "nodes": NodeRow, "hosts": HostRow, "sequences": SequenceRow}
    rows = {name: [row_type(*range(len(fields(row_type))))] for name, row_type in types.items()}
    monkeypatch.setattr(status, "build_report", lambda *_, **__: {})
    printed = status_as_dict(replace(EMPTY_SNAPSHOT, **rows))
    for name, row_type in types.items():
        (row,) = printed[name]
        assert set(row) == json_keys(row_type)


def test_the_keys_of_metrics_are_documented():
    documented = {row[0].strip("`"): row for row in table(section(COMMANDS, "Metrics"))}
    metrics = build_metrics([GroupTotals("g", 0, 0, 0, 0, 0)], [], {"n1": 1}, 1.0, 0)
    assert set(documented) == set(metrics)
    for name in ("groups", "shares"):
        assert set(re.findall(r"`([a-z_]+)`", documented[name][1])) == set(metrics[name][0])


def test_the_keys_of_a_checkpoint_are_documented():
    record = to_state_record(Checkpoint(step="loader", group="g", content_hash=""), "run")
    documented = {row[0].strip("`") for row in table(section(COMMANDS, "state").split("###")[0])}
    assert documented - {"--verify", "--json", "--run RUN"} == set(record)


def test_the_keys_of_a_verification_are_documented():
    documented = {row[0].strip("`"): row for row in table(section(COMMANDS, "Verifying"))}
    output = OutputResult(path="", data_def="", status="valid")
    assert set(documented) == {"run", "valid", "commands", "groups", "outputs", "files"}
    for name, keys in (("groups", GroupResult(group="", status="valid").as_dict()), ("outputs", output.as_dict())):
        assert set(keys) <= set(re.findall(r"`([a-z_]+)`", documented[name][1]))


def test_the_keys_of_a_job_are_documented():
    line = JobLine(1, "page", "DONE", "", "", "http://a/", None, 0, 0, None, 0, 0, None, None, None, "link")
    assert first_column(section(COMMANDS, "A job")) == set(job_as_dict(line))


def test_the_keys_of_an_event_are_documented():
    (row,) = [row for row in table(section(COMMANDS, "events")) if row[0] == "`--json`"]
    assert {"id", *Event.__struct_fields__} <= set(quoted(row[1]))


def test_the_keys_of_filters_are_documented():
    documented = section(COMMANDS, "Filters")
    for key in (*JOB_KEYS, *EVENT_KEYS):
        assert f"{key}:" in documented
    for number in JOB_NUMERIC_KEYS:
        assert re.search(rf"`{number}\W", documented)


def test_the_keys_of_a_problem_are_documented():
    (row,) = [row for row in table(section(COMMANDS, "check")) if row[0] == "`--json`"]
    problem = Problem(file="", line=1, column=1, code="", message="")
    assert set(re.findall(r'"([a-z]+)"', row[1])) == {"ok", "problems", *problem_as_dict(problem)}


def test_the_snapshot_without_a_run_is_as_documented():
    snapshot_object = orjson.loads(orjson.dumps(status_as_dict(EMPTY_SNAPSHOT)))
    assert snapshot_object["state"] is None
    assert snapshot_object["supervisor"] is None
    for name in ("hosts", "sequences", "nodes", "defs_problems"):
        assert snapshot_object[name] == []


@pytest.mark.parametrize(
    "words", [RunState, Stage, NodeState, Role, HeartbeatState, JobState], ids=lambda e: e.__name__
)
def test_every_state_is_documented(words):
    assert {str(word) for word in words} - set(re.findall(r"\b[A-Z_]+\b", COMMANDS)) == set()
