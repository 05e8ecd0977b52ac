"""Fields of the type `file`: what is downloaded, how often, and what the rows have."""

import json
import shlex
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from .gaps import assert_spaced
from .papers import (
    PDF,
    Papers,
    assert_settled,
    entry,
    file_value,
    paper,
    part_sizes,
    stored_files,
    values_of,
    write_defs,
)
from .project import Project, until
from .site import Page, Request, Site, html, redirect
from .verified_crawl import assert_exact_sums

pytestmark = pytest.mark.timeout(90)


@pytest.mark.quick
def test_each_row_has_its_files_and_each_file_is_asked_for_once(project: Project, site: Site) -> None:
    papers = Papers(project, site, 10, 10)
    done = project.crawl()
    papers.assert_exact()
    assert_exact_sums(project)
    assert max(map(site.count, site.paths)) == 1, "100 rows on 10 pages share a logo"
    assert done.jobs == {"done": 10}, "files are no pages"
    status = project.status()
    assert status["files"] == {"done": 101, "left": 0, "failed": 0, "skipped": 0}
    assert status["waiting_rows"] == {}
    assert done.summary["fields"]["paper"]["paper"] == {"filled": 100, "of": 100}
    verified = json.loads(project.run_with_data("state", "--verify", "--json").out)
    assert verified["valid"]
    assert verified["files"] == []


def test_a_file_that_was_not_downloaded_leaves_null_and_says_why(project: Project, site: Site) -> None:
    site["/good.pdf"] = Page(b"%PDF good", headers={"Content-Type": PDF})
    site["/login.pdf"] = html("<form><input name=u><input type=password name=p></form>")
    site["/oops.pdf"] = html("<h1>Our apologies</h1>")
    site["/download"] = html("<form><input type='password'></form>")
    site["/broken.pdf"] = Page("no", 400)
    titles = ("good", "login", "oops", "gone", "broken", "data", "mail")
    hrefs = ("/good.pdf", "/login.pdf", "/oops.pdf", "/gone.pdf", "/broken.pdf", "data:,x", "mailto:a@b.example")
    pictures = entry("list", "/download", "/good.pdf", "/gone.pdf", "/good.pdf#page=2")
    entries = [entry(title, href) for title, href in zip(titles, hrefs, strict=True)]
    site["/page"] = html("".join([*entries, pictures, "<li><b>none</b></li>"]))
    write_defs(project, [site.url("/page")])
    done = project.crawl(code=1)
    assert "files: 1 done, 0 left, 4 failed, 1 skipped" in done.err
    good = paper(b"%PDF good")
    papers = values_of(project, "paper")
    assert papers == {**dict.fromkeys((*titles, "list", "none")), "good": good}
    assert values_of(project, "pictures") == {**{title: [] for title in (*titles, "none")}, "list": [good, None, good]}
    reasons = dict(project.query("SELECT url, state || ' ' || coalesce(reason, '') FROM jobs WHERE url LIKE '%/%'"))
    assert reasons[site.url("/login.pdf")] == "FAILED is a login page"
    assert reasons[site.url("/download")] == "FAILED is a login page"
    assert reasons[site.url("/oops.pdf")] == "FAILED is an HTML page, not a .pdf file"
    assert reasons[site.url("/gone.pdf")] == "SKIPPED HTTP 404 (gone)"
    assert reasons[site.url("/broken.pdf")] == "FAILED HTTP 400"
    log = "\n".join(text for (text,) in project.query("SELECT text FROM events"))
    assert "is a login page" in log
    assert "because their URL is not http or https: 2" in log
    assert site.count("/good.pdf") == 1
    assert stored_files(project) == {good["hash"]}
    assert_settled(project)
    assert_exact_sums(project)
    assert project.status()["files"] == {"done": 1, "left": 0, "failed": 4, "skipped": 1}


NAMED = {
    "/download?id=1": ("application/octet-stream", "attachment; filename*=UTF-8''Pr%C3%BCf%202024.pdf; filename=x.pdf"),
    "/download?id=2": ("application/octet-stream", 'attachment; filename="data;part=1.xlsx"'),
    "/download?id=3": ("application/force-download", "attachment; filename=manual.pdf"),
    "/download?id=4": (PDF, ""),
    "/download?id=5": ("text/plain", 'attachment; filename="prices.csv"'),
    "/download?id=6": ("application/octet-stream", 'attachment; filename="../../etc/passwd"'),
    "/download?id=7": ("application/octet-stream", f'attachment; filename="{"n" * 4_000}.pdf"'),
    "/download?id=8": (PDF, 'attachment; filename="NUL"'),
    "/get/9/report.final.tar.gz?token=1": ("application/octet-stream", ""),
}
NAMES = {
    1: ("Prüf 2024.pdf", ".pdf"), 2: ("data;part=1.xlsx", ".xlsx"), 3: ("manual.pdf", ".pdf"), 4: ("download", ".pdf"),
    5: ("prices.csv", ".csv"), 6: ("passwd", ".bin"), 7: (f"{'n' * 251}.pdf", ".pdf"), 8: ("_NUL", ".pdf"),
    9: ("report.final.tar.gz", ".gz"), 10: ("kept.pdf", ".pdf"),
}  # fmt: skip


@pytest.mark.quick
def test_a_file_has_the_name_that_the_site_gives_it_and_an_ending_that_opens(project: Project, site: Site) -> None:
    for path, (type_, disposition) in NAMED.items():
        headers = {"Content-Type": type_, "ETag": '"1"'} | ({"Content-Disposition": disposition} if disposition else {})
        site[path] = Page(b"%PDF " + path.encode(), headers=headers)
    site["/download?id=10"] = redirect("/far/kept.pdf")
    site["/far/kept.pdf"] = Page(b"%PDF kept", headers={"Content-Type": PDF})
    paths = [*NAMED, "/download?id=10"]
    site["/page"] = html("".join(entry(str(number), path) for number, path in enumerate(paths, 1)))
    write_defs(project, [site.url("/page")])
    for again in (False, True):  # the names are those of the earlier run where the site says 304
        if again:
            for path in NAMED:
                site[path] = Page(b"", 304)
        project.crawl()
        lines = project.output("paper.jsonl").read_text("utf-8").splitlines()
        files = {int(row["title"]): row["paper"] for row in map(json.loads, lines)}
        assert {number: (file["name"], Path(file["path"]).suffix) for number, file in files.items()} == NAMES
        assert [files[number]["url"] for number in sorted(files)] == [site.url(path) for path in paths]
        assert all(project.output(file["path"]).is_file() for file in files.values())


@pytest.mark.sweep
def test_equal_content_of_two_urls_is_one_file(project: Project, site: Site) -> None:
    site["/a.pdf"] = Page(b"%PDF same", headers={"Content-Type": PDF})
    site["/b"] = Page(b"%PDF same", headers={"Content-Type": "application/octet-stream"}, delay=0.5)
    site["/page"] = html(entry("a", "/a.pdf") + entry("b", "/b"))
    write_defs(project, [site.url("/page")])
    project.crawl()
    first = paper(b"%PDF same")
    assert values_of(project, "paper") == {"a": first, "b": {**first, "type": "application/octet-stream"}}
    assert len(stored_files(project)) == 1


def test_files_obey_robots_txt_and_the_address_guard(project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /private/\n"
    site["/private/a.pdf"] = Page(b"%PDF", headers={"Content-Type": PDF})
    site["/page"] = html(entry("a", "/private/a.pdf") + entry("b", "http://127.1.2.3/b.pdf"))
    write_defs(project, [site.url("/page")], robots=True)
    project.crawl()
    assert values_of(project, "paper") == {"a": None, "b": None}
    assert site.count("/private/a.pdf") == 0
    assert project.job(site.url("/private/a.pdf"))["state"] == "SKIPPED"
    guarded = project.job("http://127.1.2.3/b.pdf")
    assert guarded["state"] == "SKIPPED"
    assert "loopback" in guarded["reason"]


def test_a_file_may_be_redirected_to_another_host(project: Project, site: Site, second_site: Site) -> None:
    content = b"%PDF far" * 100
    site["/a.pdf"] = redirect("/b.pdf")
    site["/b.pdf"] = redirect(second_site.url("/signed?key=1"))
    second_site["/signed?key=1"] = Page(content, headers={"Content-Type": "application/octet-stream"})
    site["/page"] = html(entry("a", "/a.pdf"))
    write_defs(project, [site.url("/page")])
    project.crawl()
    expected = file_value(content, "pdf", "application/octet-stream")
    assert values_of(project, "paper") == {"a": expected}
    assert second_site.paths == ["/signed?key=1"]


@pytest.mark.sweep
def test_a_retried_page_takes_its_waiting_rows_back(project: Project, site: Site) -> None:
    hold = threading.Event()
    site["/a.pdf"] = Page(b"%PDF a", headers={"Content-Type": PDF}, hold=hold)
    site["/b.pdf"] = Page(b"%PDF b", headers={"Content-Type": PDF})
    site["/page"] = html(entry("old", "/a.pdf") + entry("there", "/b.pdf") + "<li><b>plain</b></li>")
    write_defs(project, [site.url("/page")])
    running = project.start()
    assert until(lambda: site.count("/a.pdf") == 1)
    assert until(lambda: project.status()["rows"] == {"paper": 2}), "others do not wait"
    assert project.status()["waiting_rows"] == {"paper": 1}
    assert (
        "files: 1 done, 1 left, 0 failed, 0 skipped; rows that wait for files: 1" in project.run_with_data("status").out
    )
    site["/page"] = html(entry("new", "/a.pdf"))
    retried = project.run_with_data("retry", "--state", "done", "--match", "group:papers !kind:file")
    assert retried.code == 0, retried.err
    assert until(lambda: site.count("/page") == 2)
    assert until(lambda: project.status()["waiting_rows"] == {"paper": 1})
    hold.set()
    assert running.wait().code == 0
    assert values_of(project, "paper") == {"new": paper(b"%PDF a")}
    assert (site.count("/a.pdf"), site.count("/b.pdf")) == (1, 1)
    assert_settled(project)
    assert_exact_sums(project)


def test_a_re_extraction_uses_the_files_that_are_there(project: Project, site: Site) -> None:
    papers = Papers(project, site, 2, 5)
    project.crawl()
    text = (project.defs / "crawl.yml").read_text("utf-8")
    (project.defs / "crawl.yml").write_text(text.replace("selector: b}", 'selector: b, match: ".+"}'), "utf-8")
    site.clear_log()
    done = project.run_with_data("extract", "--defs", str(project.defs))
    assert done.code == 0, done.err
    assert site.paths == []
    papers.assert_exact()
    assert_exact_sums(project)


@pytest.mark.sweep
def test_rows_of_new_file_fields_wait_for_the_next_run(project: Project, site: Site) -> None:
    """`extract` sends no request: the rows that name new files wait, and the run goes on with them."""
    papers = Papers(project, site, 1, 3)
    text = (project.defs / "crawl.yml").read_text("utf-8")
    (project.defs / "crawl.yml").write_text(text.replace("attribute: href, type: file", "attribute: href"), "utf-8")
    project.crawl()
    assert site.count("/paper/0-0.pdf") == 0
    (project.defs / "crawl.yml").write_text(text, "utf-8")
    done = project.run_with_data("extract", "--defs", str(project.defs))
    assert done.code == 0, done.err
    assert project.status()["waiting_rows"] == {"paper": 3}
    project.crawl()
    papers.assert_exact()
    assert site.count("/logo.png") == 1


@pytest.mark.sweep
def test_a_retried_file_changes_no_row(project: Project, site: Site) -> None:
    site["/a.pdf"] = lambda request: (
        Page("busy", 400) if request.attempt == 1 else Page(b"%PDF a", headers={"Content-Type": PDF})
    )
    site["/page"] = html(entry("a", "/a.pdf"))
    write_defs(project, [site.url("/page")])
    project.crawl(code=1)
    before = project.query("SELECT id, data FROM rows")
    assert project.run_with_data("retry", "--match", "kind:file").code == 0
    project.crawl()
    assert project.query("SELECT id, data FROM rows") == before
    assert project.job(site.url("/a.pdf"))["state"] == "DONE"
    assert len(stored_files(project)) == 1
    project.run_with_data("retry", "--state", "done", "--match", "kind:page")
    project.crawl()
    assert values_of(project, "paper") == {"a": paper(b"%PDF a")}, "the page was extracted again"
    assert site.count("/a.pdf") == 2


@pytest.mark.sweep
def test_a_missing_file_is_found_and_downloaded_again(project: Project, site: Site) -> None:
    papers = Papers(project, site, 1, 3)
    project.crawl()
    project.output(paper(papers.contents["0-1"])["path"]).unlink()
    project.output(paper(papers.contents["0-2"])["path"]).write_bytes(b"%PDF")
    site.clear_log()
    verified = json.loads(project.run_with_data("state", "--verify", "--json").out)
    assert not verified["valid"]
    assert {file["reason"] for file in verified["files"]} == {"is missing", "4 bytes instead of 520"}
    for command in verified["commands"]:
        assert project.run_with_data(*shlex.split(command)[1:]).code == 0, command
    assert sorted(site.paths) == ["/paper/0-1.pdf", "/paper/0-2.pdf"]
    papers.assert_exact()
    assert project.run_with_data("state", "--verify").code == 0


@pytest.mark.sweep
def test_files_behind_a_page_limit_are_downloaded(project: Project, site: Site) -> None:
    papers = Papers(project, site, 1, 5)
    write_defs(project, [site.url("/page/0")], group=", maxPages: 1")
    project.crawl()
    papers.assert_exact()


@pytest.mark.sweep
def test_a_cancel_keeps_waiting_rows_and_parts_for_the_next_run(project: Project, site: Site) -> None:
    hold = threading.Event()
    content = b"%PDF " + bytes(range(256)) * 4000
    tag = {"ETag": '"v"', "Content-Type": PDF}

    def respond(request: Request) -> Page:
        return Page(content, headers=tag, hold=hold) if request.attempt == 1 else Page(content, headers=tag)

    site["/a.pdf"] = respond
    site["/page"] = html(entry("a", "/a.pdf"))
    write_defs(project, [site.url("/page")])
    running = project.start("--grace", "0.2")
    assert until(lambda: site.count("/a.pdf") == 1)
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    hold.set()
    assert project.status()["waiting_rows"] == {"paper": 1}
    project.crawl()
    assert values_of(project, "paper") == {"a": paper(content)}
    assert part_sizes(project) == []
    assert_settled(project)


def test_try_shows_the_url_and_downloads_nothing(project: Project, site: Site) -> None:
    Papers(project, site, 1, 1)
    done = project.run_command("try", "paper", site.url("/page/0"), "--defs", str(project.defs), "--json")
    assert done.code == 0, done.err
    assert site.url("/paper/0-0.pdf") in done.out
    assert site.paths == ["/page/0"]


@pytest.mark.sweep
def test_a_file_gets_the_headers_and_cookies_of_its_host_and_no_other(
    project: Project, site: Site, second_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILES_KEY", "s3cret-key")

    def respond(request: Request) -> Page:
        fits = request.headers.get("x-api-key") == "s3cret-key" and "session=1" in request.headers.get("cookie", "")
        return Page(b"%PDF mine", headers={"Content-Type": PDF}) if fits else Page("no", 400)

    site["/page"] = Page(
        html(entry("a", "/mine.pdf") + entry("b", "/moved.pdf")), headers={"Set-Cookie": "session=1; Path=/"}
    )
    site["/mine.pdf"] = respond
    site["/moved.pdf"] = redirect(second_site.url("/x.pdf"))
    second_site["/x.pdf"] = Page(b"%PDF far", headers={"Content-Type": PDF})
    write_defs(project, [site.url("/page")])
    text = (project.defs / "crawl.yml").read_text("utf-8")
    rule = (
        f'  "127.0.0.1:{site.port}": {{headers: {{X-Api-Key: "%{{env.FILES_KEY}}"}}, robots: false, private: true}}\n'
    )
    project.write(text.replace("hosts:\n", f"hosts:\n{rule}"))
    project.crawl(nodes=1)
    assert values_of(project, "paper") == {"a": paper(b"%PDF mine"), "b": paper(b"%PDF far")}
    (far,) = [one.request.headers for one in second_site.exchanges if one.path == "/x.pdf"]
    assert "x-api-key" not in far
    for path in project.data.rglob("*"):
        assert not path.is_file() or b"s3cret-key" not in path.read_bytes(), path


@pytest.mark.sweep
def test_a_challenge_in_the_place_of_a_file_is_tried_again(project: Project, site: Site) -> None:
    challenge = Page("<html>wait", headers={"Content-Type": "text/html", "cf-mitigated": "challenge", "ETag": '"c"'})
    site["/a.pdf"] = lambda r: challenge if r.attempt == 1 else Page(b"%PDF a", headers={"Content-Type": PDF})
    site["/page"] = html(entry("a", "/a.pdf"))
    write_defs(project, [site.url("/page")])
    project.crawl()
    assert values_of(project, "paper") == {"a": paper(b"%PDF a")}
    assert "range" not in site.exchanges[-1].request.headers


@pytest.mark.sweep
def test_a_hosts_delay_holds_for_files_too(project: Project, site: Site) -> None:
    names = [str(number) for number in range(6)]
    for name in names:
        site[f"/{name}.pdf"] = Page(f"%PDF {name}", headers={"Content-Type": PDF})
    site["/page"] = html("".join(entry(name, f"/{name}.pdf") for name in names))
    write_defs(project, [site.url("/page")])
    text = (project.defs / "crawl.yml").read_text("utf-8")
    project.write(text.replace("delay: 0}", "delay: 0.3}"))
    project.crawl()
    starts = site.start_times()
    assert len(starts) == 7
    assert_spaced(starts, 0.3)


@pytest.mark.sweep
def test_jobs_of_files_are_listed_by_their_kind(project: Project, site: Site) -> None:
    Papers(project, site, 1, 2)
    project.crawl()
    listed = project.run_with_data("jobs", "--match", "kind:file", "--json").out.splitlines()
    assert {json.loads(line)["url"] for line in listed if '"url"' in line} == {
        site.url(path) for path in ("/logo.png", "/paper/0-0.pdf", "/paper/0-1.pdf")
    }
    assert site.url("/logo.png") not in project.run_with_data("jobs", "--json").out


def tagged(content: bytes, tag: str, unchanged: list[str]) -> Callable[[Request], Page]:
    """A file that is answered with 304 while its validator is named; those paths are noted."""

    def serve(request: Request) -> Page:
        if request.headers.get("if-none-match") == tag:
            unchanged.append(request.path)
            return Page(b"", 304, {"ETag": tag})
        return Page(content, headers={"Content-Type": PDF, "ETag": tag})

    return serve


@pytest.mark.extended
def test_a_304_with_another_etag_changes_what_the_next_run_asks_by(project: Project, site: Site) -> None:
    asked_by: list[str | None] = []

    def serve(request: Request) -> Page:
        asked_by.append(request.headers.get("if-none-match"))
        is_known = asked_by[-1] is not None
        headers = {"ETag": f'"v{len(asked_by)}"'} | ({} if is_known else {"Content-Type": PDF})
        return Page(b"" if is_known else b"%PDF", 304 if is_known else 200, headers)

    site["/a.pdf"], site["/page"] = serve, html(entry("a", "/a.pdf"))
    write_defs(project, [site.url("/page")])
    for _ in range(3):
        project.crawl()
    assert asked_by == [None, '"v1"', '"v2"']


def inodes(project: Project) -> dict[str, set[int]]:
    """By name: the inodes that the files of all runs with that name have."""
    found: dict[str, set[int]] = {}
    for path in project.data.glob("output/[0-9a-z]*/files/*.pdf"):
        if not path.parent.parent.is_symlink():
            found.setdefault(path.name, set()).add(path.stat().st_ino)
    return found


@pytest.mark.quick
def test_later_runs_ask_by_live_and_etag_and_equal_files_are_one_on_disk(project: Project, site: Site) -> None:
    unchanged: list[str] = []
    site["/tagged.pdf"] = tagged(b"%PDF tagged", '"v1"', unchanged)
    site["/plain.pdf"] = Page(b"%PDF plain", headers={"Content-Type": PDF})
    site["/moved.pdf"] = redirect("/tagged2.pdf")
    site["/tagged2.pdf"] = tagged(b"%PDF two", 'W/"w"', unchanged)
    names = ("tagged", "plain", "moved")
    site["/page"] = html("".join(entry(name, f"/{name}.pdf") for name in names))
    write_defs(project, [site.url("/page")])
    expected = {"tagged": paper(b"%PDF tagged"), "plain": paper(b"%PDF plain"), "moved": paper(b"%PDF two")}

    def crawl_again(*arguments: str, asked: list[str], same: list[str]) -> None:
        site.clear_log()
        unchanged.clear()
        project.crawl(*arguments)
        assert sorted(path for path in site.paths if path.endswith(".pdf")) == asked
        assert sorted(unchanged) == same
        assert values_of(project, "paper") == expected
        assert stored_files(project) == {value["hash"] for value in expected.values()}
        assert_exact_sums(project)
        verified = json.loads(project.run_with_data("state", "--verify", "--json").out)
        assert verified["valid"]

    asked = ["/moved.pdf", "/plain.pdf", "/tagged.pdf", "/tagged2.pdf"]
    crawl_again(asked=asked, same=[])
    crawl_again(asked=asked, same=["/tagged.pdf", "/tagged2.pdf"])
    assert [len(one) for one in inodes(project).values()] == [1, 1, 1]
    crawl_again("--set", "live=P1D", asked=[], same=[])
    assert [len(one) for one in inodes(project).values()] == [1, 1, 1]
    assert project.run_with_data("retry", "--state", "done", "--match", "kind:file tagged").code == 0
    crawl_again("--set", "live=P1D", asked=["/tagged.pdf"], same=[])
    site["/tagged.pdf"] = tagged(b"%PDF new", '"v2"', unchanged)
    expected["tagged"] = paper(b"%PDF new")
    crawl_again(asked=asked, same=["/tagged2.pdf"])
    runs = [path for path in (project.data / "output").iterdir() if not path.is_symlink()]
    assert len(runs) == 4
    pruned = json.loads(project.run_with_data("files", "prune", "--keep", "1", "--yes", "--json").out)
    assert (pruned["pruned"], pruned["bytes"]) == (3, len(b"%PDF tagged")), "the file before its edit"
    assert [len(one) for one in inodes(project).values()] == [1, 1, 1]
    latest = (project.data / "output" / "latest").resolve()
    for path in runs:
        if path != latest:
            shutil.rmtree(path)
    assert stored_files(project) == {value["hash"] for value in expected.values()}, "deletion leaves other runs alone"
    newest = latest / expected["plain"]["path"]
    newest.write_bytes(b"%PDF damaged")
    crawl_again("--set", "live=P1D", asked=["/plain.pdf"], same=[])
    shutil.rmtree(latest)
    shutil.rmtree((project.data / "output" / "latest").resolve())
    crawl_again("--set", "live=P1D", asked=asked, same=[])
