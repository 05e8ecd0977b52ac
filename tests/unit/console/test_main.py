"""The command line: the registry of commands, and what is imported for which command."""

import subprocess
import sys

import click
import pytest

from console.cli.commands import COMMANDS
from console.cli.main import crawl_console

CONTEXT = click.Context(crawl_console)
HEAVY = (
    "aiohttp",
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
    return f"from console.cli.main import main\ntry:\n main({list(arguments)})\nexcept SystemExit: pass"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_registered_command_exists_under_its_name(name: str) -> None:
    command = crawl_console.get_command(CONTEXT, name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert crawl_console.get_command(CONTEXT, "nope") is None
    with pytest.raises(click.UsageError, match="No such command 'nope'"):
        crawl_console.main(["nope"], standalone_mode=False)
    with pytest.raises(click.UsageError, match=r"'convert'\. Scoopi's definitions run unmodified\."):
        crawl_console.main(["convert", "scoopi", "defs"], standalone_mode=False)


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_import_no_command(flag: str) -> None:
    modules = imported(invoke(flag))
    assert not [name for name in modules if name.startswith(("console.cli.commands.", "engine.store"))]
    assert not modules & set(HEAVY)


def test_help_lists_every_command_with_its_summary() -> None:
    text = crawl_console.get_help(CONTEXT)
    for name, (_, summary) in COMMANDS.items():
        assert any(line.split(maxsplit=1) == [name, summary] for line in text.splitlines() if line.strip()), name


def test_a_command_is_imported_alone_and_lightly() -> None:
    modules = imported(invoke("jobs", "--help"))
    assert [name for name in modules if name.startswith("console.cli.commands.")] == [
        "console.cli.commands.work",
        "console.cli.commands.work.jobs",
    ]
    assert not modules & set(HEAVY)


def test_the_modules_of_commands_import_nothing_heavy() -> None:
    modules = {f"console.cli.commands.{place.partition(':')[0]}" for place, _ in COMMANDS.values()}
    assert not imported(f"import {', '.join(sorted(modules))}") & set(HEAVY)
