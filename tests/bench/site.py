"""Serves the bench sites, each in its own process: documentation, a generated site, a slow site."""

import contextlib
import json
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
MANUAL = Path("/usr/share/doc/postgresql-doc-15/html")
"""Debian's postgresql-doc-15: 1,169 pages."""

_CONFIG = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
events {{ worker_connections 8192; }}
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
        {listen}
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
    _own_requests: int = field(default=0, repr=False)
    """Our own requests for the count, which nginx counts too."""

    @property
    def starts(self) -> list[str]:
        """The start URLs, one for each host."""
        return [origin + "/index.html" for origin in self.origins]

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
def folder_site(root: Path, *, hosts: int = 1) -> Iterator[Site]:
    """A folder's files on each host: by nginx where it is installed, else by our own server."""
    root = root.resolve()
    for file in root.rglob("*.htm*"):  # warms the page cache, so that the first crawl is not slower
        file.read_bytes()
    if not NGINX.exists():
        with _server(f"{root} by Python", ["--root", str(root)], hosts) as site:
            yield site
        return
    with tempfile.TemporaryDirectory() as folder:
        addresses, port = _addresses(hosts)
        config = Path(folder, "nginx.conf")
        listen = "\n        ".join(f"listen {address}:{port} backlog=511;" for address in addresses)
        config.write_text(_CONFIG.format(folder=folder, listen=listen, root=root))
        process = subprocess.Popen([NGINX, "-p", folder, "-c", config, "-e", f"{folder}/error.log"])
        try:
            _wait_for(addresses[-1], port, process)
            yield Site(root.parent.name, [f"http://{address}:{port}" for address in addresses], process.pid)
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def generated_site(pages: int = 10_000, size: int = 28_000, *, hosts: int = 1) -> Iterator[Site]:
    """A link-heavy site, generated, of `pages` pages on each host."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(pages):
            file = Path(folder, path_of(number)[1:])
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(page(number, pages, size))
        with folder_site(Path(folder), hosts=hosts) as site:
            site.name = f"{pages:,} generated pages" if hosts == 1 else f"{hosts:,} hosts of {pages} generated pages"
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
def small_pages(pages: int) -> Iterator[Site]:
    """Generated pages of 3 kB by our own server."""
    with _server(f"{pages:,} pages of 3 kB", ["--small", "--pages", str(pages)]) as site:
        yield site


@contextlib.contextmanager
def scripted_site(every: int) -> Iterator[Site]:
    """Pages of 8 kB by our own server; each `every`-th has its rows by a script."""
    name = "rows by a script" if every == 1 else f"rows by a script in each {every}th page"
    with _server(name, ["--scripted", str(every)]) as site:
        yield site


@contextlib.contextmanager
def slow_site(latency: float, *, hosts: int = 100, pages: int = 50, size: int = 8_000) -> Iterator[Site]:
    """A site of many hosts with `pages` pages each, every page answered after `latency` seconds."""
    arguments = ["--pages", str(pages), "--size", str(size), "--latency", str(latency * 1000)]
    with _server(f"{hosts} hosts of {latency * 1000:.0f} ms pages", arguments, hosts) as site:
        yield site


@contextlib.contextmanager
def _server(name: str, arguments: list[str], hosts: int = 1) -> Iterator[Site]:
    addresses, port = _addresses(hosts)
    listen = [part for address in addresses for part in ("--listen", f"{address}:{port}")]
    command = [sys.executable, "-m", "tests.bench.server", *arguments, *listen]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
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


def _addresses(hosts: int) -> tuple[list[str], int]:
    """Loopback addresses, one for each host, and a port that is free on the first."""
    if hosts > 1 and sys.platform != "linux":
        raise RuntimeError("only Linux has a loopback address for each of many hosts")
    addresses = ["127.0.0.1"] if hosts == 1 else [f"127.1.{n // 250}.{n % 250 + 1}" for n in range(hosts)]
    with socket.socket() as probe:
        probe.bind((addresses[0], 0))
        return addresses, int(probe.getsockname()[1])


def _wait_for(address: str, port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError("nginx did not start; its message is above")
