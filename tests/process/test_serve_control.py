"""`serve --control`: commands over HTTP, with the checks and words of the command line, and who gave them."""

import html as html_words
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html
from .web_server import WebServer

pytestmark = pytest.mark.timeout(90)
GIVEN = "SELECT name, state, given_by FROM commands ORDER BY id"


@pytest.fixture
def library(project: Project, site: Site) -> Library:
    library = Library(site, shelves=8, books=8, delay=0.6)
    project.write(library.defs(concurrency=4))
    return library


@pytest.fixture
def serve(project: Project) -> Iterator[WebServer]:
    server = WebServer(project, "--control")
    yield server
    server.stop()


@pytest.fixture
def running(project: Project, site: Site, library: Library) -> Running:
    running = project.start(nodes=2)
    assert until(lambda: len(site.paths) >= 5 or running.exited), running.err
    return running


@pytest.mark.quick
def test_commands_do_what_those_of_the_command_line_do(
    project: Project, site: Site, library: Library, running: Running, serve: WebServer
) -> None:
    paused = serve.command("pause")
    assert (paused.status_code, paused.json()) == (200, {"ok": True, "text": "intake paused: jobs in flight finish"})
    assert (project.status()["paused"], project.status()["paused_by"]) == ("operator", "web 127.0.0.1")
    assert "PAUSED: operator (web 127.0.0.1)" in project.run_with_data("status").out
    assert until(lambda: "  by web 127.0.0.1" in serve.client.get("/crawl").text)
    assert serve.command("scale", count=3, most=4).json()["ok"]
    host = site.url("/").partition("://")[2].rstrip("/")
    assert "delay 0 s, concurrency 3" in serve.command("host", host=host, concurrency=3).json()["text"]
    assert serve.command("kill", node="n2").json()["text"].startswith("n2 killed")
    assert until(lambda: "killed by an operator (web 127.0.0.1)" in project.run_with_data("events").out)
    assert serve.command("drain", node="n1").json()["text"].startswith("draining n1")
    assert serve.command("reload").json()["ok"]
    assert serve.command("resume").json()["text"] == "intake resumed"
    names = [name for name, _, _ in project.query(GIVEN)]
    assert names == ["pause", "scale", "host", "kill", "drain", "reload", "resume"]
    assert {(state, by) for _, state, by in project.query(GIVEN)} == {("DONE", "web 127.0.0.1")}
    assert "pause (web 127.0.0.1): intake paused" in project.run_with_data("events").out
    library.set_delay(0)
    done = running.wait()
    assert done.code == 0, done.err
    assert project.count_rows("entry", "book") == library.rows()


def test_what_the_supervisor_refuses_is_told_in_its_words(
    project: Project, library: Library, running: Running, serve: WebServer
) -> None:
    for name, arguments in [
        ("drain", {"node": "n9"}), ("kill", {"nod": "n1"}), ("scale", {"count": 0}), ("scale", {"count": "2"}),
        ("drain", {}), ("pause", {"sequence": "nothing"}), ("host", {"host": "nowhere.example", "delay": 1}),
        ("host", {"host": "nowhere.example"}), ("cancel", {"now": True}), ("pause", {"sequence": "x" * 20_000}),
    ]:  # fmt: skip
        answer = serve.command(name, **arguments)
        assert answer.status_code == 409, (name, arguments, answer.text)
        assert answer.json()["ok"] is False
    assert serve.command("drain", node="n9").json()["text"] == "no node 'n9'; running: n1, n2"
    cancelled = serve.command("cancel")
    assert cancelled.json()["text"].startswith("cancelling;")
    assert running.wait().code == 143
    assert project.status()["reason"] == "cancelled by web 127.0.0.1"


def test_jobs_are_retried_excluded_and_seeded(
    project: Project, site: Site, second_site: Site, library: Library, running: Running, serve: WebServer
) -> None:
    serve.command("pause")
    assert serve.command("exclude", match="/shelf/5", dry_run=True).json()["dry_run"] is True
    excluded = serve.command("exclude", match="/shelf/5").json()
    assert set(excluded) == {"run", "excluded", "dry_run"}
    second_site["/secret"] = html("<b>secret</b>")
    site["/extra"] = html("<b>ISBN extra</b>")
    urls = [site.url("/extra"), second_site.url("/secret"), "file:///etc/passwd", "http://u:p@h.example/"]
    seeded = serve.command("seed", group="books", urls=urls).json()
    assert (seeded["created"], seeded["unusable"]) == (2, 2)
    assert "p@" not in json.dumps(seeded)
    serve.command("resume")
    library.set_delay(0)
    assert running.wait().code in (0, 1)
    assert second_site.paths == [], "its host is at a guarded address, which the defs do not name"
    assert project.job(second_site.url("/secret"))["state"] == "SKIPPED"
    assert project.job(site.url("/extra"))["state"] == "DONE"
    retried = serve.command("retry", state=["skipped"], match="/shelf/5").json()
    assert retried["retried"] == excluded["excluded"]
    assert {by for _, _, by in project.query(GIVEN)} == {"web 127.0.0.1"}
    assert [name for name, _, _ in project.query(GIVEN)][-1] == ("retry" if retried["retried"] else "resume")
    assert ("web 127.0.0.1", "command") in project.query("SELECT source, kind FROM events")


@pytest.fixture
def skipped(project: Project, site: Site, library: Library) -> int:
    """The number of a skipped job of a run that has ended."""
    site["/shelf/1"] = Page(status=404)
    library.set_delay(0)
    project.crawl(nodes=1)
    ((id_,),) = project.query("SELECT id FROM jobs WHERE state = 'SKIPPED'")
    return int(id_)


def test_one_job_is_retried_from_its_page_and_that_is_taken_back(
    project: Project, skipped: int, serve: WebServer
) -> None:
    def post(name: str, **fields: Any) -> str:
        answer = serve.client.post(f"/orders/{name}", data=fields, follow_redirects=True)
        assert answer.status_code == 200, answer.text
        return answer.text

    def states() -> list[Any]:
        return project.query("SELECT id, state, reason FROM jobs ORDER BY id")

    before = states()
    shown = serve.client.get("/crawl/job", params={"id": skipped}).text
    asks = html_words.unescape(re.findall(r'href="(/ask/retry[^"]*)"', shown)[0])
    assert f"Retry job {skipped}" in serve.client.get(asks).text
    assert f"Retry job {skipped}" in post("retry", job=skipped)
    assert states() == before, "asked, and not done"
    answer = post("retry", job=skipped, sure="yes")
    assert "1 job READY again" in answer
    assert [one for one in states() if one not in before] == [(skipped, "READY", None)]
    assert "/ask/retry" not in serve.client.get("/crawl/job", params={"id": skipped}).text
    assert serve.client.get(asks).status_code == 400, "it has not ended"
    number = re.findall(r'name="number" value="(\d+)"', answer)[0]
    assert "1 job ended as before" in post("undo", number=number)
    assert states() == before
    assert "✗ undo: undo: it was taken back" in post("undo", number=number), "only once"
    assert [(name, by) for name, _, by in project.query(GIVEN)] == [
        ("retry", "web 127.0.0.1"), ("undo", "web 127.0.0.1")
    ]  # fmt: skip
    assert serve.command("retry", jobs=[skipped], match="x").status_code == 400


def test_scale_and_exclude_are_taken_back(project: Project, site: Site, running: Running, serve: WebServer) -> None:
    def taken_back(answer: httpx.Response) -> str:
        said = answer.text.partition('id="said-order"')[2].partition("</form>")[0]
        name = re.findall(r'<form method="post" action="/orders/(\w+)', said)[0]
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', said))
        return serve.client.post(f"/orders/{name}", data=fields, follow_redirects=True).text

    def counts() -> list[Any]:
        return project.query("SELECT arguments FROM commands WHERE name = 'scale' ORDER BY id")

    assert until(lambda: len(serve.status()["nodes"]) >= 2)
    serve.command("pause")
    answer = taken_back(serve.client.post("/orders/scale", data={"count": 3}, follow_redirects=True))
    assert [json.loads(given)["count"] for (given,) in counts()] == [3, 2], answer
    serve.command("seed", group="books", urls=[site.url("/book/more")])  # READY while it is paused
    excluded = serve.client.post("/orders/exclude", data={"match": "http*", "sure": "yes"}, follow_redirects=True)
    assert "READY again" in taken_back(excluded)
    assert project.query("SELECT count(*) FROM jobs WHERE state = 'SKIPPED'") == [(0,)]
    assert serve.command("cancel").json()["ok"]
    assert running.wait().code == 143


def test_bad_orders(project: Project, library: Library, serve: WebServer) -> None:
    assert serve.command("pause").status_code == 503, "no supervisor is alive"
    project.write(library.defs())
    library.set_delay(0)
    project.crawl(nodes=1)
    post = serve.client.post
    for name, sent, expected in [
        ("nothing", {}, 404), ("restart", {"node": "n1"}, 404), ("retry", {"state": ["ready"]}, 400),
        ("retry", {"match": 5}, 400), ("retry", {"matsch": "x"}, 400), ("retry", {"match": "state:("}, 400),
        ("exclude", {}, 400), ("exclude", {"match": ""}, 400), ("seed", {"group": "books"}, 400),
        ("seed", {"group": "none", "urls": ["http://a.example/"]}, 400), ("seed", {"group": "books", "urls": []}, 400),
        ("seed", {"group": "books", "urls": ["ftp://a.example/"]}, 409), ("retry", {"run": "zzz"}, 400),
    ]:  # fmt: skip
        answer = post(f"/commands/{name}", json=sent)
        assert answer.status_code == expected, (name, sent, answer.text)
    for body in (b"[]", b"{", b"\xff", b"[" * 100_000, b'"x"'):
        answer = post("/commands/retry", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, body[:20]
    assert post("/commands/retry", data={"match": "x"}).status_code == 400, "a form of another site can send that"
    assert serve.client.get("/commands/retry").status_code == 405
    assert project.query(GIVEN) == []


def test_without_control_there_is_no_such_route(project: Project) -> None:
    server = WebServer(project)
    assert server.command("pause").status_code == 404
    assert server.client.get("/commands/pause").status_code == 404
    server.stop()


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"},
     {"Authorization": "Bearer wrong"}, {"Authorization": ""}],
)  # fmt: skip
def test_nobody_else_commands(project: Project, serve: WebServer, headers: dict[str, str]) -> None:
    answer = serve.client.post("/commands/kill", json={}, headers=headers)
    assert answer.status_code in (401, 403)


def test_a_variable_in_a_posted_url_is_no_variable(
    project: Project, site: Site, library: Library, running: Running, serve: WebServer
) -> None:
    """Whoever may post URLs must not read the environment of the crawl."""
    site["/echo"] = Page(b"<b>x</b>")
    forms = ("%{env.PATH}", "%25{env.PATH}", "%%7Benv.PATH%7D", "%%7benv.PATH}", "%{file./etc/passwd}", "%%{env.PATH}")
    answer = serve.command("seed", group="books", urls=[site.url(f"/echo?x={form}") for form in forms]).json()
    assert "a variable cannot be posted" in answer["problems"][0]
    assert answer["unusable"] >= 4
    library.set_delay(0)
    running.wait()
    asked = [path for path in site.paths if path.startswith("/echo")]
    assert all("bin" not in path and "root" not in path for path in asked), asked
