"""Child jobs of pages: their depth, identity, and what they send; the next page of a series."""

from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.model.definition import Definitions, TaskGroup
from crawl_engine.model.job import LeasedJob, Request, link_key, locator_key, request_key
from crawl_engine.model.link import PLAIN_LINK, Carried, LinkDetails, LinkRequest, PageBlocks
from crawl_engine.model.locator import Series
from crawl_engine.model.record import ExtractedLink
from crawl_engine.node.extraction.child_jobs import CHILDREN_PER_PIECE, ChildJobs
from crawl_engine.node.seen_set import SeenSet
from crawl_engine.store.tables.job.linked_jobs import ChildJob
from tests.unit.node.extraction.messages import read_back, with_links
from tests.unit.node.leased_jobs import change, leased


class Defs:
    """Replaces the cache of defs."""

    def __init__(self, **limits: Any) -> None:
        self.group = TaskGroup(name="g", **limits)

    def task_group(self, version: int, name: str) -> TaskGroup:
        return self.group

    def definitions(self, version: int) -> Definitions:
        return Definitions(task_groups=(self.group,))


class Locators:
    """Replaces the store: one locator has a series."""

    def __init__(self, series: Series | None = None) -> None:
        self._series = series

    def series(self, locator: int) -> Series | None:
        return self._series


def child_jobs(seen: SeenSet | None = None, series: Series | None = None, **limits: Any) -> ChildJobs:
    defs: Any = Defs(**limits)
    store: Any = Locators(series)
    return ChildJobs(defs, SeenSet() if seen is None else seen, store)


JOB = change(leased(1), depth=2, locator="l", locator_id=4)
GET_NEXT = LinkDetails(LinkRequest(relation="next"))


def link(url: str = "http://a/x", details: LinkDetails | None = None, max_depth: int | None = None) -> ExtractedLink:
    request = PLAIN_LINK if details is None else details.request
    key = link_key("g", url) if request.is_plain_get else request_key("g", url, request.method, request.body)
    return ExtractedLink(url, "g", 5, max_depth, key, details=details)


def made(jobs: ChildJobs, *links: ExtractedLink, job: LeasedJob = JOB) -> tuple[ChildJob, ...]:
    """The children, which must be the same where their links come from a process."""
    sent = read_back(with_links(*links)).links
    from_process = [child for piece in jobs.of_links(job, sent) for child in piece]
    children = [child for piece in jobs.of_links(job, links, have_details=True) for child in piece]
    assert children == from_process
    return tuple(children)


@pytest.mark.parametrize(("relation", "depth"), [("link", 3), ("next", 2), ("canonical", 2)])
def test_the_next_page_and_the_canonical_url_stay_at_the_depth_of_their_page(relation: Any, depth: int) -> None:
    (child,) = made(child_jobs(), link(details=LinkDetails(LinkRequest(relation=relation))))
    assert child.depth == depth


@pytest.mark.parametrize(("relation", "created"), [("link", 0), ("next", 1), ("canonical", 1)])
def test_the_depth_limit_of_a_group_counts_that_depth(relation: Any, created: int) -> None:
    details = LinkDetails(LinkRequest(relation=relation))
    assert len(made(child_jobs(max_depth=2), link(details=details))) == created
    assert len(made(child_jobs(), link(details=details, max_depth=2))) == created


def test_a_plain_link_has_the_key_of_its_link_and_sends_nothing_else() -> None:
    (child,) = made(child_jobs(), link())
    assert (child.identity, child.page_key, child.request, child.carried) == (
        link_key("g", "http://a/x"),
        None,
        None,
        None,
    )
    assert (child.priority, child.in_series) == (5, False)


def test_a_link_takes_along_what_it_sends_and_carries() -> None:
    request = LinkRequest(method="POST", body="a=1", content_type="text/x")
    carried = Carried(values={"a": "b"}).to_json()
    (child,) = made(child_jobs(), link(details=LinkDetails(request, carried)))
    assert child.identity == request_key("g", "http://a/x", "POST", "a=1")
    assert (child.request, child.carried, child.page_key) == (request.to_json(), carried, None)


def test_a_next_page_is_identified_as_if_its_locator_named_it() -> None:
    job = JOB._replace(request=Request(userinfo="me:pw"))
    (child,) = made(child_jobs(), link(details=GET_NEXT), job=job)
    assert child.identity == locator_key("g", "l", "http://a/x", "GET", None, "me")
    assert child.page_key == link_key("g", "http://a/x"), "it joins a page that a plain link leads to"
    posted = LinkDetails(LinkRequest(method="POST", body="c=2", relation="next"))
    (child,) = made(child_jobs(), link(details=posted), job=job)
    assert child.identity == locator_key("g", "l", "http://a/x", "POST", "c=2", "me")
    assert child.page_key is None


def test_the_first_of_two_links_to_one_page_counts() -> None:
    one, two = (LinkDetails(carried=Carried(values={"n": n}).to_json()) for n in "12")
    (child,) = made(child_jobs(), link(details=one), link(details=two))
    assert child.carried == one.carried


def test_the_first_counts_across_pieces_too() -> None:
    one, two = (LinkDetails(carried=Carried(values={"n": n}).to_json()) for n in "12")
    many = [link(f"http://a/{number}") for number in range(CHILDREN_PER_PIECE)]
    children = made(child_jobs(), link(details=one), *many, link(details=two))
    assert [child.carried for child in children if child.url == "http://a/x"] == [one.carried]


def test_a_canonical_url_keeps_the_priority_of_its_page() -> None:
    details = LinkDetails(LinkRequest(relation="canonical"))
    (child,) = made(child_jobs(), link(details=details), job=change(JOB, priority=9))
    assert child.priority == 9


def test_known_links_are_left_out_unless_they_carry_values() -> None:
    seen = SeenSet()
    carrying = LinkDetails(carried=Carried(values={"n": "1"}).to_json())
    posting = LinkDetails(LinkRequest(method="POST"))
    links = [link("http://a/1"), link("http://a/2", carrying), link("http://a/3", posting), link("http://a/4")]
    seen.add(one.key for one in links[:3])
    assert [child.url[-1] for child in made(child_jobs(seen), *links)] == ["2", "4"]
    again = made(child_jobs(seen), *links, job=change(JOB, links_stale=True))
    assert [child.url[-1] for child in again] == ["1", "2", "3", "4"]


def test_many_known_links_beside_carrying_ones_take_little_time() -> None:
    from tests.process.stopwatch import Stopwatch

    seen = SeenSet()
    carrying = LinkDetails(carried=Carried(values={"n": "1"}).to_json())
    links = [link(f"http://a/{n}", carrying if n == 0 else None) for n in range(20_000)]
    seen.add(one.key for one in links[::2])
    watch = Stopwatch()
    [children] = child_jobs(seen).of_links(JOB, links, have_details=True)
    assert len(children) == 10_001
    assert watch.seconds() < 2


SERIES = Series(url=("http://a/?p=", ""), first=1)
BLOCKS = PageBlocks(True, "b1")


def following(
    job: LeasedJob, blocks: PageBlocks | None = BLOCKS, series: Series | None = SERIES, **limits: Any
) -> ChildJob | None:
    children = child_jobs(series=series, **limits).of_series(job, blocks)
    assert len(children) <= 1
    return children[0] if children else None


FIRST = change(JOB, depth=0, page_number=1)


def test_the_next_page_of_a_series_is_a_page_of_its_locator() -> None:
    child = following(FIRST, priority=7)
    assert child is not None
    assert (child.url, child.host_key, child.origin, child.group) == ("http://a/?p=2", "a:80", "http://a", "g")
    assert (child.depth, child.priority, child.in_series, child.may_leave_host) == (0, 7, True, True)
    assert child.identity == locator_key("g", "l", child.url, "GET", None)
    assert child.page_key == link_key("g", child.url)
    assert LinkRequest.from_json(child.request) == LinkRequest(page=2)
    assert child.carried == Carried(blocks="b1").to_json()


def test_a_series_may_be_in_the_body() -> None:
    posted = FIRST._replace(request=Request(method="POST", body="p=1", userinfo="me:pw"))
    series = replace(SERIES, url=("http://a/s",), body=("p=", ""))
    child = following(posted, series=series)
    assert child is not None
    assert child.identity == locator_key("g", "l", "http://a/s", "POST", "p=2", "me")
    assert (LinkRequest.from_json(child.request).body, child.page_key) == ("p=2", None)
    same = following(posted)
    assert same is not None
    assert same.identity == locator_key("g", "l", "http://a/?p=2", "POST", "p=1", "me")


@pytest.mark.parametrize(
    ("job", "blocks", "series"),
    [
        (FIRST, PageBlocks(False, "b1"), SERIES),
        (FIRST, None, SERIES),
        (change(FIRST, carried=Carried(blocks="b1").to_json()), BLOCKS, SERIES),
        (change(FIRST, page_number=None), BLOCKS, SERIES),
        (change(FIRST, locator_id=None), BLOCKS, SERIES),
        (FIRST, BLOCKS, None),
        (FIRST, BLOCKS, replace(SERIES, last=1)),
    ],
)
def test_a_series_ends(job: LeasedJob, blocks: PageBlocks | None, series: Series | None) -> None:
    assert following(job, blocks, series) is None


def test_a_series_goes_on_where_the_blocks_differ() -> None:
    assert following(change(FIRST, carried=Carried(blocks="b0").to_json())) is not None
    last = following(change(FIRST, page_number=3), series=replace(SERIES, first=4, last=2))
    assert last is not None
    assert last.url == "http://a/?p=2"
