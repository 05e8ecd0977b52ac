"""The steps of the defs: content hashes, dependencies, and the effect of changes."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_engine.model.definition import DataDef, Definitions, Field, FilterRule, Task, TaskGroup
from crawl_engine.model.host import HostRule
from crawl_engine.model.link import Link
from crawl_engine.model.locator import Locator, LocatorGroup, SitemapLink, SitemapRules
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.supervise.checkpoints.step_graph import StepGraph, build_step_graph

ENTRY = DataDef(
    name="entry",
    block="li",
    fields=(Field(name="title", selector="a"),),
    links=(Link(selector="a.next"), Link(selector="li a", group="books")),
)
BOOK = DataDef(
    name="book", fields=(Field(name="isbn", selector="b"),), filters=(FilterRule(field="isbn", pattern="x"),)
)
DEFS = Definitions(
    locator_groups=(LocatorGroup(name="shelves", locators=(Locator(name="start", urls=("http://a/",)),)),),
    task_groups=(
        TaskGroup(name="shelves", tasks=(Task(name="list", data_def="entry"),)),
        TaskGroup(name="books", tasks=(Task(name="page", data_def="book"),)),
    ),
    data_defs=(ENTRY, BOOK),
    hosts=(HostRule(name="a"),),
)


def steps(definitions: Definitions = DEFS, base_url: str | None = None, output: Path | None = None) -> StepGraph:
    definitions = replace(definitions)  # a copy would share the index of the original
    return build_step_graph(definitions, base_url=base_url, output=output)


def hashes(graph: StepGraph) -> dict[str, str]:
    return {step.key: step.content_hash for step in graph.steps}


def changed(definitions: Definitions, **more: object) -> set[str]:
    before, after = hashes(steps()), hashes(steps(definitions, **more))
    assert set(before) == set(after)
    return {key for key in before if before[key] != after[key]}


def test_every_group_has_its_steps_in_order_each_depending_on_the_previous() -> None:
    assert [(s.key, s.dependencies) for s in steps().steps] == [
        ("shelves/seeder", ()),
        ("shelves/loader", ("seeder",)),
        ("shelves/list/parser", ("loader",)),
        ("shelves/list/filter", ("parser",)),
        ("shelves/list/appender", ("filter",)),
        ("books/loader", ("shelves/loader",)),
        ("books/page/parser", ("loader",)),
        ("books/page/filter", ("parser",)),
        ("books/page/appender", ("filter",)),
    ]
    assert steps().upstream == {"shelves": frozenset(), "books": frozenset({"shelves"})}
    assert {s.key: s.output for s in steps().steps if s.output} == {
        "shelves/list/appender": "entry", "books/page/appender": "book",
    }  # fmt: skip


def with_data_def(changed_def: DataDef) -> Definitions:
    return replace(DEFS, data_defs=tuple(changed_def if d.name == changed_def.name else d for d in DEFS.data_defs))


HOST = HostRule(name="a")
CHANGES = {
    "nothing": (DEFS, set()),
    "where it is written": (
        replace(DEFS, files=("other.yml",), data_defs=(replace(ENTRY, place=SourcePosition("x", 9, 9)), BOOK)),
        set(),
    ),
    "a locator": (
        replace(
            DEFS, locator_groups=(LocatorGroup(name="shelves", locators=(Locator(name="start", urls=("http://b/",)),)),)
        ),
        {"shelves/seeder"},
    ),
    "a selector": (
        with_data_def(replace(BOOK, fields=(Field(name="isbn", selector="i"),))),
        {"books/page/parser"},
    ),
    "a column": (
        with_data_def(replace(BOOK, fields=(*BOOK.fields, Field(name="more")))),
        {"books/page/parser", "books/page/appender"},
    ),
    "a filter": (with_data_def(replace(BOOK, filters=())), {"books/page/filter"}),
    "a link": (
        with_data_def(replace(ENTRY, links=(ENTRY.links[0], Link(selector="p a", group="books")))),
        {"shelves/list/parser", "books/loader"},
    ),
    "a link to its own group": (
        with_data_def(replace(ENTRY, links=(Link(selector="a.on"), ENTRY.links[1]))),
        {"shelves/list/parser", "shelves/loader"},
    ),
    "how deep": (
        replace(DEFS, task_groups=(DEFS.task_groups[0], replace(DEFS.task_groups[1], max_depth=2))),
        {"books/loader"},
    ),
    "how fast": (replace(DEFS, hosts=(replace(HOST, delay=1.0, concurrency=2),)), set()),
    "what is sent": (replace(DEFS, hosts=(replace(HOST, headers={"A": "1"}),)), {"shelves/loader", "books/loader"}),
    "an output": (
        replace(DEFS, appenders=(AppenderDef(name="rows", delimiter=";"),)),
        {"shelves/list/appender", "books/page/appender"},
    ),
    "an option of an output": (
        replace(DEFS, appenders=(AppenderDef(name="rows", escape_formulas=True),)),
        {"shelves/list/appender", "books/page/appender"},
    ),
    "an output of one": (
        replace(
            DEFS, appenders=(AppenderDef(name="rows"), AppenderDef(name="more", data_defs=("book",), type="jsonl"))
        ),
        {"books/page/appender"},
    ),
}


@pytest.mark.parametrize("what", list(CHANGES))
def test_a_change_changes_the_hash_of_the_steps_it_affects(what: str) -> None:
    definitions, expected = CHANGES[what]
    assert changed(definitions) == expected


def test_the_base_url_belongs_to_the_seeder_and_the_output_option_to_the_appender() -> None:
    assert changed(DEFS, base_url="http://x/") == {"shelves/seeder"}
    assert changed(DEFS, output=Path("/x/y.csv")) == {"shelves/list/appender", "books/page/appender"}


def test_groups_that_link_to_each_other_are_upstream_of_each_other() -> None:
    back = replace(BOOK, links=(Link(selector="a", group="shelves"),))
    graph = steps(with_data_def(back))
    assert graph.upstream == {"shelves": frozenset({"books"}), "books": frozenset({"shelves"})}
    dependencies = {step.key: step.dependencies for step in graph.steps}
    assert dependencies["shelves/loader"] == ("seeder", "books/loader")
    assert dependencies["books/loader"] == ("shelves/loader",)


def test_an_indirectly_linking_group_is_upstream_too() -> None:
    more = replace(BOOK, links=(Link(selector="a", group="authors"),))
    graph = steps(replace(with_data_def(more), task_groups=(*DEFS.task_groups, TaskGroup(name="authors", tasks=()))))
    assert graph.upstream["authors"] == {"books", "shelves"}


def test_a_group_that_a_sitemap_leads_to_depends_on_the_group_of_the_sitemap() -> None:
    rules = SitemapRules(links=(SitemapLink(group="detail"),))
    located = LocatorGroup(name="map", locators=(Locator(name="l", sitemap="/s", sitemap_rules=rules),))
    definitions = Definitions(locator_groups=(located,), task_groups=(TaskGroup(name="map"), TaskGroup(name="detail")))
    graph = build_step_graph(definitions, base_url=None, output=None)
    (loader,) = [step for step in graph.steps if step.key == "detail/loader"]
    assert loader.dependency_keys == ("map/loader",)
    assert graph.upstream["detail"] == {"map"}
