"""Serves the bench sites, each in its own process: documentation, a generated site, a slow site.

Run as a program, it serves until Enter is pressed.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from tests.bench.pages import page, path_of

NGINX = Path("/usr/sbin/nginx")
DOCUMENTATION = Path("/usr/share/doc/openjdk-17-doc/api")
"""Debian's openjdk-17-doc: 10,137 pages of 27 KB, 99 links each."""

_CONFIG = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
events {{ worker_connections 1024; }}
http {{
    types {{ text/html html htm; text/css css; application/javascript js; image/svg+xml svg; image/png png; }}
    default_type application/octet-stream;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{
        listen 127.0.0.1:{port} backlog=511;
        root {root};
        location = /.bench {{ stub_status; }}
    }}
}}
"""


@dataclass(slots=True)
class Site:
    """A site being served."""

    name: str
    origins: list[str]
    pid: int
    start: str = "/index.html"
    latency: float = 0.0
    """Seconds per page."""
    _own_requests: int = field(default=0, repr=False)
    """Our own requests for the count, which nginx counts too."""

    @property
    def starts(self) -> list[str]:
        """The start URLs, one for each host."""
        return [origin + self.start for origin in self.origins]

    def hits(self) -> int:
        """Requests answered, since `forget` where the server is ours."""
        return self._counts()[0]

    def first_hit(self) -> float | None:
        """`time.monotonic()` of the first request since `forget`; None when there was none, or with nginx."""
        return self._counts()[1]

    def forget(self) -> None:
        """Reset the counts."""
        self._ask("?forget")

    def cpu(self) -> float:
        """Seconds of CPU of the server so far."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def _counts(self) -> tuple[int, float | None]:
        text = self._ask("")
        if text.startswith("{"):
            counts = json.loads(text)
            return int(counts["hits"]), counts["first"]
        self._own_requests += 1
        return int(text.splitlines()[2].split()[2]) - self._own_requests, None

    def _ask(self, query: str) -> str:
        with urllib.request.urlopen(f"{self.origins[0]}/.bench{query}", timeout=10) as response:
            return str(response.read().decode())


@contextlib.contextmanager
def folder_site(root: Path, start: str = "/index.html") -> Iterator[Site]:
    """A folder's files: by nginx where it is installed, else by our own server."""
    root = root.resolve()
    for file in root.rglob("*.htm*"):  # warms the page cache, so that the first crawl is not slower
        file.read_bytes()
    if not NGINX.exists():
        with _server(f"{root} by Python", ["--root", str(root)]) as site:
            site.start = start
            yield site
        return
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        config = Path(folder, "nginx.conf")
        config.write_text(_CONFIG.format(folder=folder, port=port, root=root))
        process = subprocess.Popen([NGINX, "-p", folder, "-c", config, "-e", f"{folder}/error.log"])
        try:
            _wait_for(port, process)
            yield Site(f"{root} by nginx", [f"http://127.0.0.1:{port}"], process.pid, start)
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def generated_site(pages: int = 10_000, size: int = 28_000) -> Iterator[Site]:
    """A link-heavy site, generated: as files for nginx where it is installed, else page by page."""
    if not NGINX.exists():
        with served_pages(pages, size) as site:
            yield site
        return
    with tempfile.TemporaryDirectory() as folder:
        for number in range(pages):
            file = Path(folder, path_of(number)[1:])
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(page(number, pages, size))
        with folder_site(Path(folder)) as site:
            site.name = f"{pages:,} generated pages by nginx"
            yield site


@contextlib.contextmanager
def served_pages(
    pages: int, size: int = 28_000, *, latency: float = 0.0, versions: bool = False, sets_cookie: bool = False
) -> Iterator[Site]:
    """Generated pages by our own server, which reports the time of the first request.

    `versions`: each has an ETag, and who names it gets 304. `sets_cookie`: each answer changes a cookie.
    """
    arguments = ["--pages", str(pages), "--size", str(size), "--latency", str(latency * 1000)]
    arguments += [*(["--versions"] if versions else []), *(["--cookie"] if sets_cookie else [])]
    with _server(f"{pages:,} generated pages by Python", arguments) as site:
        yield site


@contextlib.contextmanager
def slow_site(latency: float, *, hosts: int = 100, pages: int = 50, size: int = 8_000) -> Iterator[Site]:
    """A site of many hosts with `pages` pages each, every page answered after `latency` seconds."""
    port = _free_port()
    addresses = [f"127.1.0.{n}:{port}" for n in range(1, hosts + 1)]
    if sys.platform != "linux" or hosts > 250:  # elsewhere 127.0.0.1 is the only loopback address there is
        addresses = ["127.0.0.1:0"] * hosts
    arguments = ["--pages", str(pages), "--size", str(size), "--latency", str(latency * 1000)]
    arguments += [part for address in addresses for part in ("--listen", address)]
    with _server(f"{hosts} hosts of {latency * 1000:.0f} ms pages", arguments) as site:
        site.latency = latency
        yield site


@contextlib.contextmanager
def chosen_site(choice: str, pages: int = 10_000) -> Iterator[Site]:
    """`auto`, `generated`, or a folder. `auto`: the documentation package where it is installed, with nginx."""
    if choice == "generated" or (choice == "auto" and not (DOCUMENTATION.is_dir() and NGINX.exists())):
        with generated_site(pages) as site:
            yield site
    else:
        with folder_site(DOCUMENTATION if choice == "auto" else Path(choice)) as site:
            yield site


@contextlib.contextmanager
def _server(name: str, arguments: list[str]) -> Iterator[Site]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.server", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        listening = _listening(process.stdout)
        yield Site(name, [f"http://{host}:{port}" for host, port in listening], process.pid)
    finally:
        process.communicate()


def _listening(stdout: IO[bytes]) -> list[tuple[str, int]]:
    line = stdout.readline()
    if not line:
        raise RuntimeError("the site's server did not start; its message is above")
    return [(host, port) for host, port in json.loads(line)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError("nginx did not start; its message is above")


def main() -> int:
    parser = argparse.ArgumentParser(description="Serve a site on loopback until Enter is pressed.")
    parser.add_argument("--site", default="auto", help="auto, generated, slow, or a folder")
    parser.add_argument("--pages", type=int, default=10_000, help="of a generated site, or of each slow host")
    parser.add_argument("--latency", type=float, default=20.0, metavar="MS", help="of the slow site")
    options = parser.parse_args()
    slow = options.site == "slow"
    with (
        slow_site(options.latency / 1000, pages=options.pages)
        if slow
        else chosen_site(options.site, options.pages) as site
    ):
        print(f"{site.name}: {site.starts[0]}", "" if len(site.starts) == 1 else f"… {site.starts[-1]}", flush=True)
        sys.stdin.readline()
        print(f"{site.hits():,} requests, {site.cpu():.2f} s of CPU", flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
