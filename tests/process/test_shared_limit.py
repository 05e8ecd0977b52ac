"""Many names of one server are asked as one host where a pattern says so."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

from .project import Project

pytestmark = pytest.mark.timeout(120)

ADDRESSES = tuple(f"127.0.0.{number}" for number in range(2, 10))
DEFS = """\
locatorGroups: {{g: {{locators: [{{urls: [{urls}]}}]}}}}
taskGroups: {{g: {{page: {{dataDef: p}}}}}}
dataDefs: {{p: {{fields: {{title: {{selector: h1}}}}}}}}
hosts: {{"127.0.0.*": {{{limits}, robots: false, shared: {shared}}}}}
"""


class Server(NamedTuple):
    """One server at several addresses; `sent`: when each request came; `most`: how many were in progress at once."""

    port: int
    sent: list[float]
    most: list[int]


@contextmanager
def serve() -> Iterator[Server]:
    sent: list[float] = []
    most, now = [0], [0]
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with lock:
                sent.append(time.monotonic())
                now[0] += 1
                most[0] = max(most[0], now[0])
            time.sleep(0.05)
            with lock:
                now[0] -= 1
            body = b"<html><body><h1>one</h1></body></html>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    servers = [ThreadingHTTPServer((ADDRESSES[0], 0), Handler)]
    port = servers[0].server_port
    servers += [ThreadingHTTPServer((address, port), Handler) for address in ADDRESSES[1:]]
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield Server(port, sent, most)
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()


def write_defs(project: Project, port: int, limits: str, *, shared: bool, pages: int = 4) -> None:
    urls = ", ".join(f'"http://{address}:{port}/{page}"' for address in ADDRESSES for page in range(pages))
    project.write(DEFS.format(urls=urls, limits=limits, shared=str(shared).lower()))


@pytest.mark.quick
def test_names_of_one_server_have_one_limit(project: Project) -> None:
    with serve() as server:
        write_defs(project, server.port, "concurrency: 2", shared=True)
        done = project.crawl("--nodes", "2")
        assert (done.summary["jobs"]["done"], server.most) == (len(ADDRESSES) * 4, [2])


def test_without_shared_each_name_has_its_own(project: Project) -> None:
    with serve() as server:
        write_defs(project, server.port, "concurrency: 1", shared=False)
        project.crawl("--nodes", "2")
        assert server.most[0] > 2


@pytest.mark.quick
def test_one_delay_lies_between_all_requests(project: Project) -> None:
    with serve() as server:
        write_defs(project, server.port, "delay: 0.15", shared=True, pages=2)
        project.crawl("--nodes", "2")
        assert len(server.sent) == 16
        gaps = [later - earlier for earlier, later in zip(server.sent, server.sent[1:], strict=False)]
        assert min(gaps) > 0.15 - 0.03, gaps
