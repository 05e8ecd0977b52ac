"""Parquet files and objects of a store as outputs of a crawl: an outage delays its own output, nothing is lost."""

import io
import json
import random
from itertools import product
from typing import Any

import pyarrow.parquet
import pytest

from tests.object_store import ObjectStore
from tests.sample import sampled

from .killed_crawl import KINDS, rerun_under_kills
from .library import Library
from .project import Project, until
from .site import Site

pytestmark = pytest.mark.timeout(120)


OUTPUTS = """\
appenders:
  rows: {type: csv}
  columns: {type: parquet}
  lake: {type: parquet, path: "s3://lake/{dataDef}/{run.id}.parquet"}
  share: {type: jsonl, path: "file://FOLDER/{dataDef}.jsonl"}
"""


def write_defs(project: Project, library: Library) -> None:
    folder = project.folder / "share"
    project.write(library.defs() + OUTPUTS.replace("FOLDER", str(folder)))


def values(data: bytes, field: str) -> list[str]:
    return sorted(pyarrow.parquet.read_table(io.BytesIO(data)).column(field).to_pylist())


def outputs(project: Project) -> dict[str, dict[str, Any]]:
    return {output["name"]: output for output in project.status()["appenders"]}


def assert_exact(project: Project, object_store: ObjectStore, library: Library) -> None:
    """Each output has each row once, every version of an object was whole, and no spool is left."""
    rows = library.rows()
    run = project.status()["run"]
    for name, field in (("book", "isbn"), ("entry", "title")):
        expected = sorted(value for data_def, value, _ in rows.elements() if data_def == name)
        assert values(project.output(f"{name}.parquet").read_bytes(), field) == expected
        versions = [values(content, field) for content in object_store.versions[f"/lake/{name}/{run}.parquet"]]
        assert versions[-1] == expected
        assert all(set(version) <= set(expected) for version in versions)
        lines = (project.folder / "share" / f"{name}.jsonl").read_text("utf-8").splitlines()
        assert sorted(json.loads(line)[field] for line in lines) == expected
    assert project.count_rows("entry", "book") == rows
    assert not [path for path in project.output(".objects").rglob("*") if path.is_file()]


def test_parquet_and_objects_have_every_row(project: Project, site: Site, object_store: ObjectStore) -> None:
    library = Library(site, shelves=3, books=5)
    write_defs(project, library)
    done = project.crawl(nodes=1)
    assert_exact(project, object_store, library)
    assert {output["backlog"] for output in outputs(project).values()} == {0}
    assert {output["error"] for output in outputs(project).values()} == {None}
    assert len(object_store.versions) == 3, "each dataDef has its object, those without rows, too"
    assert "s3cret-key" not in done.out + done.err + project.logs()
    for name in ("crawl.db", "pages.db"):
        assert b"s3cret-key" not in (project.data / name).read_bytes()
    exported = project.folder / "book.parquet"
    assert project.run_with_data("export", "book", "-o", str(exported)).code == 0
    assert values(exported.read_bytes(), "isbn") == values(project.output("book.parquet").read_bytes(), "isbn")


def test_a_store_that_hangs_delays_no_other_output(project: Project, site: Site, object_store: ObjectStore) -> None:
    library = Library(site, shelves=3, books=5, delay=0.1)
    write_defs(project, library)
    object_store.pause = 2.5
    running = project.start("--set", "output_every=0.2", nodes=1)
    assert until(lambda: object_store.requests)
    assert until(lambda: project.output("book.csv").exists() and len(project.rows("book")) == 15)
    assert until(lambda: outputs(project)["columns/book"]["backlog"] == 0)
    assert outputs(project)["lake/book"]["backlog"] > 0
    object_store.pause = 0.0
    assert running.wait().code == 0
    assert_exact(project, object_store, library)


def test_the_next_run_writes_what_a_full_store_refused(project: Project, site: Site, object_store: ObjectStore) -> None:
    library = Library(site, shelves=3, books=5)
    write_defs(project, library)
    object_store.fault = (403, "QuotaExceeded")
    done = project.crawl("--set", "send_drain=1", code=3, nodes=1)
    assert "s3://lake/" in done.err
    assert "QuotaExceeded" in done.err
    failed = outputs(project)["lake/book"]
    assert (failed["rows"], failed["backlog"]) == (0, 15)
    assert "QuotaExceeded" in failed["error"]
    assert outputs(project)["columns/book"]["backlog"] == 0
    object_store.fault = None
    site.clear_log()
    project.crawl(nodes=1)
    assert site.paths == []
    assert_exact(project, object_store, library)


@pytest.mark.quick
@pytest.mark.parametrize(("kind", "seed"), sampled(list(product(KINDS, range(3))), 1))
def test_kills_leave_whole_outputs_exact(
    project: Project, site: Site, object_store: ObjectStore, kind: str, seed: int
) -> None:
    library = Library(site, shelves=6, books=6, delay=0.03)
    write_defs(project, library)
    object_store.pause = 0.02
    rng = random.Random(f"{kind} {seed}")
    rerun_under_kills(
        project, kind, rng, "--set", "output_every=0.2", count="SELECT count(*) FROM rows", until_at_most=library.size
    )
    assert_exact(project, object_store, library)
