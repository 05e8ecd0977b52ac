"""`seed`: URLs posted into a running or finished crawl."""

import time
from pathlib import Path

import pytest

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

BOOKS = "SELECT count(*) FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = 'book'"


@pytest.fixture
def library(project: Project, site: Site) -> Library:
    """Two shelves, with pages that no link leads to: /extra/N."""
    library = Library(site, shelves=2, books=3, delay=0.2)
    for number in range(400):
        site[f"/extra/{number}"] = html(f"<b>ISBN extra-{number}</b>")
    project.write(library.defs())
    return library


def extra(site: Site, count: int) -> list[str]:
    return [site.url(f"/extra/{number}") for number in range(count)]


def held_crawl(project: Project, site: Site, library: Library) -> Running:
    """A crawl that goes on until `library.set_delay(0)` lets its last page end."""
    site["/shelf/1"] = Page(site.pages["/shelf/1"].body, delay=8)  # type: ignore[union-attr]
    running = project.start("--set", 'on_end=["echo", "pa55word"]', nodes=1)
    assert until(lambda: len(site.paths) >= 4), running.err
    return running


@pytest.mark.quick
def test_into_a_running_crawl(project: Project, site: Site, library: Library, tmp_path: Path) -> None:
    running = held_crawl(project, site, library)
    listed = tmp_path / "urls.txt"
    listed.write_text("# more\n\n" + "\n".join(extra(site, 300)) + "\n")
    posted = project.run_with_data("seed", "books", *extra(site, 2), "--from", str(listed))
    assert posted.code == 0, posted.err
    assert posted.out == "300 jobs added to books; 2 are known\n"
    [(settings,)] = project.query("SELECT value FROM meta WHERE name = 'settings'")
    assert "pa55word" not in settings
    again = project.run_with_data("seed", "books", *extra(site, 3))
    assert again.out == "0 jobs added to books; 3 are known\n"
    assert until(lambda: project.query(BOOKS)[0][0] >= 300, 20)
    assert not running.exited, "they are worked while it runs"
    done = running.wait()
    assert done.code == 0, done.err
    assert project.query(BOOKS) == [(306,)]
    assert sum(path.startswith("/extra/") for path in site.paths) == 300
    assert "seed: 300 jobs added to books" in project.run_with_data("events").out
    project.assert_clean(done)


@pytest.mark.sweep
def test_from_standard_input_while_the_pipe_goes_on(project: Project, site: Site, library: Library) -> None:
    running = held_crawl(project, site, library)
    urls = "\n".join(extra(site, 50)).encode()
    posted = project.start_command("seed", "books", "-", "--data", str(project.data), stdin=urls)
    assert posted.wait().out == "50 jobs added to books\n"
    assert running.wait().code == 0
    assert project.query(BOOKS) == [(56,)]


def test_a_finished_run_is_reopened_and_the_next_run_finishes_it(
    project: Project, site: Site, library: Library
) -> None:
    first = project.crawl(nodes=1)
    posted = project.run_with_data("seed", "books", *extra(site, 5))
    assert posted.code == 0, posted.err
    assert "`crawl-console run` works them" in posted.err
    asked = len(site.paths)
    second = project.crawl(nodes=1)
    assert second.summary["run"] == first.summary["run"]
    assert sorted(site.paths[asked:]) == [f"/extra/{number}" for number in range(5)]
    assert project.query(BOOKS) == [(11,)]
    assert project.count_rows("entry").keys() == {row for row in library.rows() if row[0] == "entry"}


@pytest.mark.sweep
def test_they_stay_over_a_reload_and_a_resume(project: Project, site: Site, library: Library) -> None:
    running = held_crawl(project, site, library)
    for number in range(60):
        site[f"/extra/{number}"] = Page(html(f"<b>ISBN extra-{number}</b>"), delay=0.2)
    text = (project.defs / "crawl.yml").read_text().replace("concurrency: 16", "concurrency: 2")
    assert project.run_with_data("seed", "books", *extra(site, 60)).code == 0
    project.write(text.replace('path: {value: "%{document.url}"}', 'path: {value: "new"}'))
    assert until(lambda: project.status()["defs_version"] == 2, 15)
    running.process.kill()
    running.wait()
    for number in range(60):
        site[f"/extra/{number}"] = html(f"<b>ISBN extra-{number}</b>")
    library.set_delay(0)
    done = project.crawl(nodes=1)
    assert project.query(BOOKS) == [(66,)]
    assert {row["path"] for row in project.rows("book")} == {"new"}
    assert done.summary["defs_version"] == 2


@pytest.mark.sweep
def test_they_count_as_written_in_the_defs(project: Project, site: Site, second_site: Site, library: Library) -> None:
    """A 404 is a failure, and the address guard lets a posted host through, also where links were skipped before."""
    site["/book/0-0"] = html(f'<b>ISBN 000-0</b><a href="{second_site.url("/linked")}">x</a>')
    links = "    links: [{selector: a, linkGroup: books, sameHost: false}]"
    path = '      path: {value: "%{document.url}"}'
    project.write(library.defs().replace(path, f"{path}\n{links}"))
    second_site["/linked"] = html("<b>linked</b>")
    second_site["/posted"] = html("<b>posted</b>")
    project.crawl(nodes=1)
    assert second_site.paths == [], "a guarded address"
    posted = project.run_with_data("seed", "books", second_site.url("/posted"), site.url("/nowhere"))
    assert posted.code == 0, posted.err
    done = project.crawl(nodes=1, code=1)
    assert done.summary["jobs"]["failed"] == 1
    assert {"/linked", "/posted"} <= set(second_site.paths)
    assert project.job(site.url("/nowhere"))["state"] == "FAILED"


def test_relative_urls_and_what_gives_no_job(project: Project, site: Site, library: Library, tmp_path: Path) -> None:
    project.crawl("--base-url", site.url("/"), nodes=1)
    listed = tmp_path / "bad.txt"
    with listed.open("w") as file:
        for number in range(100_000):
            file.write(f"http://[{number}\n")
        file.write("extra/7\n")
    began = time.monotonic()
    posted = project.run_with_data("seed", "books", "--from", str(listed), "http://me:pa55word@127.0.0.1/x", seconds=60)
    assert posted.code == 1
    assert posted.out == "1 job added to books\n"
    lines = [line for line in posted.err.splitlines() if not line.endswith(" URLs read")]
    assert lines[0] == "argument: a password cannot be posted: write the URL in the defs: http://127.0.0.1/x"
    assert lines[1] == f"{listed}:1: no usable URL: http://[0 (not a valid URL)"
    assert "99,996 more give no job" in lines
    assert time.monotonic() - began < 60
    assert b"pa55word" not in b"".join(p.read_bytes() for p in project.data.rglob("*") if p.is_file())
    project.crawl("--base-url", site.url("/"), nodes=1)
    assert site.paths[-1] == "/extra/7"


def test_bad_input(project: Project, site: Site, library: Library) -> None:
    project.crawl(nodes=1)
    for arguments, message in (
        (["bookss", "http://a.example/"], "the defs have no group 'bookss' (did you mean 'books'?)"),
        (["books"], "no URL is given"),
        (["books", "--from", "no-such-file"], "no-such-file: No such file or directory"),
        (["books", "ftp://a.example/", ""], "no usable URL: ftp://a.example/"),
    ):
        posted = project.run_with_data("seed", *arguments)
        assert posted.code == 2, arguments
        assert message in posted.err
        assert "Traceback" not in posted.err


def test_without_a_run(project: Project) -> None:
    posted = project.run_with_data("seed", "books", "http://a.example/")
    assert posted.code == 2
    assert "no run yet" in posted.err


@pytest.mark.sweep
def test_a_run_that_is_ending_refuses(project: Project, site: Site, library: Library) -> None:
    running = held_crawl(project, site, library)
    assert project.run_with_data("cancel").code == 0
    refused = None
    while not running.exited:
        posted = project.run_with_data("seed", "books", *extra(site, 1))
        if posted.code == 2:
            refused = posted
            break
    assert running.wait().code in (130, 143)
    assert refused is not None
    assert "is ending" in refused.err
