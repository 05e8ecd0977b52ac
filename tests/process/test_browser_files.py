"""Screenshots and PDFs of pages: files of their rows, through kills, re-extraction and later runs."""

import hashlib
import json
import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from .shop_front import NEEDS_BROWSER, SANDBOX, Front, assert_nothing_left, browsers
from .site import html

pytestmark = NEEDS_BROWSER
BOTH = "{browser: {wait: '#ready', screenshot: true, pdf: true}}"
PICTURE = "{browser: {wait: '#ready', screenshot: true}}"
JSONL = "appenders: {rows: {type: jsonl}}\n"


def write(front: Front, loader: str, **more: str) -> None:
    front.write(loader, **more)
    front.project.write(JSONL, "appenders.yml")


def crawl(front: Front, *arguments: str) -> None:
    front.project.crawl(*SANDBOX, *arguments, seconds=200)


def rows(front: Front) -> list[dict[str, Any]]:
    lines = (front.project.output("item.jsonl")).read_text().splitlines()
    return sorted(map(json.loads, lines), key=lambda row: row["name"])


def check_file(front: Front, value: dict[str, Any], start: bytes) -> bytes:
    content = front.project.output(value["path"]).read_bytes()
    assert content.startswith(start)
    assert len(content) == value["size"]
    assert hashlib.sha256(content).hexdigest() == value["hash"]
    return content


def test_rows_have_a_picture_and_a_pdf_of_their_page(front: Front) -> None:
    front.pages = 3
    write(front, BOTH)
    crawl(front)
    found = rows(front)
    assert [(row["name"], row["price"]) for row in found] == [(row["name"], row["price"]) for row in front.rows]
    for row in found:
        page = front.site.url(f"/p/{row['name'][5]}")
        assert (row["screenshot"]["type"], row["screenshot"]["name"], row["screenshot"]["url"]) == (
            "image/png", "page.png", page,
        )  # fmt: skip
        assert (row["pdf"]["type"], row["pdf"]["name"]) == ("application/pdf", "page.pdf")
        check_file(front, row["screenshot"], b"\x89PNG")
        check_file(front, row["pdf"], b"%PDF")
    listed = front.project.query("SELECT type, count(*) FROM files GROUP BY type ORDER BY type")
    assert listed == [("application/pdf", 3), ("image/png", 3)]
    assert front.project.run_command("state", "--verify").code == 0
    assert not front.project.output("files/.part").exists() or not list(front.project.output("files/.part").iterdir())


def test_the_whole_page_is_on_the_picture(front: Front) -> None:
    front.pages = 1
    front.site["/p/1"] = html("<p class=item style='margin-bottom:3000px'><b>top</b></p><p id=ready>end</p>")
    write(front, "{browser: {screenshot: true, viewport: {width: 400, height: 300}}}")
    crawl(front)
    [row] = rows(front)
    content = check_file(front, row["screenshot"], b"\x89PNG")
    assert int.from_bytes(content[16:20]) == 400
    assert int.from_bytes(content[20:24]) > 3000


@pytest.mark.extended
def test_an_edit_and_a_later_run_keep_the_files(front: Front) -> None:
    front.pages = 2
    write(front, PICTURE)
    crawl(front)
    before = {row["name"]: row["screenshot"]["hash"] for row in rows(front)}
    first = front.project.output("").resolve()
    write(front, PICTURE, fields="{name: {selector: b}, twice: {selector: b}}")
    asked = len(front.site.exchanges)
    crawl(front, "--set", "live=P1D")
    second = front.project.output("").resolve()
    assert second != first
    again = rows(front)
    assert {row["twice"]: row["screenshot"]["hash"] for row in again} == before
    for row in again:
        check_file(front, row["screenshot"], b"\x89PNG")
    assert len(front.site.exchanges) == asked
    for run in (first, second):
        shutil.rmtree(run / "files")
    crawl(front, "--set", "live=P1D")
    assert [row["screenshot"] for row in rows(front)] == [None] * 6
    assert "the page has no screenshot: the file of the time at which it was rendered is no longer there" in (
        front.project.run_command("events").out
    )


def test_a_file_that_is_too_large_is_told(front: Front) -> None:
    front.pages = 1
    write(front, PICTURE)
    crawl(front, "--set", "max_file=1000")
    assert [row["screenshot"] for row in rows(front)] == [None] * 3
    assert "the page has no screenshot: it has" in front.project.run_command("events").out


def test_pages_that_need_no_browser_have_no_picture(front: Front) -> None:
    front.pages = 2
    front.site["/p/2"] = html("<li class=item><b>Plain</b> <i>1</i></li>")
    write(front, "{browser: {when: {missing: .item}, wait: '#ready', screenshot: true}}")
    crawl(front)
    assert {row["name"]: row["screenshot"] is None for row in rows(front)} == {
        "Item 1-0": False, "Item 1-1": False, "Item 1-2": False, "Plain": True,
    }  # fmt: skip


def test_kills_lose_neither_rows_nor_files(front: Front) -> None:
    front.pages = 30
    write(front, BOTH)
    running = front.project.start(*SANDBOX, "--set", "max_attempts=20", nodes=2)
    chance, killed = random.Random(5), 0
    while not running.exited and killed < 6:
        time.sleep(chance.uniform(0.5, 2.0))
        victims = browsers(front.project) + front.project.children("node")
        if victims and len(front.project.query("SELECT 1 FROM jobs WHERE state = 'DONE'")) > 2:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
                killed += 1
    assert running.wait(200).code == 0
    found = rows(front)
    assert [row["name"] for row in found] == sorted(row["name"] for row in front.rows)
    for row in found:
        check_file(front, row["screenshot"], b"\x89PNG")
        check_file(front, row["pdf"], b"%PDF")
    assert front.project.run_command("state", "--verify").code == 0
    assert_nothing_left(front.project)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("{name: {selector: b}, screenshot: {selector: img}}", "conflict `screenshot` of the browser gives 'item' a"),
        ("", "no-effect `screenshot` gives rows a file, and no dataDef of the group has `fields`"),
    ],
)
def test_columns_that_cannot_be_are_refused(front: Front, fields: str, problem: str) -> None:
    front.write(PICTURE, fields=fields or "{}")
    if not fields:
        path = Path(front.project.defs / "crawl.yml")
        path.write_text(path.read_text().replace("    fields: {}", "    links: [{selector: a}]"))
    done = front.project.run_command("check")
    assert done.code == 2
    assert problem in done.out + done.err
