"""The command line: the registry of commands, and what is imported for which command."""

import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from crawl_console.cli.commands import COMMANDS, EXAMPLES
from crawl_console.cli.main import crawl_console, main
from crawl_engine.other_names import COMMANDS as COMMAND_NAMES
from crawl_engine.other_names import OPTIONS as OPTION_NAMES
from crawl_engine.other_names import SETTINGS as SETTING_NAMES
from crawl_engine.settings import Settings

CONTEXT = click.Context(crawl_console)
WEB = ("jinja2", "prometheus_client", "starlette", "uvicorn")
HEAVY = (
    *WEB,
    "httptools",
    "httpx",
    "huey",
    "lxml",
    "pysqlite3",
    "rich",
    "selectolax",
    "sqlite3",
    "textual",
    "yaml",
)


def imported(code: str) -> set[str]:
    """The modules that are loaded after running some code in a new interpreter."""
    code = f"import sys\n{code}\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def invoke(*arguments: str) -> str:
    return f"from crawl_console.cli.main import main\ntry:\n main({list(arguments)})\nexcept SystemExit: pass"


def command_of(name: str) -> click.Command:
    command = crawl_console.get_command(CONTEXT, name)
    assert command is not None
    return command


def test_no_process_of_a_crawl_imports_the_web_server() -> None:
    modules = imported(
        "import importlib, crawl_console.cli.headless, crawl_engine.supervise.build\n"
        "from crawl_engine.supervise.nodes import PROCESSES\n"
        "for process in PROCESSES: importlib.import_module(process.partition(':')[0])"
    )
    assert "crawl_engine.node.process" in modules
    assert {name for name in modules if name.startswith((*WEB, "crawl_console.web"))} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_registered_command_exists_under_its_name(name: str) -> None:
    command = command_of(name)
    assert command.name == name
    assert command.help


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_ends_with_examples_that_parse(name: str) -> None:
    command, examples = command_of(name), EXAMPLES[name]
    assert 1 <= len(examples) <= 3
    text = command.get_help(click.Context(command, info_name=name, parent=CONTEXT))
    assert text.endswith("".join(f"\n    crawl-console {example}" for example in examples))
    for example in examples:
        first, *words = shlex.split(example)
        assert first == name
        with command.make_context(name, words, parent=CONTEXT) as context:
            assert not context.args


def flags_of(name: str) -> set[str]:
    return {flag for option in command_of(name).params if isinstance(option, click.Option) for flag in option.opts}


WITHOUT_JSON = {
    "completion": "a script for the shell",
    "shell": "a conversation",
    "export": "--format jsonl",
    "schema": "its answer is JSON",
    "serve": "its answers are JSON, over HTTP",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_answers_has_json(name: str) -> None:
    assert ("--json" in flags_of(name)) is (name not in WITHOUT_JSON)


_STEERS = "the supervisor works the latest run"
_DEFS = "it reads the defs on disk"
_CRAWLS = "it works the latest run, or begins one"
WITHOUT_RUN = {
    **dict.fromkeys(("cancel", "kill", "drain", "restart", "scale", "pause", "resume", "stop", "host"), _STEERS),
    **dict.fromkeys(("reload",), _STEERS),
    **dict.fromkeys(("check", "steps", "try", "test", "shell", "sign", "schema", "init"), _DEFS),
    **dict.fromkeys(("run", "extract", "demo", "seed", "exclude"), _CRAWLS),
    "runs": "RUN is its argument",
    "serve": "it follows the latest run",
    "notify": "it is of no run",
    "schedule": "it lists the latest run of each schedule",
    "files": "its limits choose the runs",
    "backup": "it copies all runs",
    "store": "it copies all runs",
    "vacuum": "the databases have all runs",
    "query": "the statement says which run",
    "config": "settings are of no run",
    "completion": "it reads no run",
    "series": "it shows all runs; --since names the first",
    "job": "an id belongs to one run",
    "logs": "the processes of all runs write the same files",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_looks_has_run(name: str) -> None:
    assert ("--run" in flags_of(name)) is (name not in WITHOUT_RUN)


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert crawl_console.get_command(CONTEXT, "nope") is None
    with pytest.raises(click.UsageError, match="No such command 'nope'"):
        crawl_console.main(["nope"], standalone_mode=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["convert", "scoopi"], "No such command 'convert': Scoopi's definitions run unmodified."),
        (["genspider"], "did you mean 'init'?"),
        (["install"], "pip install 'crawl-console[EXTRA]'"),
        (["list"], "`plan` for what the defs crawl, `runs` for the runs"),
        (["http://a.example/"], "No such command 'http://a.example/': write its URL into `locators` of the defs"),
        (["run", "http://a.example/"], "To crawl a page, write its URL into `locators` of the defs"),
        (["run", "-O", "rows.csv"], "Did you mean '-o'?"),
        (["run", "-s", "A=1"], "Did you mean '--set'?"),
        (["serve", "--port", "http"], "'http' is not a whole number (0<=x<=65535)"),
        (["export", "-f", "csv"], "Did you mean '--format'?"),
        (["run", "--set", "DOWNLOAD_DELAY=1"], "unknown setting 'DOWNLOAD_DELAY'; write `delay`"),
        (["run", "--set", "CONCURRENT_REQUESTS=1"], "write `concurrency`"),
        (["run", "--set", "proxy=a"], "write `hosts: {HOST: {proxy: …}}` in the defs"),
    ],
)
def test_a_word_of_other_crawlers_is_told_what_it_is_called_here(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_names_of_other_crawlers_lead_to_names_that_exist() -> None:
    assert {one for one in COMMAND_NAMES.values() if " " not in one} <= set(COMMANDS)
    assert not set(COMMAND_NAMES) & set(COMMANDS)
    assert {one for one in SETTING_NAMES.values() if " " not in one} <= set(Settings.__struct_fields__)
    assert not set(SETTING_NAMES) & set(Settings.__struct_fields__)
    options = {option for name in COMMANDS for option in flags_of(name)}
    assert set(OPTION_NAMES.values()) <= options


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_import_no_command(flag: str) -> None:
    modules = imported(invoke(flag))
    assert not [name for name in modules if name.startswith(("crawl_console.cli.commands.", "crawl_engine.store"))]
    assert not modules & set(HEAVY)


def test_completion_costs_a_start_nothing_and_imports_no_command() -> None:
    assert "click.shell_completion" not in imported(invoke("jobs", "--help"))
    environment = {"_CRAWL_CONSOLE_COMPLETE": "bash_complete", "COMP_WORDS": "crawl-console j", "COMP_CWORD": "1"}
    modules = imported(f"import os\nos.environ.update({environment})\n{invoke()}")
    assert "crawl_console.cli.completion" in modules
    assert not [name for name in modules if name.startswith(("crawl_console.cli.commands.", "crawl_engine.store"))]


def test_help_lists_every_command_with_its_summary() -> None:
    text = crawl_console.get_help(CONTEXT)
    for name, (_, summary) in COMMANDS.items():
        assert any(line.split(maxsplit=1) == [name, summary] for line in text.splitlines() if line.strip()), name


def test_a_command_is_imported_alone_and_lightly() -> None:
    modules = imported(invoke("jobs", "--help"))
    assert sorted(name for name in modules if name.startswith("crawl_console.cli.commands.")) == [
        "crawl_console.cli.commands.work",
        "crawl_console.cli.commands.work.jobs",
    ]
    assert not modules & set(HEAVY)


def test_the_modules_of_commands_import_nothing_heavy() -> None:
    modules = {f"crawl_console.cli.commands.{place.partition(':')[0]}" for place, _ in COMMANDS.values()}
    assert not imported(f"import {', '.join(sorted(modules))}") & set(HEAVY)


def test_the_version_alone_takes_no_import_of_click(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys; sys.argv[1:] = ['--version']; from crawl_console.__main__ import main; main()"
    code += "; assert 'click' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    printed = capfd.readouterr().out
    with pytest.raises(SystemExit):
        crawl_console.main(["--version"], prog_name="crawl-console")
    assert capfd.readouterr().out == printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_version_that_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "crawl_console", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "error: No space left on device")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("crawl", "No such command 'crawl' (did you mean 'run'?)."),
        ("validate", "No such command 'validate' (did you mean 'check'?)."),
        ("runn", "No such command 'runn' (did you mean 'run'?)."),
        ("scal", "No such command 'scal' (did you mean 'scale'?)."),
        ("run --headless", "No such option '--headless'. Did you mean '--no-ui'?"),
        ("--headless", "No such option '--headless'. Did you mean '--no-ui'?"),
        ("run --workers 2", "No such option '--workers'. Did you mean '--nodes'?"),
        ("vacuum --workers 2", "No such option '--workers'."),
    ],
)
def test_what_other_crawlers_call_it_is_understood(words: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert hint in capsys.readouterr().err
