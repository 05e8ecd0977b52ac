"""A command answers as a process of its own as it does in the process of the tests: exit code and streams."""

import re

import pytest

from crawl_console.cli.commands import COMMANDS

from .library import Library
from .project import IN_PROCESS, Project
from .site import Site

ARGUMENTS = {
    "check": ["--defs", "defs"],
    "drain": ["n1"],
    "exclude": ["--match", "nothing"],
    "files": ["prune"],
    "host": ["127.0.0.1", "--pause"],
    "logs": ["n1"],
    "plan": ["--defs", "defs"],
    "query": ["SELECT count(*) FROM book"],
    "restart": ["n1"],
    "retry": ["--state", "failed"],
    "scale": ["3"],
    "seed": ["nothing", "http://127.0.0.1/"],
    "steps": ["--defs", "defs"],
    "stop": ["books"],
}
ELSEWHERE = {
    "backup": ["copy", "--data", "data"],
    "completion": ["bash"],
    "config": ["--data", "data"],
    "demo": ["--no-ui", "--pages", "4", "--data", "demo"],
    "extract": ["--defs", "defs", "--data", "data"],
    "init": ["new"],
    "job": ["1", "--data", "data"],
    "schedule": ["shop", "--at", "03:30", "--cron", "--defs", "defs"],
    "schema": [],
    "series": ["book", "isbn", "--key", "isbn", "--data", "data"],
    "shell": ["PAGE", "--defs", "defs"],
    "sign": ["--new-key", "bot.pem"],
    "store": ["copy", "data", "DATABASE", "--project", "shop"],
    "test": ["--record", "PAGE", "--data-def", "book", "--defs", "defs"],
    "try": ["book", "PAGE", "--defs", "defs"],
}
"""The others but `run`, `serve`, `notify`: those that start processes, and those that no test of this tier needs."""
_AGE = re.compile(r" +\d+s ")
"""A second may pass between the two."""


@pytest.mark.quick
@pytest.mark.timeout(90)
def test_a_process_answers_as_the_command_in_this_process(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=2)
    project.write(library.defs())
    project.crawl()
    for name in sorted(IN_PROCESS):
        command = [name, *ARGUMENTS.get(name, []), "--data", "data"]
        own, here = project.start_command(*command).wait(), project.run_command(*command)
        seen, shown = ((done.code, _AGE.sub("-", done.out), done.err) for done in (own, here))
        assert seen == shown, name
        assert own.out or own.err or name == "logs", name


@pytest.mark.quick
def test_each_other_command_succeeds(project: Project, site: Site, database: str) -> None:
    assert set(COMMANDS) == {"run", "serve", "notify"} | IN_PROCESS | set(ELSEWHERE)
    project.write(Library(site, shelves=1, books=2).defs())
    project.crawl()
    places = {"PAGE": site.url("/book/0-0"), "DATABASE": database}
    for name, arguments in ELSEWHERE.items():
        done = project.run_command(name, *(places.get(word, word) for word in arguments))
        assert (done.code, "Traceback" in done.err) == (0, False), (name, done.out, done.err)
