"""docs/commands.md against the code: commands, options, exit codes, keys of JSON objects, states."""

import re

import click
import orjson
import pytest

from console.cli.commands.check import problem_as_dict as told_of
from console.cli.commands.listing import job_as_dict
from console.cli.commands.status import status_as_dict
from console.cli.main import crawl_console
from console.cli.steering import CONTROL_COMMANDS
from console.filter_syntax import EVENT_KEYS, JOB_KEYS, JOB_NUMERIC_KEYS
from engine.errors import Problem
from engine.model.job import JobState
from engine.model.node import HeartbeatState, NodeState, Role
from engine.model.run import RunState, Stage
from engine.store.read import snapshot
from engine.store.read.browse import JobLine
from engine.store.read.snapshot import EMPTY_SNAPSHOT
from engine.store.tables.checkpoints import Checkpoint, to_state_record
from engine.store.tables.events import Event
from engine.store.tables.metrics import GroupTotals, build_metrics

from .doc_pages import (
    COMMANDS,
    PAGES,
    ROOT,
    first_column,
    quoted,
    section,
    table,
)


def options(command):
    return {name for option in command.params if isinstance(option, click.Option) for name in option.opts}


SHARED = {"--data", "--set"}


COMMAND_NAMES = sorted(crawl_console.commands)


TITLES = {command.name: "Steering a run" for command in CONTROL_COMMANDS}


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_a_command_and_each_of_its_options_are_documented(name):
    assert any(entry.startswith(f"`{name}`") or f"[`{name}`]" in entry for entry, *_ in table(COMMANDS))
    command = crawl_console.commands[name]
    title = TITLES.get(name, name)
    told = {flag for row in table(section(COMMANDS, title)) for flag in re.findall(r"^`(-[\w-]+)", row[0])}
    assert options(command) >= SHARED
    assert told == options(command) - SHARED


def test_what_all_commands_take_is_documented():
    told = {flag for row in table(COMMANDS) for flag in re.findall(r"^`(-[\w-]+)", row[0])}
    assert told >= SHARED
    assert {"--version", "--help", "-h"} <= set(re.findall(r"`(?:crawl-console )?(-[\w-]+)`", COMMANDS))


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_the_default_of_an_option_is_documented(name):
    title = TITLES.get(name, name)
    rows = {re.split(r"[` ]", row[0])[1]: row for row in table(section(COMMANDS, title))}
    for option in crawl_console.commands[name].params:
        told = [rows[flag] for flag in option.opts if flag in rows]
        shown = getattr(option, "show_default", False) or isinstance(option.default, (int, float))
        if told and shown and option.default is not None and not option.is_flag:
            default = f"{option.default:g}" if isinstance(option.default, float) else str(option.default)
            assert told[0][1].strip("`") == default


USERS = [page for page in PAGES if page.name != "performance.md" and page.parent.name != "decisions"]
"""What users read to run it; the others may name flags of other tools."""


@pytest.mark.parametrize("page", USERS, ids=lambda page: page.name)
def test_every_flag_that_is_named_exists(page):
    known = {"--version", "--help", "-h", "--list"}.union(*map(options, crawl_console.commands.values()))
    text = page.read_text("utf-8")
    lines = [line for line in text.splitlines() if not re.search(r"\b(pip|pytest|ruff|venv|just kills)\b", line)]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", "\n".join(lines)))
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_named_exists(page):
    named = re.findall(r"crawl-console ([a-z]+)\b", page.read_text("utf-8"))
    inline = [name for name in named if name not in COMMAND_NAMES]
    prose_words = {"supervises"}  # "`crawl-console` supervises": a verb, no command
    assert set(inline) - prose_words == set()


def test_arguments_are_documented():
    for name, metavar in (("check", "DEFS"), ("export", "DATADEF"), ("kill", "NODE")):
        assert [p.name for p in crawl_console.commands[name].params if isinstance(p, click.Argument)]
        assert f"`[{metavar}]`" in COMMANDS


def test_exit_codes_are_documented():
    codes = {row[0] for row in table(section(COMMANDS, "Exit codes"))}
    assert codes == {"0", "1", "2", "3", "4", "130", "137", "143"}


def test_the_keys_of_the_summary_are_documented():
    assert first_column(COMMANDS.split("## The summary")[1].split("###")[0]) == set(
        snapshot.build_report(EMPTY_SNAPSHOT, exit_code=0)
    )


def test_the_keys_status_adds_are_documented():
    added = set(status_as_dict(EMPTY_SNAPSHOT)) - set(snapshot.build_report(EMPTY_SNAPSHOT, exit_code=None))
    assert first_column(COMMANDS.split("## The snapshot")[1].split("###")[0]) == added


def literal_keys(function):
    """The keys of the objects a function of the snapshot makes, from its source: no run is needed to know them."""
    source = (ROOT / "engine/store/read/snapshot.py").read_text("utf-8")
    body = re.search(rf"^def {function}\(.*?(?=^def |\Z)", source, re.MULTILINE | re.DOTALL)
    assert body
    return set(re.findall(r'"([a-z_]+)":', body.group()))


@pytest.mark.parametrize(
    ("title", "function"), [("Outputs", "_appender_items"), ("Nodes", "_node_items"), ("Hosts", "_host_item")]
)
def test_the_keys_of_inner_objects_are_documented(title, function):
    assert first_column(section(COMMANDS, title)) == literal_keys(function)


def test_the_keys_of_sequences_are_documented():
    (row,) = [row for row in table(COMMANDS) if row[0] == "`sequences`"]
    assert set(re.findall(r"`([a-z_]+)`", row[1])) == literal_keys("_sequence_item")


def test_the_keys_of_metrics_are_documented():
    told = {row[0].strip("`"): row for row in table(section(COMMANDS, "Metrics"))}
    found = build_metrics([GroupTotals("g", 0, 0, 0, 0, 0)], [], {"n1": 1}, 1.0, 0)
    assert set(told) == set(found)
    for name in ("groups", "shares"):
        assert set(re.findall(r"`([a-z_]+)`", told[name][1])) == set(found[name][0])


def test_the_keys_of_a_checkpoint_are_documented():
    found = to_state_record(Checkpoint(step="loader", group="g", content_hash=""), "run")
    told = {row[0].strip("`") for row in table(section(COMMANDS, "state"))} - {"--json"}
    assert told == set(found)


def test_the_keys_of_a_job_are_documented():
    line = JobLine(1, "page", "DONE", "", "", "http://a/", None, 0, 0, None, 0, 0, None, None, None, "link")
    assert first_column(section(COMMANDS, "A job")) == set(job_as_dict(line))


def test_the_keys_of_an_event_are_documented():
    (row,) = [row for row in table(section(COMMANDS, "events")) if row[0] == "`--json`"]
    assert {"id", *Event._fields} <= set(quoted(row[1]))


def test_the_keys_of_filters_are_documented():
    told = section(COMMANDS, "Filters")
    for key in (*JOB_KEYS, *EVENT_KEYS):
        assert f"{key}:" in told
    for number in JOB_NUMERIC_KEYS:
        assert re.search(rf"`{number}\W", told)


def test_the_keys_of_a_problem_are_documented():
    (row,) = [row for row in table(section(COMMANDS, "check")) if row[0] == "`--json`"]
    problem = Problem(file="", line=1, column=1, code="", message="")
    assert set(re.findall(r'"([a-z]+)"', row[1])) == {"ok", "problems", *told_of(problem)}


def test_the_snapshot_without_a_run_is_what_the_page_says():
    told = orjson.loads(orjson.dumps(status_as_dict(EMPTY_SNAPSHOT)))
    assert told["state"] is None
    assert told["supervisor"] is None
    assert told["hosts"] == told["sequences"] == told["nodes"] == told["defs_problems"] == []


@pytest.mark.parametrize(
    "words", [RunState, Stage, NodeState, Role, HeartbeatState, JobState], ids=lambda e: e.__name__
)
def test_every_state_is_documented(words):
    assert {str(word) for word in words} - set(re.findall(r"\b[A-Z_]+\b", COMMANDS)) == set()
