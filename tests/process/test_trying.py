"""One page by hand: `try` shows what a crawl would write, a preview compares, `shell` shows matches."""

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

from crawl_console.cli.main import main
from crawl_console.tui.state.live_preview import LivePreview
from crawl_engine.defs.loader import load
from crawl_engine.errors import UsageError
from crawl_engine.preview.stored_pages import preview_stored_pages
from crawl_engine.settings import Settings

from .library import Library
from .member_site import MemberSite
from .project import CRAWL, LAUNCH, Completed, Project
from .site import Page, Site, html, redirect, serve_site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)

ROBOTS = Page("User-agent: *\nDisallow: /book/\n", headers={"Content-Type": "text/plain"})


InProcess = Callable[..., Completed]


@pytest.fixture
def try_here(project: Project, capfd: pytest.CaptureFixture[str]) -> InProcess:
    """Runs `try` in this process, which is faster for many refusals."""

    def run(*arguments: str, code: int = 0) -> Completed:
        with pytest.raises(SystemExit) as exit_info:
            main(["try", *arguments, "--defs", str(project.defs), "--data", str(project.data)])
        out, err = capfd.readouterr()
        assert exit_info.value.code == code, err
        return Completed(code, out, err, 0.0)

    return run


def run_try(project: Project, *arguments: str, code: int = 0, stdin: bytes | None = None) -> Completed:
    where = ("--defs", str(project.defs), "--data", str(project.data))
    done = project.start_command("try", *arguments, *where, stdin=stdin).wait(20)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    return done


def json_rows(done: Completed) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_try_shows_what_a_crawl_would_write(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    project.write(library.defs())
    site["/old"] = redirect("/shelf/0")
    done = run_try(project, "entry", site.url("/old"))
    assert json_rows(done) == [{"title": f'Book "0", {b}; née', "price": b / 100} for b in range(3)]
    assert f"link to books: {site.url('/book/0-1')}" in done.err
    assert f"link to shelves: {site.url('/shelf/1')}" in done.err
    assert f"{site.url('/shelf/0')}: 200 html" in done.err
    assert site.paths == ["/old", "/shelf/0"]
    assert not project.data.exists(), "`try` writes nothing"

    site["/bare"] = html("<i>no number</i>")
    bare = run_try(project, "book", site.url("/bare"), "--json").summary
    assert set(bare) == {"rows", "links", "not_followed", "rejected", "filtered", "warnings", "results", "document"}
    assert bare["rows"] == []
    (rejected,) = bare["rejected"]
    assert rejected["field"] == "isbn"
    assert rejected["place"].endswith("crawl.yml:17:7")
    assert bare["document"]["status"] == 200


LINKS = """\
taskGroups:
  list: {page: {dataDef: item}}
  detail: {maxDepth: 0, page: {dataDef: detail}}
  found: {page: {dataDef: detail}}
locatorGroups: {list: {locators: [{url: "http://127.0.0.1:1/"}]}}
dataDefs:
  item:
    query: {block: .item}
    fields: {sku: {attribute: id}}
    links:
      - {selector: a, allow: [/p/], deny: [old]}
      - {selector: .deep, linkGroup: detail}
      - {selector: b, attribute: data-url, inBlock: true, linkGroup: found, carry: sku}
      - {selector: .none}
      - {url: /search, inBlock: true, linkGroup: found, form: {q: "%{field.sku}"}}
  detail: {fields: {sku: {value: "%{carried.sku}"}}}
"""


def test_try_says_of_each_link_why_it_is_followed_or_not(project: Project, site: Site) -> None:
    project.write(LINKS)
    site["/"] = html(
        '<a href="/p/1">1</a><a href="/x">2</a><a href="/p/old">3</a><a href="http://other.example/p/2">4</a><a>5</a>'
        '<a href="mailto:me">6</a><a rel="nofollow" href="/p/3">7</a><i class="deep" href="/d">8</i>'
        '<div class="item" id="s1"><b data-url="/b/1">b</b><b data-url="ftp://x">c</b></div>'
    )
    shown = run_try(project, "item", site.url("/"), "--json").summary
    assert [(link["url"], link["group"], link.get("carried")) for link in shown["links"]] == [
        (site.url("/p/1"), "list", None), (site.url("/b/1"), "found", {"sku": "s1"}),
        (site.url("/search"), "found", {}),
    ]  # fmt: skip
    assert (shown["links"][2]["method"], shown["links"][2]["body"]) == ("POST", "q=s1")
    assert shown["not_followed"] == [
        "ftp://x: it is not an http URL (defs/crawl.yml:13:9)",
        "/x: none of `allow` matches its URL (defs/crawl.yml:11:9)",
        "/p/old: one of `deny` matches its URL (defs/crawl.yml:11:9)",
        "http://other.example/p/2: another host, other.example; `sameHost: false` would follow it"
        " (defs/crawl.yml:11:9)",
        "an element: it has no `href` (defs/crawl.yml:11:9)",
        "mailto:me: it is not an http URL (defs/crawl.yml:11:9)",
        "/p/3: it is marked nofollow (defs/crawl.yml:11:9)",
        "no link: `.none` matches no element (defs/crawl.yml:14:9)",
        f"{site.url('/d')}: deeper than `maxDepth` of detail",
    ]
    lines = run_try(project, "item", site.url("/")).err
    assert f"link to found: {site.url('/b/1')} carrying sku='s1'" in lines
    assert f"link to found: POST {site.url('/search')} q=s1" in lines
    assert "not followed: /x: none of `allow` matches its URL" in lines
    assert "no link: `.none` matches no element (defs/crawl.yml:14:9)" in lines.splitlines()


@pytest.mark.parametrize("relative", [False, True])
def test_try_sends_what_the_locator_of_its_url_sends(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch, relative: bool
) -> None:
    monkeypatch.setenv("KEY", "k1")
    site["/api"] = lambda request: Page(
        html(f"<b>{request.method} {request.headers.get('x-key')} {request.body.decode()}</b>")
    )
    locator = (
        f'{{url: "{"/api" if relative else site.url("/api")}", headers: {{X-Key: "%{{env.KEY}}"}}, form: {{a: "1"}}}}'
    )
    project.write(
        f"locatorGroups: {{api: {{locators: [{locator}]}}}}\ntaskGroups: {{api: {{page: {{dataDef: d}}}}}}\n"
        "dataDefs: {d: {fields: {b: {selector: b}}}}"
    )
    more = ("--base-url", site.url("")) if relative else ()
    assert json_rows(run_try(project, "d", site.url("/api"), *more)) == [{"b": "POST k1 a=1"}]


def test_try_refuses_what_a_crawl_would_refuse(project: Project, site: Site, try_here: InProcess) -> None:
    project.write(Library(site).defs(robots=True))
    site["/robots.txt"] = ROBOTS
    assert "robots.txt disallows it" in try_here("book", site.url("/book/0-0"), code=1).err
    assert "/book/0-0" not in site.paths
    assert "HTTP 404" in try_here("book", site.url("/nothing"), code=1).err
    site["/wall"] = html("<script>window._cf_chl_opt={}</script>")
    assert "blocked: challenge (window._cf_chl_opt)" in try_here("book", site.url("/wall"), code=1).err
    site["/image"] = Page(b"\x89PNG\r\n", headers={"Content-Type": "image/png"})
    assert "not a page: image/png" in try_here("book", site.url("/image"), code=1).err
    for url in ("http://127.0.0.1:9/", "http://nowhere.invalid/"):
        silent = try_here("book", url, code=1).err
        assert "connection refused" in silent or "cannot resolve host nowhere.invalid" in silent
        assert "robots" not in silent, "a host that does not answer at all"
    site["/robots.txt"] = Page("", status=503)
    assert "use --set robots=false" in try_here("book", site.url("/book/0-0"), code=1).err
    site["/robots.txt"] = ROBOTS
    site["/loop"], site["/back"] = redirect("/back"), redirect("/loop")
    assert "redirect loop" in try_here("book", site.url("/loop"), code=1).err
    for hop in range(12):
        site[f"/hop/{hop}"] = redirect(f"/hop/{hop + 1}")
    assert "more than 10 redirects" in try_here("book", site.url("/hop/0"), code=1).err
    unknown = try_here("bok", site.url("/"), code=2)
    assert "did you mean 'book'?" in unknown.err
    assert "book, entry, nothing" in try_here("zzz", site.url("/"), code=2).err
    assert try_here("book", code=2).err
    assert try_here("book", str(project.folder / "nowhere.html"), code=2).err
    assert try_here("book", "--job", "7", code=2).err


@pytest.mark.parametrize(("to_login", "check"), [(False, 'check: ".logout"'), (True, ""), (True, 'check: ".logout"')])
def test_try_does_not_extract_the_page_for_visitors(
    project: Project, site: Site, try_here: InProcess, to_login: bool, check: str
) -> None:
    member_site = MemberSite(site, to_login=to_login)
    member_site.write_defs(project, 1, check=check)
    done = try_here("page", f"http://127.0.0.1:{site.port}/page/1", code=1)
    assert done.out == ""
    assert ("redirected to the login page" if to_login else "the page lacks `check` (.logout)") in done.err
    assert "`try` and `test` do not log in" in done.err
    site["/free"] = html("<b>7</b><a class=logout>out</a>")
    open_page = try_here("page", f"http://127.0.0.1:{site.port}/free")
    assert json_rows(open_page)[0]["n"] == "7"
    assert "the host of this page has a `login`; `try` and `test` do not log in" in open_page.err
    assert member_site.logins == 0


def test_files_and_stdin_use_the_given_url(project: Project, site: Site) -> None:
    project.write(Library(site).defs())
    page = '<li><a href="/book/9">x</a><i>£1</i></li><a class=next href=two>on</a>'
    (project.folder / "page.html").write_text(page)
    done = run_try(project, "entry", "page.html", "--url", "https://shop.example/a/one")
    assert json_rows(done) == [{"title": "x", "price": 1}]
    assert "link to books: https://shop.example/book/9" in done.err
    assert "link to shelves: https://shop.example/a/two" in done.err
    assert "--url" in run_try(project, "entry", "page.html").err
    piped = run_try(project, "entry", "-", "--url", "https://shop.example/", stdin=page.encode())
    assert json_rows(piped) == json_rows(done)
    assert run_try(project, "entry", "page.html", "--url", "shop", code=2).err
    assert site.paths == []


@pytest.mark.sweep
def test_stored_pages_are_tried_and_compared_without_the_network(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=8)
    project.write(library.defs())
    project.crawl()
    site.clear_log()
    ((job,),) = project.query(f"SELECT id FROM jobs WHERE url = '{site.url('/shelf/3')}'")
    done = run_try(project, "entry", "--job", str(job))
    assert [row["title"] for row in json_rows(done)] == [f'Book "3", {b}; née' for b in range(8)]
    before = project.query("SELECT count(*), max(id) FROM rows") + project.query("SELECT count(*) FROM jobs")

    same = preview_stored_pages(project.data, load(project.defs).definitions, "book")
    assert same.counts == {"added": 0, "changed": 0, "vanished": 0, "same": 20}
    assert len(same.pages) == 20
    assert (
        min(preview_stored_pages(project.data, load(project.defs).definitions, "book").seconds for _ in range(3)) < 0.3
    )

    text = library.defs().replace("i, match:", "u, match:").replace("isbn: {", 'new: {value: "x"}\n      isbn: {')
    project.write(text.replace('block: "li"', 'block: "li, ul"'))
    new = load(project.defs).definitions
    entry = preview_stored_pages(project.data, new, "entry")
    assert len(entry.pages) == 6
    assert entry.counts == {"added": 6, "changed": 48, "vanished": 0, "same": 0}
    assert entry.emptied == {"price": 48}
    book = preview_stored_pages(project.data, new, "book", job=entry.pages[0].job)
    assert book.columns == ("new", "isbn", "path")
    assert book.counts["added"] == 0
    assert all(rejection.field == "isbn" for rejection in book.pages[0].rejected)
    changed = preview_stored_pages(project.data, new, "book").pages[0].changes[0]
    assert (changed.kind, changed.fields, changed.emptied) == ("changed", ("new",), ())
    project.write(text.replace('block: "li"', 'block: "li.none"'))
    gone = preview_stored_pages(project.data, load(project.defs).definitions, "entry")
    assert gone.counts == {"added": 0, "changed": 0, "vanished": 48, "same": 0}
    with pytest.raises(UsageError):
        preview_stored_pages(project.data, new, "entry", job=10**9)

    assert site.paths == []
    assert before == project.query("SELECT count(*), max(id) FROM rows") + project.query("SELECT count(*) FROM jobs")


def test_the_shell_reads_commands_from_stdin(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=2, books=3).defs())
    lines = ["li a", ":attr href", "li a", ":block li", "i", ":block", "xpath: //i", "regex: Book &?", "[", ":nope"]
    lines += [":attr text", ":match [0-9]+", "i", ":match (", ":match", ":fields entry", ":fields", "a.next", ":open 1"]
    lines += ["\udcff", ":attr \udcff"]
    lines += [":write page.html", ":write page.html", ":open /no/such", ":all", ":source", ":help", ":quit", "i"]
    typed = "\n".join(lines).encode(errors="surrogateescape")
    done = project.start_command("shell", site.url("/shelf/0"), "--defs", str(project.defs), stdin=typed).wait(20)
    assert done.code == 0, done.err
    assert done.err == ""
    output_lines = done.out.splitlines()
    assert "3 matches" in output_lines
    assert "   1  /book/0-0" in output_lines
    assert "3 matches in 3 blocks" in output_lines
    assert output_lines.count("3 rows, 4 links, 0 rejected, 0 filtered") == 1
    assert "error: not a CSS selector: [; it breaks off at its end" in output_lines
    assert output_lines.count("error: the line is not UTF-8") == 2
    assert any(line.startswith("error: unknown command :nope") for line in output_lines)
    assert any(line.startswith("error: the pattern '(' cannot be compiled") for line in output_lines)
    assert any(line.startswith("error: page.html exists") for line in output_lines)
    assert any(line.startswith(f"{site.url('/shelf/1')}: 200 html") for line in output_lines)
    assert b"ISBN" not in (project.folder / "page.html").read_bytes()
    assert (project.folder / "page.html").read_bytes().startswith(b"<!doctype html>")
    assert Counter(site.paths) == {"/shelf/0": 1, "/shelf/1": 1}
    assert not project.data.exists()


def test_the_shell_trusts_a_link_no_more_than_a_crawl(project: Project, site: Site) -> None:
    """Its URL is the site's: no variable, no guarded address, and a password of the site's own is not sent."""
    project.write(
        f"locatorGroups: {{g: {{locators: [{{url: '{site.url('/start')}'}}]}}}}\n"
        "taskGroups: {g: {t: {dataDef: d}}}\ndataDefs: {d: {fields: {f: {selector: a}}}}\n"
        "hosts: {127.0.0.1: {headers: {X-Key: '%{env.KEY}'}, robots: false}, localhost: {robots: false}}\n"
    )
    with serve_site() as inner:
        inner.fallback = lambda request: Page(html("inner"))
        site["/start"] = html(
            "<a href='/next?k=%{env.KEY}'>a</a>"
            f"<a href='{inner.url('/').replace('127.0.0.1', 'localhost')}'>b</a>"
            f"<a href='{site.url('/next').replace('//', '//us:pw@')}'>c</a>"
        )
        site.fallback = lambda request: Page(html(request.path))
        lines = [line for number in (1, 2, 3) for line in (f":open {site.url('/start')}", "a", f":open {number}")]
        done = project.start_command(
            "shell", site.url("/start"), "--defs", str(project.defs), stdin="\n".join(lines).encode(),
            variables={"KEY": "s3cret"},
        ).wait(20)  # fmt: skip
        assert inner.paths == []
    assert any("loopback" in line for line in done.out.splitlines())
    followed = [exchange.request for exchange in site.exchanges if exchange.request.path.startswith("/next")]
    assert [request.path for request in followed] == ["/next?k=%{env.KEY}", "/next"]
    assert all(request.headers.get("x-key") == "s3cret" for request in followed), "the rule of the host is the user's"
    assert not any("authorization" in request.headers for request in followed)


def test_the_shell_edits_and_remembers_lines_at_a_terminal(project: Project, site: Site) -> None:
    (project.folder / "page.html").write_text("<b>one\x1b[2Jtwo</b>")
    terminal, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *CRAWL, "shell", "page.html"],
        stdin=other, stdout=other, stderr=other, cwd=project.folder, start_new_session=True,
        env={**os.environ, "XDG_STATE_HOME": str(project.folder / "state"), "TERM": "dumb"},
    )  # fmt: skip
    os.close(other)
    shown = read_until(terminal, "css> ")
    os.write(terminal, b"b\n")
    shown = read_until(terminal, "css> ")
    assert "one·[2Jtwo" in shown
    assert "\x1b[2J" not in shown
    os.write(terminal, b"half")
    read_until(terminal, "half")
    time.sleep(0.1)  # an interrupt before it waits for the next key takes effect only with that key
    os.write(terminal, b"\x03")
    read_until(terminal, "css> ")
    os.write(terminal, b":open http://ann:secret@127.0.0.1:9/x //a/@href\n")
    read_until(terminal, "css> ")
    os.write(terminal, b":quit\n")
    assert process.wait(30) == 0
    os.close(terminal)
    saved = (project.folder / "state" / "crawl-console" / "shell_history").read_text()
    assert saved.splitlines() == ["b", ":open http://127.0.0.1:9/x //a/@href", ":quit"]


def read_until(terminal: int, mark: str, seconds: float = 30.0) -> str:
    shown, deadline = "", time.monotonic() + seconds
    while mark not in shown and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65536).decode("utf-8", "replace")
    assert mark in shown, shown
    return shown


def test_the_live_preview_shows_what_each_save_changes(project: Project, site: Site) -> None:
    """Compared with the state before that save; nothing is fetched or written."""
    library = Library(site, shelves=3, books=9)
    project.write(library.defs())
    project.crawl()
    site.clear_log()
    stored = project.query("SELECT id, data FROM rows ORDER BY id")
    live = LivePreview(project.data, project.defs, "book", Settings())

    def preview_lines() -> list[str]:
        return [text for text, _ in live.evaluate()]

    assert preview_lines()[0].startswith("20 pages: +0 added, ~0 changed, −0 vanished, 20 same")
    project.write(library.defs().replace("{selector: b, required: true}", '{selector: b, match: "[0-9-]+"}'))
    watch = Stopwatch()
    first = preview_lines()
    assert watch.seconds() < 2, "about 10 ms on an idle machine"
    assert first[0].startswith("20 pages: +0 added, ~20 changed")
    assert any(re.fullmatch(r"  ~ isbn: ISBN (\d+-\d) → \1", line) for line in first)
    project.write(library.defs().replace("{selector: b, required: true}", "{selector: blink}"))
    emptied = preview_lines()
    assert "✗ isbn: now empty in 20 rows that had a value" in emptied
    project.write(library.defs().replace("{selector: b, required: true}", "{selector: blink, required: true}"))
    assert preview_lines()[0].startswith("20 pages: +0 added, ~0 changed, −20 vanished")
    project.write(library.defs().replace("{selector: b,", "{selektor: b,"))
    assert "unknown-key" in preview_lines()[0]
    project.write(library.defs())
    assert preview_lines()[0].startswith("20 pages: +20 added")
    assert site.paths == []
    assert project.query("SELECT id, data FROM rows ORDER BY id") == stored
