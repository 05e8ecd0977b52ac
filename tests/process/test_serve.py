"""`serve`: what it answers of data dirs in any state, over a port and over a Unix socket."""

import html as html_text
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from crawl_engine.store.db.location import Location, write_location

from . import test_secrets
from .library import Library
from .project import Project, until
from .site import Site, html
from .web_server import WebServer

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def library(project: Project, site: Site) -> Library:
    library = Library(site, shelves=2, books=3)
    project.write(library.defs())
    return library


@pytest.fixture
def serve(project: Project) -> Iterator[WebServer]:
    server = WebServer(project)
    yield server
    server.stop()


def without_servers(status: dict[str, Any]) -> dict[str, Any]:
    """What is written every few seconds may differ."""
    return {key: value for key, value in status.items() if key != "servers"}


def error_of(server: WebServer) -> str:
    answer = server.client.get("/status.json")
    return answer.json()["error"] if answer.status_code == 503 else ""


@pytest.mark.quick
def test_it_says_what_status_says(project: Project, library: Library, serve: WebServer) -> None:
    """Before the data dir has a run, during it, and after it; the server neither ends nor is started again."""
    assert serve.status()["state"] is None
    assert (serve.client.get("/health").status_code, serve.client.get("/health").text) == (503, "there is no run yet\n")
    library.set_delay(0.3)
    running = project.start(nodes=1)
    assert until(lambda: serve.status()["jobs"]["done"] >= 1 or running.exited), running.err
    assert serve.client.get("/health").text == "ok\n"
    library.set_delay(0)
    assert running.wait().code == 0
    assert until(lambda: serve.status()["stage"] == "SHUTDOWN_COMPLETE")
    time.sleep(1.1)
    shown, expected = serve.status(), project.status()
    assert without_servers(shown) == without_servers(expected)
    assert serve.client.get("/health").status_code == 200
    project.assert_integrity()


def test_a_store_in_postgresql_is_served(project: Project, library: Library, database: str) -> None:
    project.data.mkdir()
    write_location(project.data, Location(database, "crawl"))
    project.crawl(nodes=1)
    server = WebServer(project)
    try:
        shown, expected = server.status(), project.status()
        assert (shown["state"], shown["run"], shown["jobs"]) == ("DONE", expected["run"], expected["jobs"])
        assert shown["jobs"]["done"] > 1
        page = server.client.get("/crawl", headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert expected["run"] in page.text
        assert "/shelf/1" in server.client.get("/crawl/jobs").text
        assert server.client.get("/health").text == "ok\n"
    finally:
        server.stop()


def test_health_tells_a_run_that_failed(project: Project, library: Library, site: Site, serve: WebServer) -> None:
    project.write(library.defs() + "\n")
    project.crawl("--min-rows", "1000", nodes=1, code=1)
    assert until(lambda: serve.client.get("/health").text == "the last run ended with failures\n")


def test_a_dead_supervisor_is_no_health(project: Project, library: Library, serve: WebServer) -> None:
    library.set_delay(1)
    running = project.start(nodes=1)
    assert until(lambda: serve.client.get("/health").status_code == 200)
    running.process.kill()
    running.process.wait()
    assert until(lambda: serve.client.get("/health").text == "the supervisor is gone, and the run has not ended\n")
    assert serve.status()["supervisor"] is None


def test_several_data_dirs(project: Project, library: Library, tmp_path: Path) -> None:
    project.crawl(nodes=1)
    later = tmp_path / "later"
    server = WebServer(project, data=(project.data, later))
    lines = server.status()
    assert {name: line["error"] for name, line in lines.items()} == {"data": None, "later": "no such directory"}
    assert lines["data"]["done"] == server.status(data="data")["jobs"]["done"]
    missing = server.client.get("/status.json", params={"data": "dat"})
    assert (missing.status_code, missing.json()["error"]) == (400, "no data directory 'dat' (did you mean 'data'?)")
    assert server.client.get("/events", params={"data": "nope"}).status_code == 400
    shutil.copytree(project.data, later)
    assert until(lambda: server.status()["later"]["state"] == "DONE")
    server.stop()


def test_a_data_dir_that_moves_is_damaged_or_is_of_another_version(
    project: Project, library: Library, serve: WebServer, tmp_path: Path
) -> None:
    project.crawl(nodes=1)
    run = project.status()["run"]
    assert until(lambda: serve.status()["run"] == run)
    project.data.rename(tmp_path / "moved")
    assert until(lambda: error_of(serve) == "no such directory")
    shutil.copytree(tmp_path / "moved", project.data)
    assert until(lambda: not error_of(serve))
    assert serve.status()["run"] == run
    for number, expected in ((7, "made by an older version"), (99, "made by a newer version")):
        with closing(sqlite3.connect(project.data / "crawl.db")) as db:
            db.execute(f"PRAGMA user_version = {number}")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert until(lambda: expected in error_of(serve)), error_of(serve)  # noqa: B023
    shutil.rmtree(project.data)
    project.data.mkdir()
    (project.data / "crawl.db").write_bytes(os.urandom(50_000))
    assert until(lambda: bool(error_of(serve)) and "version" not in error_of(serve))
    shutil.rmtree(project.data)
    shutil.copytree(tmp_path / "moved", project.data)
    assert until(lambda: not error_of(serve))
    assert serve.status()["run"] == run
    assert not serve.running.exited


def test_events_resume_where_a_client_left(project: Project, library: Library, serve: WebServer) -> None:
    project.crawl(nodes=1)
    ids = [id_ for (id_,) in project.query("SELECT id FROM events ORDER BY id")]
    after = ids[len(ids) // 2]
    messages = []
    with serve.client.stream("GET", "/events", headers={"Last-Event-ID": str(after)}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            messages.append(line)
            if line.startswith('data: {"run"'):
                break
    log = json.loads(next(line for line in messages if line.startswith("data: [")).removeprefix("data: "))
    assert [line["id"] for line in log] == [id_ for id_ in ids if id_ > after]
    assert f"id: {ids[-1]}" in messages
    status = json.loads(messages[-1].removeprefix("data: "))
    assert status.pop("error") is None
    assert without_servers(status) == without_servers(project.status())


def test_a_unix_socket_is_for_its_owner_and_needs_no_token(project: Project, library: Library, tmp_path: Path) -> None:
    project.crawl(nodes=1)
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))  # as after a crash: a file, and nobody who listens
    server = WebServer(project, "--socket", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://anything") as local:
        assert local.get("/status.json").json() == server.status()
        assert local.post("/commands/pause").status_code == 404
        assert until(lambda: [client["address"] for client in connected(project)] == ["socket", "web 127.0.0.1"])
        [server_row] = project.status()["servers"]
        assert (server_row["url"], server_row["socket"], server_row["control"]) == (server.url, str(path), False)
        assert f"served at {server.url} and {path}, to socket, web 127.0.0.1" in project.run_with_data("status").out
    second = project.start_command("serve", "--port", "0", "--socket", str(path), "--data", str(project.data)).wait()
    assert second.code == 2
    assert "another process serves it" in second.err
    assert path.exists()
    server.stop()
    assert not path.exists()
    assert project.status()["servers"] == []
    assert list(project.data.glob("serve-*")) == []
    (tmp_path / "file").write_text("x")
    wrong = project.start_command("serve", "--port", "0", "--socket", str(tmp_path / "file")).wait()
    assert (wrong.code, (tmp_path / "file").read_text()) == (2, "x")
    deep = project.start_command("serve", "--port", "0", "--socket", str(tmp_path / ("x" * 200))).wait()
    assert (deep.code, "Traceback" in deep.err) == (2, False)


def test_bad_addresses_are_told(project: Project, serve: WebServer) -> None:
    port = serve.url.rpartition(":")[2]
    taken = project.start_command("serve", "--port", port, "--data", str(project.data)).wait()
    assert (taken.code, f"port {port} of 127.0.0.1 is in use" in taken.err) == (2, True)
    for bind in ("nowhere.invalid", "203.0.113.1", ""):
        wrong = project.start_command("serve", "--port", "0", "--bind", bind, "--data", str(project.data)).wait()
        assert (wrong.code, "Traceback" in wrong.err) == (2, False), wrong.err
    readable = project.folder / "token"
    readable.write_text("0123456789abcdef")
    readable.chmod(0o644)
    refused = project.start_command("serve", "--port", "0", "--token-file", str(readable)).wait()
    assert refused.code == 2
    assert "others may read" in refused.err


def test_other_machines_are_warned_of_and_reach_it_by_its_names(project: Project) -> None:
    server = WebServer(project, "--bind", "0.0.0.0", "--allow-host", "Board.Example")
    assert "not encrypted" in server.running.err
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    for host, status in (("board.example", 200), ("127.0.0.1", 200), ("evil.example", 403)):
        answer = server.client.get(f"{url}/status.json", headers={"Host": host})
        assert answer.status_code == status, host
    server.stop()


def test_many_clients_that_never_read_or_never_ask(project: Project, library: Library, serve: WebServer) -> None:
    """They hold no memory, and the others get their answers meanwhile."""
    project.crawl(nodes=1)
    port = int(serve.url.rpartition(":")[2])
    before = memory_of(serve.running.pid)
    request = f"GET /events?after=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\n\r\n".encode()
    clients = []
    try:
        for number in range(300):
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(request if number % 3 else b"GET /status.json HTTP/1.1\r\nHost: loc")
            clients.append(client)
        for _ in range(5):
            assert serve.client.get("/health").status_code == 200
            assert serve.status()["state"] == "DONE"
        assert memory_of(serve.running.pid) - before < 40_000_000
        silent = clients[0]
        silent.settimeout(20)
        assert silent.recv(1000) == b"", "it never finished its request"
    finally:
        for client in clients:
            client.close()


def connected(project: Project) -> list[dict[str, Any]]:
    return [client for server in project.status()["servers"] for client in server["clients"]]


def test_what_a_killed_server_left_is_no_server(project: Project, library: Library) -> None:
    project.crawl(nodes=1)
    killed = WebServer(project)
    with killed.client.stream("GET", "/events") as answer:
        chunks = answer.iter_raw()
        next(chunks)
        assert until(lambda: [client["listening"] for client in connected(project)] == [1])
    killed.running.process.kill()
    killed.running.process.wait()
    assert project.status()["servers"] == []
    server = WebServer(project)
    assert server.token == killed.token
    assert until(lambda: len(project.status()["servers"]) == 1)
    assert len(list(project.data.glob("serve-*"))) == 1
    server.stop()


def test_metrics_are_those_of_the_status(project: Project, library: Library, tmp_path: Path) -> None:
    project.crawl(nodes=1)
    server = WebServer(project, data=(project.data, tmp_path / "missing"))
    from prometheus_client.parser import text_string_to_metric_families

    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    status, data = server.status(data="data"), ("crawl", f"{project.folder.name}-data")
    assert samples[("crawl_up", ("crawl", "missing"))] == 0
    assert samples[("crawl_up", data)] == 1
    for state, count in status["jobs"].items():
        assert samples[("crawl_jobs", data, ("state", state))] == count
    for output in status["appenders"]:
        assert samples[("crawl_rows_total", data, ("output", output["name"]))] == output["rows"]
        assert samples[("crawl_output_rows", data, ("output", output["name"]))] == output["rows"]
    assert samples[("crawl_pages_total", data)] == status["jobs"]["done"]
    [host] = status["hosts"]
    for result, count in host["answers"].items():
        assert samples[("crawl_host_requests_total", data, ("host", host["host"]), ("result", result))] == count
    assert samples[("crawl_host_seconds", data, ("host", host["host"]), ("share", "0.95"))] == host["p95"]
    assert time.time() - samples[("crawl_last_success_timestamp_seconds", data)] < 60
    assert (
        samples[("crawl_last_end_timestamp_seconds", data)] == samples[("crawl_last_success_timestamp_seconds", data)]
    )
    assert samples[("crawl_last_exit_code", data)] == 0
    assert {name for (name, *labels) in samples if data not in labels} == {"crawl_up"}
    if shutil.which("promtool") is not None:
        done = subprocess.run(["promtool", "check", "metrics"], input=answer.text, capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
    server.stop()


@pytest.mark.quick
def test_another_token_ends_streams_and_logins_at_once(project: Project) -> None:
    server = WebServer(project)
    path = project.data / "serve.token"
    with server.client.stream("GET", "/events") as answer:
        chunks = answer.iter_raw()
        next(chunks)
        path.write_text("another-token-of-the-tests\n")
        assert server.client.get("/status.json").status_code == 401
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in chunks:
                pass
    new = {"Authorization": "Bearer another-token-of-the-tests"}
    assert server.client.get("/status.json", headers=new).status_code == 200
    path.write_text("")
    for headers in (new, {"Authorization": "Bearer"}):
        assert server.client.get("/status.json", headers=headers).status_code == 503
    assert server.running.err.count("nobody gets in: ") == 1
    server.stop()


def metrics_of(server: WebServer) -> dict[Any, float]:
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "crawl")): sample.value
        for family in text_string_to_metric_families(server.client.get("/metrics").text)
        for sample in family.samples
    }


def test_counters_only_rise_within_a_run(project: Project, site: Site, library: Library) -> None:
    """Pages that are retried and rows that vanish leave the gauges alone."""
    project.crawl(nodes=1)
    server = WebServer(project, "--control", "--name", "books")
    before = metrics_of(server)
    server.command("retry", state=["done"], match="/book/")
    site["/book/0-0"] = html("nothing")  # its row is gone when the page is read again
    assert until(lambda: metrics_of(server)["crawl_jobs", "done"] < before["crawl_jobs", "done"])
    retried = metrics_of(server)
    project.crawl(nodes=1)
    assert until(lambda: metrics_of(server)["crawl_running",] == 0 and server.status()["stage"] == "SHUTDOWN_COMPLETE")
    time.sleep(1.1)
    after = metrics_of(server)
    counters = [key for key in before if key[0] in ("crawl_pages_total", "crawl_rows_total")]
    assert len(counters) >= 3
    for key in counters:
        assert before[key] <= retried[key] <= after[key], key
    assert after["crawl_pages_total",] > before["crawl_pages_total",]
    book = next(key[1] for key in counters if key[0] == "crawl_rows_total" and key[1].endswith("/book"))
    assert after["crawl_output_rows", book] == before["crawl_output_rows", book] - 1
    server.stop()


def test_a_crawl_that_never_ended_well_has_series(project: Project, library: Library) -> None:
    server = WebServer(project)
    never = metrics_of(server)
    assert (never["crawl_last_success_timestamp_seconds",], never["crawl_last_end_timestamp_seconds",]) == (0, 0)
    project.crawl("--min-rows", "1000", nodes=1, code=1)
    assert until(lambda: metrics_of(server).get(("crawl_last_exit_code",)) == 1)
    ended = metrics_of(server)
    assert ended["crawl_last_success_timestamp_seconds",] == 0
    assert time.time() - ended["crawl_last_end_timestamp_seconds",] < 60
    server.stop()


def test_no_answer_holds_a_secret(
    project: Project, site: Site, second_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", test_secrets.CANARIES["env"])
    site.fallback = second_site.fallback = test_secrets.answer
    test_secrets.write_defs(project, site, second_site)
    base = f"http://{test_secrets.CANARIES['user']}:{test_secrets.CANARIES['base']}@127.0.0.1:{site.port}/"
    project.start("--set", f"base_url={base}", "--set", "max_attempts=1", nodes=1).wait()
    server = WebServer(project, "--control")
    texts = [
        server.client.get(path).text for path in ("/", "/status.json", "/metrics", "/health", "/login", "/nothing")
    ]
    with server.client.stream("GET", "/events", params={"after": "1"}) as answer:
        for text in answer.iter_text():
            texts.append(text)
            if "event: status" in text:
                break
    texts.append(server.command("seed", group="private", urls=[f"http://u:{test_secrets.ANSWERED}@h.example/"]).text)
    texts.append(server.client.get("/events", headers={"Authorization": "Bearer wrong"}).text)
    assert "canary" not in "".join(texts)
    assert server.token not in "".join(texts)
    assert project.status()["jobs"]["done"] > 5
    server.stop()


def memory_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.fixture
def served_below(project: Project, library: Library) -> Iterator[WebServer]:
    project.crawl(nodes=1)
    server = WebServer(project, "--control", "--forwarded-prefix")
    yield server
    server.stop()


@pytest.mark.quick
@pytest.mark.parametrize("keeps", [False, True], ids=["stripped", "kept"])
def test_below_a_path_all_addresses_stay_below_it(served_below: WebServer, keeps: bool) -> None:
    """Through a proxy that strips the path from requests, and through one that leaves it there."""
    before = "/crawls" if keeps else ""
    below = {"X-Forwarded-Prefix": "/crawls/", "Accept": "text/html"}
    browser = httpx.Client(base_url=served_below.url, headers=below, timeout=20)
    origin = {"Origin": served_below.url}
    refused = browser.get(f"{before}/crawl?data=data&x=/y")
    assert refused.headers["location"] == "/crawls/login?to=%2Fcrawl%3Fdata%3Ddata%26x%3D%2Fy"
    answer = browser.post(f"{before}/login?to=/crawl", data={"token": served_below.token}, headers=origin)
    assert (answer.status_code, answer.headers["location"]) == (303, "/crawls/crawl")
    assert "Path=/crawls/;" in answer.headers["set-cookie"]
    browser.cookies.set(*answer.headers["set-cookie"].partition(";")[0].split("=", 1))
    seen, waiting, leaving = set[str](), ["/crawls/"], list[str]()
    while waiting:
        path = waiting.pop()
        if path in seen or "/body" in path:
            continue
        seen.add(path)
        page = browser.get(path if keeps else path.removeprefix("/crawls"))
        assert page.status_code == 200, path
        found = re.findall(r'(?:href|src|action|data-events)="(/[^"]*)"', page.text)
        leaving += [one for one in found if not one.startswith("/crawls/") or one.startswith("/crawls/crawls")]
        waiting += [html_text.unescape(one) for one in re.findall(r'href="(/[^"]*)"', page.text)]
    assert len(seen) > 8
    assert leaving == []
    order = browser.post(f"{before}/orders/pause?data=data", data={"back": "/crawl"}, headers=origin)
    assert order.headers["location"].startswith("/crawls/crawl")
    browser.close()


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/a b", '/a"x', "/../x", "/crawl", "/a" * 101, "crawls"]
)
def test_a_path_that_is_none_is_refused(served_below: WebServer, path: str) -> None:
    answer = served_below.client.get("/status.json", headers={"X-Forwarded-Prefix": path})
    assert (answer.status_code, answer.json()["error"].partition(":")[0]) == (400, "X-Forwarded-Prefix")


def test_the_header_counts_only_where_it_is_asked_for(project: Project, serve: WebServer) -> None:
    answer = serve.client.get("/", headers={"X-Forwarded-Prefix": "/crawls", "Accept": "text/html"})
    assert "/crawls" not in answer.text
    refused = project.run_command("serve", "--root-path", "//evil.example")
    assert refused.code == 2
    assert "error: --root-path //evil.example: a root path is such as /crawls: letters, digits, and" in refused.err
