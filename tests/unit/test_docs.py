"""The documents against the code: commands, flags, settings, keys of the language, examples, links."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import click
import orjson
import pytest

from console.cli.commands.check import problem_as_dict as told_of
from console.cli.commands.listing import job_as_dict
from console.cli.commands.status import status_as_dict
from console.cli.main import crawl_console
from console.cli.steering import CONTROL_COMMANDS
from console.filter_syntax import EVENT_KEYS, JOB_KEYS, JOB_NUMERIC_KEYS
from engine import __version__
from engine.defs import language
from engine.defs.loader import load
from engine.defs.merge import SECTIONS
from engine.errors import Problem
from engine.model.job import JobState
from engine.model.node import HeartbeatState, NodeState, Role
from engine.model.run import RunState, Stage
from engine.model.variables import DOCUMENT_VARIABLES
from engine.settings import PROJECT_URL, Settings, resolve_settings
from engine.store.read import snapshot
from engine.store.read.browse import JobLine
from engine.store.read.snapshot import EMPTY_SNAPSHOT, HostRow, NodeRow, OutputRow, SequenceRow
from engine.store.tables.checkpoints import Checkpoint, to_state_record
from engine.store.tables.events import Event
from engine.store.tables.metrics import GroupTotals, build_metrics

ROOT = Path(__file__).resolve().parents[2]
README, DEFS, COMMANDS, SETTINGS = (
    (ROOT / name).read_text("utf-8") for name in ("README.md", "docs/defs.md", "docs/commands.md", "docs/settings.md")
)
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])

DEMO = "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt . && .venv/bin/crawl-console demo --no-ui"
TESTS = (
    "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e '.[dev]' "
    '&& PATH="$PWD/.venv/bin:$PATH" just'
)


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def prose(text):
    """The text without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def quoted(text):
    """All that stands in backticks."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def section(text, title):
    """What stands below a heading, to the next one of the same level or a higher one."""
    found = re.search(rf"^(#+) {re.escape(title)}\n", text, re.MULTILINE)
    assert found, f"no heading {title!r}"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found.group(1))}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(text):
    """The rows of the tables in a text, cells stripped; an escaped bar is part of its cell."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    return [row for number, row in enumerate(cells) if set("".join(row)) - set("-: ") and not is_heading(cells, number)]


def is_heading(rows, number):
    return number + 1 < len(rows) and not set("".join(rows[number + 1])) - set("-: ")


def first_column(text):
    return {name for row in table(text) for name in re.findall(r"`([^`]+)`", row[0])}


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


def json_keys(row_type):
    """The keys of a row's JSON object: the fields of its class."""
    return {column.name for column in fields(row_type)}


@pytest.mark.parametrize(("title", "row_type"), [("Outputs", OutputRow), ("Nodes", NodeRow), ("Hosts", HostRow)])
def test_the_keys_of_inner_objects_are_documented(title, row_type):
    assert first_column(section(COMMANDS, title)) == json_keys(row_type)


def test_the_keys_of_sequences_are_documented():
    (row,) = [row for row in table(COMMANDS) if row[0] == "`sequences`"]
    assert set(re.findall(r"`([a-z_]+)`", row[1])) == json_keys(SequenceRow)


def test_rows_are_printed_with_every_field():
    for row_type in (OutputRow, NodeRow, HostRow, SequenceRow):
        (printed,) = snapshot.rows_as_dicts([row_type(*fields(row_type))])
        assert set(printed) == json_keys(row_type)


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


def settings_rows():
    return {row[0].strip("`"): row for row in table(SETTINGS)}


def test_every_setting_is_documented_and_no_other():
    assert list(settings_rows()) == [field.name for field in fields(Settings)]


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: field.name)
def test_the_default_of_a_setting_is_documented(field):
    default = settings_rows()[field.name][1]
    if field.name == "nodes":
        assert default == "one a CPU, 2 to 4"
    elif field.name == "user_agent":
        assert default.strip("`").replace("VERSION", __version__).replace("URL", PROJECT_URL) == field.default
    elif field.default is None:
        assert default == "none"
    else:
        written = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
        assert default == f"`{written}`"


def test_the_flag_of_a_setting_is_documented_and_exists():
    own = {option.name: option.opts[0] for option in crawl_console.commands["run"].params if option.name}
    for name, row in settings_rows().items():
        assert row[3].strip("`") == own.get(name, "")


def test_the_example_of_settings_is_read_and_does_what_the_page_says(tmp_path):
    (toml,) = blocks(SETTINGS, "toml")
    (tmp_path / "crawl.toml").write_text(toml, "utf-8")
    found = {
        setting.name: (setting.value, setting.origin)
        for setting in resolve_settings(
            {"nodes": 4, "deadline": "60"}, environment={"CRAWL_DELAY": "1"}, folder=tmp_path
        )
    }
    assert found["nodes"] == (4, "flag")
    assert found["deadline"] == (60.0, "flag")
    assert found["delay"] == (1.0, "env CRAWL_DELAY")
    assert found["live"] == ("PT12H", "crawl.toml")
    assert found["grace"] == (25.0, "default")
    assert set(tomllib.loads(toml)) <= set(found)


YAML = [*blocks(README, "yaml"), *blocks(DEFS, "yaml")]


@pytest.mark.parametrize("number", range(len(YAML)))
def test_an_example_is_a_complete_set_of_defs(number, tmp_path):
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "shop.yml").write_text(YAML[number], "utf-8")
    (tmp_path / "defs" / "seeds.txt").write_text("https://shop.example/\n")
    loaded = load(tmp_path / "defs")
    assert loaded.warnings == ()
    assert loaded.definitions.locator_groups
    assert loaded.definitions.data_defs


def terms():
    """Every mapping of the language and its keys as written."""
    found = {}
    for value in vars(language).values():
        if isinstance(value, type) and issubclass(value, language.Term) and value is not language.Term:
            found[value.__name__] = {field.alias or name for name, field in value.model_fields.items()}
    return found


def test_there_is_an_example_of_every_key():
    examples = "\n".join(YAML)
    unbuilt = {"steps"}  # may name a built-in set, which changes nothing
    for name, keys in terms().items():
        missing = {key for key in keys - unbuilt if not re.search(rf"(?<![\w.]){re.escape(key)}:", examples)}
        assert missing == set(), name


def test_every_key_is_explained():
    words = {word for text in quoted(DEFS) for word in re.findall(r"\w+", text)}
    for name, keys in terms().items():
        assert keys - words == set(), name
    assert set(SECTIONS) <= words


def test_every_key_that_is_refused_is_told():
    told = section(DEFS, "What is refused")
    refused = {key for term in vars(language).values() for key in getattr(term, "not_built", {})}
    assert refused
    for key in {*refused, *language.AXES}:
        assert f"`{key}`" in told


@pytest.mark.parametrize("key", ["login", "auth", "proxy", "tls", "http2", "throttle", "private"])
def test_a_refused_key_of_hosts_is_known_to_be_refused(key):
    assert key in language.HostTerm.not_built
    assert key not in {field.alias for field in language.HostTerm.model_fields.values()}


def test_every_type_and_method_is_told():
    types = {row[0].strip("`") for row in table(DEFS) if row[0].strip("`") in language.TYPES.__args__}
    assert types == set(language.TYPES.__args__)
    assert {f"`{method}`" for method in language.METHODS.__args__} <= set(re.findall(r"`[A-Z]+`", DEFS))


def test_every_variable_is_told_and_no_other():
    told = set(re.findall(r"%\{([\w.]+)\}", section(DEFS, "Variables")))
    assert told == {*DOCUMENT_VARIABLES, "env.NAME"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page):
    text = prose(page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        assert file.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}"


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", prose(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_links_every_page_of_the_docs():
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in README


def test_the_two_commands_of_the_readme_are_as_they_always_were():
    commands = [line for block in blocks(README, "sh") for line in block.splitlines()]
    assert DEMO in commands
    assert TESTS in commands
    assert (ROOT / "constraints.txt").is_file()


def test_the_constraints_name_versions_and_no_address():
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+(\s*;.*)?|#.*|", line), line
