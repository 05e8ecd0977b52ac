"""What the defs of a group say about reuse, per version: rows, documents, and the context of links."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from engine.extract.context import Context
from engine.extract.page import Page
from engine.model.definition import DataDef, Definitions, Field, HostRule, Task, TaskGroup, definition_hash
from engine.model.job import LeasedJob
from engine.model.link import Link
from engine.node.def_cache import DefCache
from engine.settings import Settings
from engine.store.tables import runs, versions
from tests.contract.store.harness import StoreHarness

BOOK = DataDef(name="book", fields=(Field(name="x"),), links=(Link(selector="a"),))
SHELF = DataDef(name="shelf", links=(Link(selector="b", max_depth=4),))
LEAF = DataDef(name="leaf", fields=(Field(name="x"),))
TASK = Task(name="t", data_def="book", copy_rows=True)
GROUP = TaskGroup(name="g", tasks=(TASK,))
DEFS = Definitions(task_groups=(GROUP, TaskGroup(name="h", tasks=(TASK,))), data_defs=(BOOK, SHELF, LEAF))

Reader = Callable[..., tuple[DefCache, LeasedJob]]


@pytest.fixture
def read(store: StoreHarness) -> Reader:
    """The cache and a job of group g under these defs, with these settings."""
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")

    def read(definitions: Definitions, **settings: object) -> tuple[DefCache, LeasedJob]:
        with store.db.transaction():
            version = versions.publish(store.db, definitions, 0.0)
            runs.set_version(store.db, store.run, version)
        return DefCache(store.db, replace(Settings(), **settings), store.run), job._replace(defs_version=version)

    return read


def with_group(group: TaskGroup) -> Definitions:
    return replace(DEFS, task_groups=(group, *DEFS.task_groups[1:]))


def test_the_rows_of_data_defs_that_persist_may_be_copied(store: StoreHarness, read: Reader) -> None:
    cache, job = read(DEFS)
    with store.db.transaction():
        book = versions.ensure_data_def(store.db, BOOK.name, definition_hash(BOOK))
    assert cache.copied_data_defs(job) == {book}
    cache, job = read(with_group(replace(GROUP, tasks=(replace(TASK, copy_rows=False),))))
    assert cache.copied_data_defs(job) == frozenset()


def test_documents_are_kept_unless_a_group_says_otherwise(read: Reader) -> None:
    cache, job = read(DEFS)
    assert cache.keeps_documents(job) is None
    cache, job = read(with_group(replace(GROUP, documents=False)))
    assert (cache.keeps_documents(job), cache.keeps_documents(job._replace(group="h"))) == (False, True)


def test_equal_contexts_have_equal_links(read: Reader) -> None:
    cache, job = read(DEFS)
    context = cache.link_context(job, nofollow=True)
    assert context is not None
    assert cache.link_context(job._replace(depth=9, id=5), nofollow=True) == context
    other, job = read(replace(DEFS, base_url="http://b/", data_defs=(BOOK, SHELF)))
    assert other.link_context(job, nofollow=True) == context, "nothing that links depend on has changed"


def test_what_decides_on_links_is_in_their_context(read: Reader) -> None:
    cache, job = read(DEFS)
    contexts = [cache.link_context(job, nofollow=True), cache.link_context(job, nofollow=False)]
    contexts.append(cache.link_context(job._replace(group="h"), nofollow=True))
    for settings in ({"meta_nofollow": False}, {"max_links": 10}, {"user_agent": "other/1"}):
        cache, job = read(DEFS, **settings)
        contexts.append(cache.link_context(job, nofollow=True))
    edited = replace(BOOK, links=(Link(selector="a", allow=("x",)),))
    for definitions in (
        with_group(replace(GROUP, priority=5)),
        with_group(replace(GROUP, tasks=(TASK, Task(name="u", data_def="shelf")))),
        with_group(replace(GROUP, tasks=(TASK, Task(name="u", data_def="leaf")))),
        replace(DEFS, data_defs=(edited, SHELF, LEAF)),
        replace(DEFS, hosts=(HostRule(name="a", drop=("x",)),)),
        replace(DEFS, hosts=(HostRule(name="a", drop=("y",)),)),
    ):
        cache, job = read(definitions)
        contexts.append(cache.link_context(job, nofollow=True))
    assert len(set(contexts)) == len(contexts)


def test_the_depth_counts_where_a_link_has_a_limit(read: Reader) -> None:
    cache, job = read(with_group(replace(GROUP, tasks=(Task(name="t", data_def="shelf"),))))
    assert cache.link_context(job, nofollow=True) != cache.link_context(job._replace(depth=1), nofollow=True)


def test_a_group_without_links_has_no_context(read: Reader) -> None:
    cache, job = read(with_group(replace(GROUP, tasks=(replace(TASK, data_def="leaf"),))))
    assert cache.link_context(job, nofollow=True) is None


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
