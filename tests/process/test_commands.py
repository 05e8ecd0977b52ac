"""A command answers as a process of its own as it does in the process of the tests: exit code and streams."""

import re

import pytest

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
_AGE = re.compile(r" +\d+s ")
"""A second may pass between the two."""


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
