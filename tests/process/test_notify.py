"""The setting `notify`: what receivers are told, that no secret shows, and that none of them delays a run for long."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .library import Library
from .project import Project, until
from .site import Page, Site
from .stopwatch import Stopwatch

pytest.importorskip("apprise")
pytestmark = pytest.mark.timeout(120)
CANARY = "canary07password"


class Inbox:
    """A receiver of JSON messages. `held`: its answers wait for it."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.authorizations: list[str | None] = []
        self.held = threading.Event()
        self.held.set()
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                inbox.authorizations.append(self.headers["Authorization"])
                inbox.messages.append(json.loads(body))
                inbox.held.wait(60)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    yield inbox
    inbox.held.set()
    inbox.server.shutdown()
    inbox.server.server_close()


@pytest.fixture
def hanging() -> Iterator[str]:
    """The address of a receiver that sends a byte now and then, and never ends its answer."""
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def drip(client: socket.socket) -> None:
        with client:
            while not ended.wait(0.5):
                try:
                    client.send(b"H")
                except OSError:
                    return

    def accept() -> None:
        while not ended.is_set():
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    ended.set()
    server.close()


def write_settings(project: Project, *urls: str) -> None:
    (project.folder / "crawl.toml").write_text(f"delay = 0.0\nnotify = {json.dumps(urls)}\n")


@pytest.mark.quick
def test_the_end_of_a_run_is_told_and_no_secret_shows(project: Project, site: Site, inbox: Inbox) -> None:
    project.write(Library(site, shelves=1, books=3).defs())
    write_settings(project, f"json://me:%{{env.CANARY}}@{inbox.address}/", f"json://127.0.0.1:1/{CANARY}")
    variables = {"CANARY": CANARY}
    words = ["run", "--no-ui", "--json", "--defs", "defs", "--data", "data"]
    done = project.start_command(*words, variables=variables).wait()
    (message,) = inbox.messages  # with the alarm
    assert done.code == 0
    assert message["type"] == "success"
    assert message["title"] == f"{project.folder.name}: DONE"
    lines = message["message"].splitlines()
    assert lines[0] == f"run {done.summary['run']} DONE"
    assert lines[1].startswith("4 pages done; 00:00:0")
    assert "book: 3 rows" in lines
    assert inbox.authorizations[0] is not None
    assert "notify: " in done.err  # of the second receiver
    log = (project.data / "logs" / "notify.log").read_text()
    assert "notify[1] json://·····: sent" in log
    config = project.start_command("config", variables=variables).wait()
    assert "json://·····" in config.out
    files = [path for path in project.data.rglob("*") if path.is_file()]
    shown = [done.out, done.err, config.out, config.err, *(path.read_bytes().decode("latin-1") for path in files)]
    assert not [text[:200] for text in shown if CANARY in text]


@pytest.mark.extended
def test_alarms_are_gathered_and_the_end_has_the_rest(project: Project, site: Site, inbox: Inbox) -> None:
    library = Library(site, shelves=4, books=6, delay=0.4)
    for shelf in range(4):
        for book in range(4):
            site[f"/book/{shelf}-{book}"] = Page("out of order", status=500, delay=0.2)
    project.write(library.defs(concurrency=2))
    write_settings(project, f"json://{inbox.address}/")
    done = project.crawl("--set", "max_attempts=2", code=1, nodes=1)
    *alarms, last = inbox.messages
    assert len(alarms) <= 1
    assert all(alarm["type"] == "warning" for alarm in alarms)
    assert f"127.0.0.1:{site.port} fails" in "\n".join(message["message"] for message in inbox.messages)
    assert last["type"] == "failure"
    assert last["title"].startswith(f"{project.folder.name}: ENDED, exit 1: {done.jobs['failed']} failed")
    assert f"{done.jobs['failed']} failed" in last["message"]


@pytest.mark.extended
@pytest.mark.parametrize("stopped", [False, True])
def test_a_receiver_that_hangs_delays_the_end_by_its_deadline(
    project: Project, site: Site, inbox: Inbox, hanging: str, stopped: bool
) -> None:
    project.write(Library(site, shelves=40 if stopped else 1, delay=0.1 if stopped else 0.0).defs())
    write_settings(project, f"json://{hanging}/{CANARY}", f"json://{inbox.address}/")
    running = project.start()
    if stopped:
        assert until(lambda: site.paths)
        running.send(signal.SIGTERM)
    assert until(lambda: inbox.messages, 60)
    watch = Stopwatch()
    assert until(lambda: not lists_secret_in_argv(running.pid), 1)
    done = running.wait()
    assert done.code == (143 if stopped else 0)
    assert done.summary["state"] == ("CANCELLED" if stopped else "DONE")
    assert watch.seconds() < 11.0
    assert inbox.messages[-1]["type"] == ("warning" if stopped else "success")
    project.assert_no_process_left()


def lists_secret_in_argv(parent: int) -> bool:
    """Whether a command line on this machine has the secret."""
    found = False
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found |= CANARY.encode() in path.read_bytes()
        except OSError:
            continue
    return found


@pytest.mark.extended
def test_a_bad_receiver_is_refused_at_its_place_before_anything_starts(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    for url, said in (
        ("jsn://127.0.0.1/canary", "notify[1] jsn://·····: unknown scheme 'jsn' (did you mean 'json'?)"),
        ("https://hooks.example/canary", "begins with json or jsons instead of https"),
        ("slack://canary", "not a URL that slack takes"),
        ("%{env.NOT_SET_HERE}", "environment variable NOT_SET_HERE is not set"),
        ("canary", "notify cannot be ['·····']"),
    ):
        write_settings(project, url)
        done = project.start().wait()
        assert done.code == 2, url
        assert "crawl.toml:2: " in done.err
        assert said in done.err
        assert "canary" not in done.err
        assert not project.data.exists()


@pytest.mark.extended
def test_a_test_says_who_got_it(project: Project, inbox: Inbox) -> None:
    write_settings(project, f"json://{inbox.address}/", f"json://127.0.0.1:1/{CANARY}")
    done = project.start_command("notify", "--test").wait()
    assert done.code == 1
    assert done.out.splitlines()[0] == "notify[1] json://·····: sent"
    assert CANARY not in done.out + done.err
    assert [message["message"] for message in inbox.messages] == ["Messages arrive here."]
    write_settings(project, f"json://{inbox.address}/")
    done = project.start_command("notify", "--test", "--json").wait()
    assert (done.code, json.loads(done.out)) == (
        0, {"receivers": [{"receiver": "notify[1] json://·····", "sent": True, "error": None}]}
    )  # fmt: skip


@pytest.mark.extended
def test_rows_that_vanished_are_counted(project: Project, site: Site, inbox: Inbox) -> None:
    library = Library(site, shelves=1, books=3)
    project.write(library.defs())
    write_settings(project, f"json://{inbox.address}/")
    first = project.crawl()
    site["/book/0-1"] = Page(status=404)
    project.crawl("--fresh")
    assert f"book: 2 rows, 1 row of run {first.summary['run']} vanished" in inbox.messages[-1]["message"]
