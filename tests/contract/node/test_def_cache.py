"""The cache of defs reads what each version of the defs says."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page
from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.host import HostRule
from crawl_engine.model.job import LeasedJob
from crawl_engine.model.link import Link
from crawl_engine.node.def_cache import DefCache
from crawl_engine.settings import Settings
from crawl_engine.store.tables.run import runs, versions
from tests.contract.store.harness import StoreHarness

BOOK = DataDef(name="book", fields=(Field(name="x"),), links=(Link(selector="a"),))
TASK = Task(name="t", data_def="book")
GROUP = TaskGroup(name="g", tasks=(TASK,))
DEFS = Definitions(task_groups=(GROUP, TaskGroup(name="h", tasks=(TASK,))), data_defs=(BOOK,))

Reader = Callable[..., tuple[DefCache, LeasedJob]]


@pytest.fixture
def read(store: StoreHarness) -> Reader:
    """The cache and a job of group g under these defs."""
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")

    def read(definitions: Definitions) -> tuple[DefCache, LeasedJob]:
        with store.db.transaction():
            version = versions.publish(store.db, definitions, 0.0)
            runs.set_version(store.db, store.run, version)
        return DefCache(store.db, Settings(), store.run), job._replace(defs_version=version)

    return read


def test_documents_are_kept_unless_a_group_says_otherwise(read: Reader) -> None:
    cache, job = read(DEFS)
    assert cache.give_plan(job).plan.keeps_documents is None
    cache, job = read(replace(DEFS, task_groups=(replace(GROUP, documents=False), *DEFS.task_groups[1:])))
    other = job._replace(group="h", sequence=job.sequence + 1)
    assert [cache.give_plan(one).plan.keeps_documents for one in (job, other)] == [False, True]


def test_links_of_each_version_drop_the_keys_of_that_version(store: StoreHarness, read: Reader) -> None:
    page = Page(url="http://a/", text="<a href='/b?x=1&y=2'>b</a>", kind="html", status=200, fetched_at=0.0)
    context = Context(group="g", locator="", locator_url="", depth=0, run="r", run_time="")
    cache, job = read(DEFS)
    jobs = [job]
    for keys in (("x",), ("y", "z"), ("z", "y")):
        _, job = read(replace(DEFS, hosts=(HostRule(name="a", drop=keys),)))
        jobs.append(job)
    compiled = [cache.compiled_data_defs(job)[0] for job in jobs]
    links = [one.extractor.extract(page, context).links for one in compiled]
    assert [[link.url for link in found] for found in links] == [
        ["http://a/b?x=1&y=2"], ["http://a/b?y=2"], ["http://a/b?x=1"], ["http://a/b?x=1"],
    ]  # fmt: skip
    assert len({one.id for one in compiled}) == 1, "no row changes"
    assert compiled[2] is compiled[3], "the memo of links serves both versions"
