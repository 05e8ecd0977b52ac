"""Downloads that break off, grow without end, drip, or whose servers lie about ranges; and a full disk."""

import contextlib
import itertools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest

from .papers import PDF, assert_settled, entry, paper, part_sizes, ranged, stored_files, values_of, write_defs
from .project import Project, until
from .raw_server import RawServer, serve_raw
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(90)

CONTENT = b"%PDF-1.7 " + bytes(range(256)) * 8_000
"""2 MB: several pieces, as they are written."""


def crawl_one(project: Project, site: Site, url: str, *arguments: str, code: int = 0) -> object:
    """A crawl of one page that names this file; returns the value in its row."""
    site["/page"] = html(entry("a", url))
    write_defs(project, [site.url("/page")])
    project.crawl(*arguments, code=code)
    assert_settled(project)
    return values_of(project, "paper")["a"]


def ranges_of(site: Site, path: str) -> list[str]:
    return [one.request.headers.get("range", "") for one in site.exchanges if one.path == path]


def half(page: Page) -> Page:
    return Page(page.body, page.status, page.headers, drop="halfway")


@pytest.mark.quick
def test_a_download_that_breaks_off_continues_where_it_was(project: Project, site: Site) -> None:
    site["/a.pdf"] = lambda r: half(ranged(CONTENT, r)) if r.attempt < 3 else ranged(CONTENT, r)
    assert crawl_one(project, site, "/a.pdf") == paper(CONTENT)
    first, second, third = (int(r.removeprefix("bytes=").removesuffix("-") or 0) for r in ranges_of(site, "/a.pdf"))
    assert 0 == first < second < third < len(CONTENT)


Lie = Callable[[Request], Page]
LIES: dict[str, Lie] = {
    "ignores the range": lambda r: Page(CONTENT, headers={"Content-Type": PDF, "ETag": '"v1"'}),
    "sends another part": lambda r: Page(
        CONTENT[5:], 206, {"Content-Type": PDF, "ETag": '"v1"', "Content-Range": f"bytes 5-{len(CONTENT) - 1}/*"}
    ),
    "sends no Content-Range": lambda r: Page(CONTENT[9:], 206, {"Content-Type": PDF, "ETag": '"v1"'}),
    "has another size now": lambda r: Page(
        b"x" * 10, 206, {"ETag": '"v1"', "Content-Range": _range_of(r, 10, _start_of(r) + 10)}
    ),
    "has another tag now": lambda r: Page(
        CONTENT[_start_of(r) :], 206, {"ETag": '"v2"', "Content-Range": _range_of(r, None, len(CONTENT))}
    ),
    "leaves the size open, and ends too early": lambda r: Page(
        CONTENT[_start_of(r) :][:10],
        206,
        {"ETag": '"v1"', "Content-Range": f"bytes {_start_of(r)}-{_start_of(r) + 9}/*"},
    ),
    "refuses the range": lambda r: Page(b"", 416),
    "sends too little of it": lambda r: Page(
        CONTENT[_start_of(r) : -7], 206, {"ETag": '"v1"', "Content-Range": _range_of(r, None, len(CONTENT))}
    ),
    "sends it packed": lambda r: Page(
        CONTENT[_start_of(r) :],
        206,
        {"ETag": '"v1"', "Content-Encoding": "gzip", "Content-Range": _range_of(r, None, len(CONTENT))},
    ),
}


def _start_of(request: Request) -> int:
    return int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))


def _range_of(request: Request, length: int | None, total: int) -> str:
    start = _start_of(request)
    return f"bytes {start}-{total - 1 if length is None else start + length - 1}/{total}"


@pytest.mark.sweep
@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_about_ranges_gives_the_right_content(project: Project, site: Site, lie: str) -> None:
    def respond(request: Request) -> Page:
        if request.attempt == 1:
            return half(ranged(CONTENT, request))
        return LIES[lie](request) if "range" in request.headers else ranged(CONTENT, request)

    site["/a.pdf"] = respond
    assert crawl_one(project, site, "/a.pdf") == paper(CONTENT)
    assert stored_files(project) == {paper(CONTENT)["hash"]}
    assert ranges_of(site, "/a.pdf")[1].startswith("bytes=")


@pytest.mark.sweep
@pytest.mark.parametrize("header", [{}, {"ETag": 'W/"v1"'}, {"ETag": '"v1"', "Accept-Ranges": "none"}])
def test_without_a_validator_it_starts_again(project: Project, site: Site, header: dict[str, str]) -> None:
    headers = {"Content-Type": PDF, **header}
    site["/a.pdf"] = lambda r: Page(CONTENT, headers=headers, drop="halfway" if r.attempt == 1 else "")
    assert crawl_one(project, site, "/a.pdf") == paper(CONTENT)
    assert ranges_of(site, "/a.pdf") == ["", ""]


@pytest.mark.sweep
def test_a_changed_file_is_downloaded_as_a_whole(project: Project, site: Site) -> None:
    new = CONTENT[::-1]
    site["/a.pdf"] = lambda r: half(ranged(CONTENT, r)) if r.attempt == 1 else ranged(new, r, tag='"v2"')
    assert crawl_one(project, site, "/a.pdf") == paper(new)


@pytest.mark.sweep
def test_what_is_sent_again_counts_once_for_the_largest_file(project: Project, site: Site) -> None:
    headers = {"Content-Type": PDF, "ETag": '"v1"'}
    site["/a.pdf"] = lambda r: Page(CONTENT, headers=headers, drop="halfway" if r.attempt == 1 else "")
    assert crawl_one(project, site, "/a.pdf", "--set", f"max_file={len(CONTENT) + 100_000}") == paper(CONTENT)
    assert ranges_of(site, "/a.pdf")[1].startswith("bytes=")


def send_head(connection: socket.socket, *headers: str) -> None:
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {PDF}", "Connection: close", *headers]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())


@pytest.mark.quick
def test_a_declared_5_gb_file_fails_before_it_is_read(project: Project, site: Site) -> None:
    sent = []

    def respond(path: str, connection: socket.socket) -> None:
        send_head(connection, "Content-Length: 5000000000")
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                sent.append(connection.send(b"x" * 65536))
                time.sleep(0.001)

    with serve_raw(respond) as server:
        assert crawl_one(project, site, server.url("/a.pdf"), code=1) is None
        job = project.job(server.url("/a.pdf"))
        assert len(server.paths) == 1
    assert (job["state"], job["reason"]) == ("FAILED", "file over 1000000000 bytes (max_file)")
    assert sum(sent) < 20_000_000
    assert part_sizes(project) == []


@pytest.mark.quick
def test_an_endless_file_fails_at_the_limit_and_leaves_nothing(project: Project, site: Site) -> None:
    def respond(path: str, connection: socket.socket) -> None:
        send_head(connection)
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"x" * 65536)

    with serve_raw(respond) as server:
        assert crawl_one(project, site, server.url("/a.pdf"), "--set", "max_file=20000000", code=1) is None
        job = project.job(server.url("/a.pdf"))
    assert (job["state"], job["reason"]) == ("FAILED", "file over 20000000 bytes (max_file)")
    assert not (project.data / "output" / "latest" / "files").exists()


def serve_drip(piece: int, pause: float, total: int) -> "contextlib.AbstractContextManager[RawServer]":
    def respond(path: str, connection: socket.socket) -> None:
        send_head(connection, f"Content-Length: {total}")
        with contextlib.suppress(OSError):
            for start in range(0, total, piece):
                connection.sendall(b"x" * min(piece, total - start))
                time.sleep(pause)

    return serve_raw(respond)


@pytest.mark.sweep
def test_a_slow_file_may_take_longer_than_the_deadline_but_a_drip_may_not(project: Project, site: Site) -> None:
    limits = ("--set", "deadline=0.8", "--set", "max_attempts=1")
    with serve_drip(1_000, 0.1, 25_000) as server:
        assert crawl_one(project, site, server.url("/a.pdf"), *limits) == paper(b"x" * 25_000)
    with serve_drip(10, 0.1, 25_000) as server:
        assert crawl_one(project, site, server.url("/b.pdf"), *limits, "--fresh", code=1) is None
        assert "timeout after 0.8 s" in project.job(server.url("/b.pdf"))["reason"]


@pytest.mark.quick
def test_a_file_is_never_held_in_memory(project: Project, site: Site) -> None:
    size = 150_000_000

    def respond(path: str, connection: socket.socket) -> None:
        send_head(connection, f"Content-Length: {size}")
        with contextlib.suppress(OSError):
            for _ in range(size // 50_000):
                connection.sendall(b"y" * 50_000)

    with serve_raw(respond) as server:
        site["/page"] = html(entry("a", server.url("/a.pdf")))
        write_defs(project, [site.url("/page")])
        running = project.start(nodes=1)
        most = 0
        while not running.exited:
            for pid in project.children("node"):
                with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/status") as status:
                    most = max(most, int(status.read().partition("VmRSS:")[2].split()[0]) * 1024)
            time.sleep(0.02)
        assert running.wait().code == 0
    assert values_of(project, "paper")["a"]["size"] == size
    assert most < 150_000_000


def test_a_file_that_the_disk_has_no_room_for_fails_and_no_other(project: Project, site: Site) -> None:
    stats = os.statvfs(project.folder)
    free = stats.f_bavail * stats.f_frsize

    def respond(path: str, connection: socket.socket) -> None:
        send_head(connection, f"Content-Length: {free * 2}")
        time.sleep(0.5)

    site["/b.pdf"] = Page(b"%PDF b", headers={"Content-Type": PDF})
    with serve_raw(respond) as server:
        site["/page"] = html(entry("a", server.url("/a.pdf")) + entry("b", "/b.pdf"))
        write_defs(project, [site.url("/page")])
        limits = ("--set", f"max_file={free * 3}", "--set", "max_attempts=1")
        project.crawl(*limits, code=1)
        assert project.job(server.url("/a.pdf"))["reason"].startswith("no room on the disk for ")
    assert values_of(project, "paper") == {"a": None, "b": paper(b"%PDF b")}


@pytest.mark.sweep
@pytest.mark.parametrize("whom", ["node", "supervisor"])
def test_a_kill_in_the_middle_of_a_download_loses_no_byte_of_it(project: Project, site: Site, whom: str) -> None:
    """What is on disk is not asked for again, and the row is written once."""
    stop = threading.Event()
    starts: list[int] = []
    with serve_stalling(starts, stop) as server:
        site["/page"] = html(entry("a", server.url("/a.pdf")))
        write_defs(project, [site.url("/page")])
        running = project.start("--set", "deadline=60", nodes=1)
        assert until(lambda: sum(part_sizes(project)) >= len(CONTENT) // 3, 40), project.describe_state()
        (pid,) = project.children("node")
        os.kill(pid if whom == "node" else running.pid, signal.SIGKILL)
        stop.set()
        done = running.wait()
        if whom == "supervisor":
            project.assert_no_process_left()
            done = project.start(nodes=1).wait()
        assert done.code == 0, done.err
    assert values_of(project, "paper") == {"a": paper(CONTENT)}
    assert starts[0] == 0
    assert starts[-1] >= len(CONTENT) // 3
    assert len(starts) == 2
    assert_settled(project)


def serve_stalling(starts: list[int], stop: threading.Event) -> "contextlib.AbstractContextManager[RawServer]":
    """A server of `CONTENT` with ranges, whose first answer stops in the middle until `stop` is set."""

    def respond(head: str, connection: socket.socket) -> None:
        start = _start_of(Request(method="GET", path="", headers=_headers_of(head), body=b"", attempt=1))
        starts.append(start)
        status = f"206 Partial Content\r\nContent-Range: bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
        lines = [f"HTTP/1.1 {status if start else '200 OK'}", f"Content-Type: {PDF}", 'ETag: "v1"', "Connection: close"]
        lines.append(f"Content-Length: {len(CONTENT) - start}")
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        body = CONTENT[start:]
        if len(starts) == 1:
            connection.sendall(body[: len(body) // 2])
            stop.wait(60)
            return
        connection.sendall(body)

    return serve_raw(respond, with_head=True)


def _headers_of(head: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in itertools.islice(head.split("\r\n"), 1, None) if ":" in line)
    return {name.strip().lower(): value.strip() for name, value in pairs}
