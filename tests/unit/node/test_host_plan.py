"""What a plan leaves out, and what ends it: a version of the defs, a robots.txt that was read, a command to a host."""

import asyncio
from typing import Any, cast
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.host import HostRule, LoginRule
from crawl_engine.model.job import JobKind, LeasedJob, StoredPage
from crawl_engine.model.link import NextPage, RequestTemplate
from crawl_engine.node.def_cache import DefCache
from crawl_engine.node.handlers.visited_page import PageStage
from crawl_engine.node.pipeline import Pipeline
from crawl_engine.settings import Settings
from crawl_engine.store.tables.host.hosts import StoredRobots
from crawl_engine.store.tables.run import versions
from tests.unit.node.contexts import pipeline_of
from tests.unit.node.leased_jobs import change, leased

PLAIN = Definitions(hosts=(HostRule(name="a", nofollow=False),))
RICH = replace(
    PLAIN,
    hosts=(HostRule(name="a", login=LoginRule(url="/in", form={})),),
    data_defs=(DataDef(name="d", fields=(Field(name="f", type="file"),)),),
)
OPEN, CLOSED = "User-agent: *\nDisallow:\n", "User-agent: *\nDisallow: /x\n"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> DefCache:
    monkeypatch.setattr(versions, "read", lambda _, version: {1: PLAIN, 2: RICH}[version])
    return DefCache(cast(Any, None), Settings(), run=1)


def over(cache: DefCache, robots: StoredRobots | None = None) -> Pipeline:
    db_access = Mock(robots=Mock(return_value=robots))
    return pipeline_of(ByteBudget(capacity=2, largest=1), def_cache=cache, db_access=db_access)


def names(stages: tuple[PageStage, ...]) -> list[str]:
    return [type(stage).__name__ for stage in stages]


def test_jobs_of_a_sequence_share_a_plan_for_each_host_until_the_defs_change(cache: DefCache) -> None:
    first, second = (cache.give_plan(leased(number)) for number in (1, 2))
    assert (first.plan is second.plan, first.plan.host_key, first.plan.rule.nofollow) == (True, "a:80", False)
    assert cache.give_plan(change(leased(1), sequence=2)).plan is not first.plan
    assert cache.give_plan(change(leased(1), target="https://b/")).plan.host_key == "b:443"
    stored = StoredPage(page=7, url="http://c:81/", status=200, content_type="", size=0, fetched_at=0.0)
    assert cache.give_plan(change(leased(1), target="https://b/", stored=stored)).plan.host_key == "c:81"
    assert first.login is None
    newer = change(cache.give_plan(change(leased(1), defs_version=2)), login_number=1)
    assert newer.login is RICH.hosts[0].login
    assert cache.give_plan(leased(1)).plan is first.plan


def test_a_plan_says_whether_pages_of_its_group_lead_on(monkeypatch: pytest.MonkeyPatch) -> None:
    following = NextPage(request=RequestTemplate(url="/?n=%{n}"), variables=(("n", "i"),))
    data_defs = (DataDef(name="list", next=following), DataDef(name="item"))
    groups = tuple(
        TaskGroup(name=name, tasks=(Task(name="t", data_def=data_def),))
        for name, data_def in (("g", "list"), ("h", "item"), ("other", "none"))
    )
    monkeypatch.setattr(versions, "read", lambda *_: Definitions(data_defs=data_defs, task_groups=groups))
    cache = DefCache(cast(Any, None), Settings(), run=1)
    plans = [cache.plan(leased(1)._replace(group=group.name), "a:80") for group in groups]
    assert [plan.leads_on for plan in plans] == [True, False, False]


def test_what_a_command_to_a_host_changes_comes_with_each_lease(cache: DefCache) -> None:
    before, after = leased(1), change(leased(2), delay=5.0, concurrency=1, throttled=True)
    assert cache.give_plan(before).plan is cache.give_plan(after).plan
    assert cache.give_plan(after).terms.delay == 5.0


def test_stages_without_work_are_left_out_and_the_others_keep_their_order(cache: DefCache) -> None:
    pipeline = over(cache)
    for kind in JobKind:
        of_kind = [change(leased(1), kind=kind, sequence=3, defs_version=version) for version in (1, 2)]
        plain, rich = (names(pipeline.stages_of(cache.give_plan(job))) for job in of_kind)
        assert [name for name in rich if name not in ("NeedLogin", "HoldFiles")] == plain


def test_robots_txt_is_left_out_once_it_is_read_and_allows_all_and_not_after_a_newer_one(cache: DefCache) -> None:
    pipeline = over(cache, StoredRobots(200, OPEN, 1.0))
    robots: Any = pipeline.robots_cache
    job = cache.give_plan(leased(1))

    def obeys(job: LeasedJob) -> bool:
        return "ObeyRobots" in names(pipeline.stages_of(job))

    assert obeys(job), "it is not read yet"
    asyncio.run(robots.rules(job.host, job.defs_version))
    assert not obeys(job)
    assert obeys(change(job, host=9))
    assert obeys(cache.give_plan(change(job, defs_version=2))), "these defs may obey another one"
    robots.remember(job.host, asyncio.run(robots.parse(200, OPEN)), OPEN, 2.0)
    assert obeys(job), "it counts once it is stored"


def test_a_robots_txt_that_does_not_apply_is_left_out(cache: DefCache) -> None:
    pipeline, job = over(cache, cast(Any, "OFF")), cache.give_plan(leased(1))
    asyncio.run(pipeline.robots_cache.rules(job.host, job.defs_version))
    assert "ObeyRobots" not in names(pipeline.stages_of(job))


@pytest.mark.parametrize(("status", "text", "open_"), [(200, CLOSED, False), (404, "", True), (0, "refused", False)])
def test_only_a_robots_txt_that_disallows_nothing_is_left_out(
    cache: DefCache, status: int, text: str, *, open_: bool
) -> None:
    pipeline, job = over(cache, StoredRobots(status, text, 1.0)), cache.give_plan(leased(1))
    asyncio.run(pipeline.robots_cache.rules(job.host, job.defs_version))
    assert ("ObeyRobots" not in names(pipeline.stages_of(job))) is open_
