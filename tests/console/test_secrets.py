"""No screen and no command line of the console's processes shows a secret."""

import os
import signal
import time

import pytest

from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.supervise.lock import read_holder
from tests.console.test_terminal import console
from tests.process.project import Project
from tests.process.site import Page, html, serve_site

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pty")

DEFS = """\
locatorGroups: {g: {locators: [{url: "/{1..400}", headers: {X-Plain: canary-header}, cookies: {c: canary-cookie}}]}}
taskGroups: {g: {page: {dataDef: page}}}
dataDefs: {page: {fields: {b: {selector: b}}}}
"""


def test_no_screen_shows_a_secret(tmp_path):
    project = Project(tmp_path)
    project.write(DEFS)
    with serve_site() as site:
        site.fallback = lambda request: Page(
            html("<b>x</b>"), delay=0.1, headers={"Set-Cookie": "sid=canary-set", "X-Seen": "1"}
        )
        base = f"http://us:canary-base@127.0.0.1:{site.port}/"
        terminal = console(tmp_path, "run", "--defs", str(project.defs), "--base-url", base, "--set", "nodes=1")
        try:
            terminal.until("RUNNING")
            terminal.until(lambda _: len(site.paths) > 20)
            lines = [line for pid, line in project.live_processes().items() if pid != terminal.pid]
            assert any("--no-ui" in line for line in lines), lines
            assert "canary" not in "\n".join(lines)
            for keys in ("2", "3", "4", "6", "7", "1", "2"):
                terminal.press(keys)
                terminal.read(0.4)
            terminal.press("G")  # the newest jobs are still open, the oldest are done
            terminal.press("g")
            terminal.press("\r")
            terminal.until("job ")
            terminal.press("v")
            terminal.until("X-Plain")
            terminal.until("·····")
            for _ in range(5):
                terminal.press("\t")
                terminal.read(0.4)
            assert b"canary" not in terminal.raw
            assert site.exchanges[-1].request.headers["x-plain"] == "canary-header"
            assert site.exchanges[-1].request.headers["authorization"] == "Basic dXM6Y2FuYXJ5LWJhc2U="
        finally:
            terminal.end()
            holder = read_holder(project.data)
            if holder is not None and identity_of(holder.pid) == holder.identity:
                os.killpg(holder.pid, signal.SIGKILL)
                time.sleep(0.2)
            project.kill_all()
