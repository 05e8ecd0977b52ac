"""Login pages: recognized behind a redirect, and read and judged in an extraction process."""

from zlib import crc32

import msgspec

from crawl_engine import urls
from crawl_engine.extract.links.html_form import HtmlForm
from crawl_engine.extract.page.context import Context
from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.http.decode import content_type_at
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.definition import DataDef, Definitions
from crawl_engine.model.host import LoginRule
from crawl_engine.model.job import LeasedJob
from crawl_engine.model.link import Link, RequestTemplate
from crawl_engine.model.record import ExtractedLink
from crawl_engine.node.extraction.page_extraction import check_supported
from crawl_engine.node.extraction.process_pool import ExtractionPool
from crawl_engine.node.extraction.request import ExtractionRequest
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.extraction.task import PageTask
from crawl_engine.node.rules.lost_login import LostLoginRule
from crawl_engine.store.pages.body import Body
from crawl_engine.store.transactions.logins import login_page_url

_NAME = "login"
_ANY_FORM = "form"


def leads_to_login(job: LeasedJob, rule: LoginRule, from_url: str, target: str) -> bool:
    """Whether a redirect of a job leads to the login page of its host. Queries are not compared."""
    return _bare(target) == _bare(login_page_url(urls.origin(from_url), rule)) != _bare(job.url)


def _bare(url: str) -> tuple[str, str]:
    """The host, without `www.`, and the path."""
    path = url.partition("#")[0].partition("?")[0].partition("://")[2].partition("/")[2]
    return urls.host_without_www(url), path.rstrip("/")


class LoginPageReader:
    """One for each node."""

    def __init__(self, pool: ExtractionPool, answer_budget: ByteBudget) -> None:
        self._pool = pool
        self._answer_budget = answer_budget

    async def read_forms(self, url: str, response: FetchResponse, body: Body, rule: LoginRule) -> list[HtmlForm]:
        """The forms that the rule's selector matches, else all, in their order. Their actions are absolute.

        Raises UnsupportedContent and UnreadablePage.
        """
        template = RequestTemplate(form=tuple((name, "") for name in rule.form), only_read=True)
        link = Link(selector=rule.selector or _ANY_FORM, same_host=False, submit=rule.submit, request=template)
        answer, forms = await self._extract(url, response, body, link)
        return forms if answer.page_kind == "html" else []

    async def is_logged_out(self, url: str, response: FetchResponse, body: Body, check: str) -> bool:
        """Whether an HTML page lacks what `check` selects. Raises UnsupportedContent and UnreadablePage."""
        answer, _ = await self._extract(url, response, body, Link(selector=_ANY_FORM), check)
        return LostLoginRule.name in answer.parts

    async def _extract(
        self, url: str, response: FetchResponse, body: Body, link: Link, check: str = ""
    ) -> tuple[PageResult, list[HtmlForm]]:
        check_supported(body.read(), content_type_at(response.content_type, url))
        definitions = Definitions(data_defs=(DataDef(name=_NAME, links=(link,)),))
        key = -1 - crc32(repr(link).encode())  # def versions are positive
        task = PageTask(
            defs=key,
            data_defs=((_NAME, False),),
            url=url,
            content_type=response.content_type,
            status=response.status,
            fetched_at=0.0,
            context=Context(
                group=_NAME, locator="", locator_url="", depth=0, run="", run_time="", nofollow=False,
                meta_nofollow=False, rules={LostLoginRule.name: check} if check else {},
            ),
        )  # fmt: skip
        share = self._answer_budget.open_share()
        try:
            request = ExtractionRequest(header=task.to_header(), body=body, definitions=(key, definitions), share=share)
            answer = await self._pool.work(request)
            assert isinstance(answer, PageResult)
            return answer, [_to_form(found) for found in answer.links]
        finally:
            share.release()


def _to_form(link: ExtractedLink) -> HtmlForm:
    assert link.details is not None
    return msgspec.json.decode(link.details.request.body or "", type=HtmlForm)


def is_same_page(url: str, other: str) -> bool:
    """Whether two normalized URLs differ at most in their queries."""
    return urls.origin(url) == urls.origin(other) and url.partition("?")[0] == other.partition("?")[0]
