"""A run with few pages ends, on a terminal, with its fields and first rows."""

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from .project import Project
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

DEFS = """\
baseUrl: {base}
locatorGroups: {{g: {{locators: [{{urls: ["/{{1..3}}"]}}]}}}}
taskGroups: {{g: {{page: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{block: li}}
    fields: {{name: {{selector: b}}, price: {{selector: i, type: decimal}}, note: {{selector: u}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


def run_on_terminal(project: Project, *arguments: str) -> str:
    """What a headless run shows on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "crawl_console", "run", "--no-ui", "--nodes", "1", *arguments]
    environment = {**os.environ, "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(command, cwd=project.folder, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 40
    while time.monotonic() < deadline:
        ready, _, _ = select.select([ours], [], [], 0.2)
        try:
            piece = os.read(ours, 65_536) if ready else b""
        except OSError:
            break
        shown += piece
        if not piece and process.poll() is not None:
            break
    assert process.wait(20) == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", shown.decode())


@pytest.mark.quick
def test_a_trial_shows_fields_and_first_rows(project: Project, site: Site) -> None:
    items = f"<li><b>tea {'x' * 200}</b><i>1.50</i></li><li><b>\x1b[31mmilk</b></li>"
    site.fallback = lambda _: Page(html(f"<ul>{items}</ul>"))
    project.write(DEFS.format(base=site.url()))
    lines = run_on_terminal(project, "--max-pages", "20").splitlines()
    (start,) = [number for number, line in enumerate(lines) if line == "  item: 6 rows"]
    assert lines[start + 1] == "    field  filled  example"
    assert lines[start + 2].startswith("    name   6 of 6  tea xxx")
    assert lines[start + 3 : start + 5] == ["    price  3 of 6  1.50", "    note   0 of 6  –"]
    assert [line[:12] for line in lines[start + 5 : start + 8]] == ['    {"name":'] * 3
    assert all(len(line) <= 80 for line in lines[start : start + 8])
    assert "WARNING" in lines[start - 1], "behind the warnings"


def test_other_runs_do_not(project: Project, site: Site) -> None:
    site.fallback = lambda _: Page(html("<ul><li><b>tea</b></li></ul>"))
    project.write(DEFS.format(base=site.url()))
    assert "example" not in run_on_terminal(project, "--max-pages", "200")
    assert "example" not in run_on_terminal(project, "--max-pages", "20", "--progress", "quiet", "--fresh")
    assert "example" not in project.crawl("--max-pages", "20", "--fresh").err, "a log is no terminal"
