"""One page by hand: `try` gives what a crawl gives, a preview compares with what it gave, `shell` shows matches."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest

from console.cli.main import main
from console.tui.state.live_preview import LivePreview
from engine.defs.loader import load
from engine.errors import UsageError
from engine.preview.stored_pages import preview_stored_pages

from .house import CRAWL, LAUNCH, Done, House
from .library import Library
from .site import Page, Site, html, moved
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)

ROBOTS = Page("User-agent: *\nDisallow: /book/\n", headers={"Content-Type": "text/plain"})


Here = Callable[..., Done]


@pytest.fixture
def here(house: House, capfd: pytest.CaptureFixture[str]) -> Here:
    """`try` in this process, which a test of many refusals need not start anew for each."""

    def tried(*arguments: str, code: int = 0) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(["try", *arguments, "--defs", str(house.defs), "--data", str(house.data)])
        out, err = capfd.readouterr()
        assert ended.value.code == code, err
        return Done(code, out, err, 0.0)

    return tried


def tried(house: House, *arguments: str, code: int = 0, stdin: bytes | None = None) -> Done:
    where = ("--defs", str(house.defs), "--data", str(house.data))
    done = house.command("try", *arguments, *where, stdin=stdin).wait(20)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    return done


def rows_of(done: Done) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_page_gives_what_a_crawl_writes_of_it(house: House, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    house.write(library.defs())
    site["/old"] = moved("/shelf/0")
    done = tried(house, "entry", site.url("/old"))
    assert rows_of(done) == [{"title": f'Book "0", {b}; née', "price": b / 100} for b in range(3)]
    assert f"link to books: {site.url('/book/0-1')}" in done.err
    assert f"link to shelves: {site.url('/shelf/1')}" in done.err
    assert f"{site.url('/shelf/0')}: 200 html" in done.err
    assert site.paths == ["/old", "/shelf/0"]
    assert not house.data.exists(), "a try leaves nothing behind"

    site["/bare"] = html("<i>no number</i>")
    bare = tried(house, "book", site.url("/bare"), "--json").summary
    assert set(bare) == {"rows", "links", "rejected", "filtered", "document"}
    assert bare["rows"] == []
    (rejected,) = bare["rejected"]
    assert rejected["field"] == "isbn"
    assert rejected["place"].endswith("crawl.yml:17:7")
    assert bare["document"]["status"] == 200


def test_what_a_crawl_would_not_take_is_not_tried(house: House, site: Site, here: Here) -> None:
    house.write(Library(site).defs(robots=True))
    site["/robots.txt"] = ROBOTS
    assert "robots.txt disallows it" in here("book", site.url("/book/0-0"), code=1).err
    assert "/book/0-0" not in site.paths
    assert "HTTP 404" in here("book", site.url("/nothing"), code=1).err
    site["/image"] = Page(b"\x89PNG\r\n", headers={"Content-Type": "image/png"})
    assert "not a page: image/png" in here("book", site.url("/image"), code=1).err
    assert "connection refused" in here("book", "http://127.0.0.1:9/", code=1).err
    site["/loop"], site["/back"] = moved("/back"), moved("/loop")
    assert "redirect loop" in here("book", site.url("/loop"), code=1).err
    for hop in range(12):
        site[f"/hop/{hop}"] = moved(f"/hop/{hop + 1}")
    assert "more than 10 redirects" in here("book", site.url("/hop/0"), code=1).err
    unknown = here("bok", site.url("/"), code=2)
    assert "did you mean 'book'?" in unknown.err
    assert "entry, nothing" in unknown.err
    assert here("book", code=2).err
    assert here("book", str(house.folder / "nowhere.html"), code=2).err
    assert here("book", "--job", "7", code=2).err


def test_files_and_stdin_have_the_address_they_are_given(house: House, site: Site) -> None:
    house.write(Library(site).defs())
    page = '<li><a href="/book/9">x</a><i>£1</i></li><a class=next href=two>on</a>'
    (house.folder / "page.html").write_text(page)
    done = tried(house, "entry", "page.html", "--url", "https://shop.example/a/one")
    assert rows_of(done) == [{"title": "x", "price": 1}]
    assert "link to books: https://shop.example/book/9" in done.err
    assert "link to shelves: https://shop.example/a/two" in done.err
    assert "--url" in tried(house, "entry", "page.html").err
    piped = tried(house, "entry", "-", "--url", "https://shop.example/", stdin=page.encode())
    assert rows_of(piped) == rows_of(done)
    assert tried(house, "entry", "page.html", "--url", "shop", code=2).err
    assert site.paths == []


def test_stored_pages_are_tried_and_compared_without_the_network(house: House, site: Site) -> None:
    library = Library(site, shelves=6, books=8)
    house.write(library.defs())
    house.crawl()
    site.forget()
    ((job,),) = house.query(f"SELECT id FROM jobs WHERE url = '{site.url('/shelf/3')}'")
    done = tried(house, "entry", "--job", str(job))
    assert [row["title"] for row in rows_of(done)] == [f'Book "3", {b}; née' for b in range(8)]
    before = house.query("SELECT count(*), max(id) FROM rows") + house.query("SELECT count(*) FROM jobs")

    same = preview_stored_pages(house.data, load(house.defs).definitions, "book")
    assert same.counts == {"added": 0, "changed": 0, "vanished": 0, "same": 20}
    assert len(same.pages) == 20
    assert min(preview_stored_pages(house.data, load(house.defs).definitions, "book").seconds for _ in range(3)) < 0.3

    text = library.defs().replace("i, match:", "u, match:").replace("isbn: {", 'new: {value: "x"}\n      isbn: {')
    house.write(text.replace('block: "li"', 'block: "li, ul"'))
    new = load(house.defs).definitions
    entry = preview_stored_pages(house.data, new, "entry")
    assert len(entry.pages) == 6
    assert entry.counts == {"added": 6, "changed": 48, "vanished": 0, "same": 0}
    assert entry.emptied == {"price": 48}
    book = preview_stored_pages(house.data, new, "book", job=entry.pages[0].job)
    assert book.columns == ("new", "isbn", "path")
    assert book.counts["added"] == 0
    assert all(rejection.field == "isbn" for rejection in book.pages[0].rejected)
    changed = preview_stored_pages(house.data, new, "book").pages[0].changes[0]
    assert (changed.kind, changed.fields, changed.emptied) == ("changed", ("new",), ())
    house.write(text.replace('block: "li"', 'block: "li.none"'))
    gone = preview_stored_pages(house.data, load(house.defs).definitions, "entry")
    assert gone.counts == {"added": 0, "changed": 0, "vanished": 48, "same": 0}
    with pytest.raises(UsageError):
        preview_stored_pages(house.data, new, "entry", job=10**9)

    assert site.paths == []
    assert before == house.query("SELECT count(*), max(id) FROM rows") + house.query("SELECT count(*) FROM jobs")


def test_the_shell_works_by_lines_of_stdin(house: House, site: Site) -> None:
    house.write(Library(site, shelves=2, books=3).defs())
    lines = ["li a", ":attr href", "li a", ":block li", "i", ":block", "xpath: //i", "regex: Book &?", "[", ":nope"]
    lines += [":attr text", ":match [0-9]+", "i", ":match (", ":match", ":fields entry", ":fields", "a.next", ":open 1"]
    lines += [":write page.html", ":write page.html", ":open /no/such", ":all", ":source", ":help", ":quit", "i"]
    done = house.command(
        "shell", site.url("/shelf/0"), "--defs", str(house.defs), stdin="\n".join(lines).encode()
    ).wait(20)  # fmt: skip
    assert done.code == 0, done.err
    assert done.err == ""
    told = done.out.splitlines()
    assert "3 matches" in told
    assert "   1  /book/0-0" in told
    assert "3 matches in 3 blocks" in told
    assert told.count("3 rows, 4 links, 0 rejected, 0 filtered") == 1
    assert "error: not a CSS selector: '['" in told
    assert any(line.startswith("error: unknown command :nope") for line in told)
    assert any(line.startswith("error: the pattern '(' cannot be compiled") for line in told)
    assert any(line.startswith("error: page.html exists") for line in told)
    assert any(line.startswith(f"{site.url('/shelf/1')}: 200 html") for line in told)
    assert b"ISBN" not in (house.folder / "page.html").read_bytes()
    assert (house.folder / "page.html").read_bytes().startswith(b"<!doctype html>")
    assert Counter(site.paths) == {"/shelf/0": 1, "/shelf/1": 1}
    assert not house.data.exists()


def test_the_shell_edits_and_remembers_lines_at_a_terminal(house: House, site: Site) -> None:
    (house.folder / "page.html").write_text("<b>one\x1b[2Jtwo</b>")
    terminal, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *CRAWL, "shell", "page.html"],
        stdin=other, stdout=other, stderr=other, cwd=house.folder, start_new_session=True,
        env={**os.environ, "XDG_STATE_HOME": str(house.folder / "state"), "TERM": "dumb"},
    )  # fmt: skip
    os.close(other)
    shown = read_until(terminal, "css> ")
    os.write(terminal, b"b\n")
    shown = read_until(terminal, "css> ")
    assert "one·[2Jtwo" in shown
    assert "\x1b[2J" not in shown
    os.write(terminal, b"half")
    read_until(terminal, "half")
    time.sleep(0.1)  # an interrupt that comes before it waits for the next key is only seen with that key
    os.write(terminal, b"\x03")
    read_until(terminal, "css> ")
    os.write(terminal, b":quit\n")
    assert process.wait(30) == 0
    os.close(terminal)
    assert (house.folder / "state" / "crawl-console" / "shell_history").read_text().split() == ["b", ":quit"]


def read_until(terminal: int, mark: str, seconds: float = 30.0) -> str:
    shown, deadline = "", time.monotonic() + seconds
    while mark not in shown and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65536).decode("utf-8", "replace")
    assert mark in shown, shown
    return shown


def test_the_live_preview_shows_what_each_save_changes(house: House, site: Site) -> None:
    """Against what was there before that save; nothing is fetched, and nothing written."""
    library = Library(site, shelves=3, books=9)
    house.write(library.defs())
    house.crawl()
    site.forget()
    kept = house.query("SELECT id, data FROM rows ORDER BY id")
    live = LivePreview(house.data, house.defs, "book")

    def seen() -> list[str]:
        return [text for text, _ in live.evaluate()]

    assert seen()[0].startswith("20 pages: +0 added, ~0 changed, −0 vanished, 20 same")
    house.write(library.defs().replace("{selector: b, required: true}", '{selector: b, match: "[0-9-]+"}'))
    watch = Stopwatch()
    first = seen()
    assert watch.seconds() < 2, "some ten milliseconds, on a machine with nothing else to do"
    assert first[0].startswith("20 pages: +0 added, ~20 changed")
    assert any(re.fullmatch(r"  ~ isbn: ISBN (\d+-\d) → \1", line) for line in first)
    house.write(library.defs().replace("{selector: b, required: true}", "{selector: blink}"))
    emptied = seen()
    assert "✗ isbn: empty now in 20 rows that had a value" in emptied
    house.write(library.defs().replace("{selector: b, required: true}", "{selector: blink, required: true}"))
    assert seen()[0].startswith("20 pages: +0 added, ~0 changed, −20 vanished")
    house.write(library.defs().replace("{selector: b,", "{selektor: b,"))
    assert "unknown-key" in seen()[0]
    house.write(library.defs())
    assert seen()[0].startswith("20 pages: +20 added")
    assert site.paths == []
    assert house.query("SELECT id, data FROM rows ORDER BY id") == kept
