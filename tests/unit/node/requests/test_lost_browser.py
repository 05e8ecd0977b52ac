"""A page whose browser ended with other pages in it is asked for once more, as a request of its own."""

from contextlib import nullcontext
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from crawl_engine.http.response import FetchResponse
from crawl_engine.model.definition import TaskGroup
from crawl_engine.model.job import HostPlan, JobKind
from crawl_engine.model.step import BrowserRule, GroupLoading
from crawl_engine.node.db_access import RequestLimitReached
from crawl_engine.node.loading.group_loaders import GroupLoaders
from crawl_engine.node.requests.named_hosts import NamedHosts
from crawl_engine.node.requests.request_sender import RequestSender
from crawl_engine.settings import Settings
from tests.unit.node.leased_jobs import change, leased, visited

pytestmark = pytest.mark.asyncio
ANSWER = FetchResponse("http://a/1", 200, (), b"<p>", 3, 0.1, "text/html", None, None, None)


class LosingBrowser:
    """Each page is lost once, after it was asked for."""

    def has_free(self) -> bool:
        return True

    async def load(self, *_: Any, admit: Any, **__: Any) -> FetchResponse:
        await admit()
        await admit()
        return ANSWER


@pytest.mark.parametrize("is_free", [True, False])
async def test_a_lost_page_needs_a_reservation_of_its_own_under_a_limit(*, is_free: bool) -> None:
    gates = Mock(approach=lambda _: nullcontext(), wait_turn=AsyncMock())
    db_access = Mock(reserve_request=AsyncMock(return_value=is_free))
    loaders = GroupLoaders(Mock(), Settings(), browser=LosingBrowser(), def_cache=Mock(), host_gates=gates, run="r")  # type: ignore[arg-type]
    sender = RequestSender(
        settings=Settings(), def_cache=Mock(), fetcher=Mock(check_address=AsyncMock()), db_access=db_access,
        robots_cache=Mock(), named_hosts=Mock(spec=NamedHosts), host_gates=gates, group_loaders=loaders,
        file_parts=Mock(),
    )  # fmt: skip
    group = TaskGroup(name="g", loader=GroupLoading(browser=BrowserRule()))
    plan = HostPlan(host_key="a:80", group=group, has_loader=True)
    job, attempt = change(leased(1), plan=plan, limits=("group",), kind=JobKind.PAGE), visited().attempt
    sending = sender.send(job, attempt, job.url, job.request)
    if is_free:
        assert await sending is ANSWER
        assert (attempt.requests, attempt.reserved) == (2, 1)
    else:
        with pytest.raises(RequestLimitReached):
            await sending
        assert (attempt.requests, attempt.reserved) == (1, 0), "it starts again where the limit is lifted"
