"""The units of `schedule` under a real systemd: a manager of the user, in namespaces of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crawl_console.schedule import systemd
from crawl_console.schedule.schedule import Schedule
from crawl_console.schedule.times import parse_times
from crawl_engine.supervise.lock import Lock

from .library import Library
from .project import Project
from .site import Site

MANAGER = "/usr/lib/systemd/systemd"
pytestmark = [
    pytest.mark.sweep,
    pytest.mark.timeout(240),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make namespaces"),
    pytest.mark.skipif(not Path(MANAGER).exists() or shutil.which("unshare") is None, reason="needs systemd, unshare"),
]
STARTS = """\
mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/systemd/unit-root /run/user/0 && chmod 700 /run/user/0
ln -s /run/user/0/systemd/inaccessible /run/systemd/inaccessible
export XDG_RUNTIME_DIR=/run/user/0
timeout 100 {manager} --user >/dev/null 2>&1 &
for _ in $(seq 100); do systemctl --user is-system-running 2>/dev/null | grep -q . && break; sleep 0.1; done
systemctl --user show-environment >/dev/null || exit 77
systemctl --user start crawl-console-shop.timer && systemctl --user is-active crawl-console-shop.timer
timeout 60 systemctl --user start crawl-console-shop.service
while systemctl --user is-active -q crawl-console-shop.service; do sleep 0.2; done
systemctl --user show -p ExecMainStatus -p Result --value crawl-console-shop.service | xargs
sleep 2
systemctl --user exit
"""
SENDMAIL = '#!/bin/sh\ncat >"$(dirname "$0")/mail"\n'


@pytest.fixture
def tools(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH of the unit that mails; its sendmail keeps the mail."""
    tools = project.folder / "tools"
    tools.mkdir()
    (tools / "sendmail").write_text(SENDMAIL)
    (tools / "sendmail").chmod(0o755)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.folder / "config"))
    added = project.folder / "config/systemd/user/crawl-console-mail@.service.d/path.conf"
    added.parent.mkdir(parents=True)
    added.write_text(f"[Service]\nEnvironment=PATH={tools}:/usr/bin:/bin\n")
    return tools


def start_unit(project: Project) -> list[str]:
    """Start the service once; returns its result and exit code."""
    schedule = Schedule(
        name="shop", times=parse_times("Mon 03:30"), folder=project.folder, data=project.data, defs=project.defs,
        program=(sys.executable, "-m", "crawl_console"),
    )  # fmt: skip
    for path, text in systemd.Manager(is_system=False).render(schedule).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script = STARTS.format(manager=MANAGER)
    done = subprocess.run(
        ["unshare", "--fork", "--pid", "--mount", "--mount-proc", "bash", "-c", script],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    if done.returncode == 77 or not done.stdout:
        pytest.skip(f"no manager of the user starts here: {done.stderr[-300:]}")
    assert done.stdout.splitlines()[0] == "active", done.stderr
    return done.stdout.splitlines()[-1].split()


def test_a_crawl_runs_within_the_restrictions(project: Project, site: Site, tools: Path) -> None:
    library = Library(site, shelves=2, books=3)
    project.write(library.defs())
    assert start_unit(project) == ["success", "0"]
    assert len(project.rows("book")) == 6
    assert not (tools / "mail").exists()


def test_an_overlap_is_no_failure(project: Project, site: Site, tools: Path) -> None:
    project.write(Library(site, shelves=1).defs())
    lock = Lock.acquire(project.data)
    try:
        assert start_unit(project) == ["success", "4"]
    finally:
        lock.release()
    assert not (tools / "mail").exists()


def test_a_failure_is_mailed(project: Project, site: Site, tools: Path) -> None:
    project.write("nonsense: true\n")
    assert start_unit(project) == ["exit-code", "2"]
    mail = (tools / "mail").read_text()
    assert "Subject: crawl-console-shop failed on " in mail
    assert "crawl-console-shop.service - The crawl shop" in mail
