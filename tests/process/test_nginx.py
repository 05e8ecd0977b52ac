"""Crawls of a real nginx: its access log says what was asked, when, and how much at once."""

import os
import shutil
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .gaps import assert_spaced
from .project import Project, until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = [pytest.mark.timeout(90), pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]

PAGES = 40
CONFIG = """\
worker_processes 1;
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    log_format timed '$msec $request_time $status $uri';
    access_log {folder}/access.log timed;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    types {{ text/html html; text/plain txt; }}
    gzip on; gzip_min_length 1; gzip_types text/plain;
    keepalive_requests 5;
    limit_req_zone $binary_remote_addr zone=slow:1m rate=20r/s;
    server {{
        listen unix:{folder}/unused.sock;
        listen 127.0.0.1:{port};
        root {folder}/site;
        location /limited/ {{ alias {folder}/site/; limit_req zone=slow burst=1 nodelay; limit_req_status 429; }}
    }}
}}
"""
DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{title: {{selector: h1, required: true}}}}, links: [{{selector: a}}]}}}}
hosts: {{"127.0.0.1": {{{host}}}}}
"""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A line of the access log. Seconds; `ended` is when the response was sent."""

    ended: float
    seconds: float
    status: int
    path: str


@dataclass(frozen=True, slots=True)
class Nginx:
    """A running nginx with `PAGES` pages, each linking all others."""

    folder: Path
    port: int

    def url(self, path: str = "/0.html") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def log(self) -> list[LoggedRequest]:
        lines = (line.split() for line in (self.folder / "access.log").read_text().splitlines())
        requests = [LoggedRequest(float(line[0]), float(line[1]), int(line[2]), line[3]) for line in lines]
        return [request for request in requests if request.path != "/ping.txt"]


@pytest.fixture
def nginx(tmp_path_factory: pytest.TempPathFactory, unused_port: int) -> Iterator[Nginx]:
    folder = tmp_path_factory.mktemp("nginx")
    (folder / "site").mkdir()
    links = "".join(f'<a href="{number}.html">{number}</a>' for number in range(PAGES))
    for number in range(PAGES):
        (folder / "site" / f"{number}.html").write_text(f"<h1>page {number}</h1>{links}")
    (folder / "site" / "ping.txt").write_text("ok")
    for path in (folder, folder / "site", *(folder / "site").iterdir()):
        path.chmod(0o755)
    (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=unused_port))
    assert NGINX is not None
    process = subprocess.Popen(
        [NGINX, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert until(lambda: (folder / "nginx.pid").exists() or process.poll() is not None)
        assert process.poll() is None, (folder / "error.log").read_text()
        yield Nginx(folder, unused_port)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
        process.wait(10)


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_each_page_is_asked_for_once_and_read_compressed(project: Project, nginx: Nginx) -> None:
    project.write(DEFS.format(url=nginx.url(), host="concurrency: 4"))
    project.crawl()
    assert len(project.rows("page")) == PAGES
    counts = Counter(request.path for request in nginx.log() if request.path != "/robots.txt")
    assert counts == Counter(f"/{number}.html" for number in range(PAGES))
    [(robots,)] = project.query("SELECT robots_status FROM hosts")
    assert robots == 404


def test_the_access_log_shows_no_gap_under_the_delay(project: Project, nginx: Nginx) -> None:
    project.write(DEFS.format(url=nginx.url(), host="delay: 0.1, concurrency: 3"))
    project.crawl("--set", "max_pages=15")
    times = sorted(request.ended - request.seconds for request in nginx.log())
    assert len(times) >= 15
    assert_spaced(times, 0.1)


def test_a_rate_limit_slows_the_crawl_and_loses_no_page(project: Project, nginx: Nginx) -> None:
    project.write(DEFS.format(url=nginx.url("/limited/0.html"), host="concurrency: 2, delay: 0.06, robots: false"))
    project.crawl("--set", "max_attempts=6")
    assert len(project.rows("page")) == PAGES
    assert Counter(request.status for request in nginx.log())[200] == PAGES
