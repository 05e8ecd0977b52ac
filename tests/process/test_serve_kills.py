"""`serve` and the crawl beside it are killed at random: the rows are exact, and its clients come back."""

import contextlib
import json
import random
import socket
import threading
import time

import httpx
import pytest

from tests.sample import sampled

from .killed_crawl import kill, library_of
from .project import Project, until
from .site import Site
from .web_server import WebServer


class Listener:
    """A client of `/events` that comes back with the id of the last line it got, as browsers do."""

    def __init__(self, url: str, token: str) -> None:
        self.ids: list[int] = []
        self.states: list[str] = []
        self._url, self._headers = f"{url}/events", {"Authorization": f"Bearer {token}"}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(10)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            last = {"Last-Event-ID": str(self.ids[-1])} if self.ids else {"Last-Event-ID": "0"}
            with (
                contextlib.suppress(httpx.HTTPError),
                httpx.stream("GET", self._url, headers=self._headers | last, timeout=3) as answer,
            ):
                for line in answer.iter_lines():
                    if line.startswith("data: ["):
                        self.ids += [event["id"] for event in json.loads(line[6:])]
                    elif line.startswith("data: {"):
                        self.states += [json.loads(line[6:]).get("state") or ""]
                    if self._stopped.is_set():
                        return
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("victim", "kills"),
    sampled([("serve", 2), ("supervisor", 2), ("serve", 20), ("supervisor", 20)], 0, 1),
)
@pytest.mark.timeout(300)
def test_the_crawl_is_exact_and_the_clients_come_back(project: Project, site: Site, victim: str, kills: int) -> None:
    rng = random.Random(f"{victim} {kills}")
    library = library_of(project, site, delay=0.4 if kills > 2 else 0.1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    server = WebServer(project, "--port", port)
    listener = Listener(server.url, server.token)
    running = project.start(nodes=2)
    for _ in range(kills):
        time.sleep(rng.uniform(0.3, 1.5))
        if victim == "serve":
            kill(server.running.pid)
            server.running.wait()
            server = WebServer(project, "--port", port)
        else:
            kill(running.pid)
            running.wait()
            project.assert_no_process_left()
            running = project.start(nodes=2)
    library.set_delay(0)
    done = running.wait(90)
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert until(lambda: server.client.get("/health").status_code == 200)
    ids = [id_ for (id_,) in project.query("SELECT id FROM events WHERE run IS NOT NULL ORDER BY id")]
    assert until(lambda: listener.ids and listener.ids[-1] == ids[-1]), (listener.ids[-3:], ids[-3:])
    assert len(listener.ids) == len(set(listener.ids)), "no line came twice"
    assert until(lambda: "DONE" in listener.states)
    listener.stop()
    server.stop()
