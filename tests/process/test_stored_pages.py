"""Unchanged pages are stored once; `pages` lists, shows and prunes them, and later runs work as before."""

import json
import signal

import pytest
from warcio.archiveiterator import ArchiveIterator

from .library import Library
from .project import Project, until
from .site import Site
from .test_revalidate import defs_of, versioned_library

pytestmark = pytest.mark.timeout(120)


def stored_bodies(project: Project) -> int:
    return int(project.query("SELECT count(*) FROM pages WHERE body <> x''", "pages.db")[0][0])


def test_pages_that_are_unchanged_are_stored_once_and_pruned(project: Project, site: Site) -> None:
    library, versions = versioned_library(site)
    project.write(library.defs())
    for run in range(1, 4):
        project.crawl()
        assert stored_bodies(project) == library.size
        assert project.query("SELECT count(*) FROM documents") == [(run * library.size,)]
        assert project.count_rows("entry", "book") == library.rows()
    assert versions.take_statuses() == {200: 3 * library.size}

    listed = project.run_with_data("pages", "list", "--json", "--match", "/BOOK/0-0$", "--run", runs(project)[2])
    [page] = [json.loads(line) for line in listed.out.splitlines()]
    assert page["url"].endswith("/book/0-0")
    assert project.run_with_data("pages", "show", page["url"], "--body").out == versions.bodies["/book/0-0"]

    assert project.run_with_data("export", "-o", str(project.folder / "x.warc.gz")).code == 0
    with (project.folder / "x.warc.gz").open("rb") as stream:
        records = [record.rec_type for record in ArchiveIterator(stream, check_digests="raise")]
    assert records == ["warcinfo", *["response"] * library.size]
    for wrong in (["book", "-o", "x.warc"], ["--format", "warc", "-o", "x.csv"], ["--format", "csv", "-o", "x.warc"]):
        assert project.run_with_data("export", *wrong).code == 2

    refused = project.run_with_data("pages", "prune", "--keep", "1")
    assert (refused.code, refused.err.splitlines()[0]) == (
        2, "error: pages prune: no terminal to ask on; nothing was deleted",
    )  # fmt: skip
    pruned = json.loads(project.run_with_data("pages", "prune", "--keep", "1", "--yes", "--json").out)
    assert pruned["pruned"] == 2 * library.size
    assert stored_bodies(project) == library.size
    assert project.run_with_data("state", "--verify").code == 0
    assert project.run_with_data("extract", "--defs", str(project.defs)).code == 0
    assert project.count_rows("entry", "book") == library.rows()

    project.run_with_data("pages", "prune", "--keep", "0", "--yes")
    assert project.query("SELECT count(*) FROM pages", "pages.db") == [(0,)]
    gone = project.run_with_data("pages", "show", page["url"])
    assert (gone.code, gone.err.splitlines()[0]) == (2, f"error: {project.data}: no page {page['url']} is stored")
    project.write(defs_of(library))
    project.crawl()
    assert versions.take_statuses() == {200: library.size}, "without a version to ask with"
    project.crawl()
    assert versions.take_statuses() == {304: library.size}
    assert project.count_rows("entry", "book") == library.rows()


def runs(project: Project) -> list[str]:
    return [id_ for (id_,) in project.query("SELECT id FROM runs ORDER BY seq")]


@pytest.mark.quick
def test_a_prune_is_refused_while_a_crawl_runs_and_leaves_what_an_unfinished_run_has(
    project: Project, site: Site
) -> None:
    library = Library(site)
    project.write(library.defs())
    project.crawl()
    library.set_delay(0.2)
    running = project.start("--set", "concurrency=2", nodes=1)
    assert until(lambda: project.query("SELECT count(*) FROM documents WHERE run = 2") > [(3,)])
    refused = project.run_with_data("pages", "prune", "--keep", "0", "--yes")
    assert (refused.code, "pages prune" in refused.err, "cancel" in refused.err) == (4, True, True)
    running.send(signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()
    [(fetched,)] = project.query("SELECT count(*) FROM documents WHERE run = 2")
    project.run_with_data("pages", "prune", "--keep", "0", "--yes")
    assert project.query("SELECT count(*) FROM documents WHERE NOT pruned") == [(fetched,)]
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
    assert project.query("SELECT count(*) FROM jobs WHERE run = 2 AND attempts > 1") == [(0,)]
