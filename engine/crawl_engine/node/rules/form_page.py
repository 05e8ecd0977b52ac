"""Warns where the answer to a form is the page with the form."""

from typing import ClassVar

from crawl_engine.extract.select.page_blocks import read_form_page
from crawl_engine.model.job import LeasedJob
from crawl_engine.model.link import Carried
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule
from crawl_engine.settings import Settings


class FormPageRule(PageRule, frozen=True):
    """Knows the digest of the page with the form."""

    name: ClassVar[str] = "form_page"

    def prepare(self, job: LeasedJob, _arrival: Arrival, _settings: Settings) -> str | None:
        return None if job.lineage.carried is None else Carried.from_json(job.lineage.carried).form_page or None

    def judge(self, known: str, judged: JudgedPage) -> None:
        if not judged.extractors or known != read_form_page(judged.page):
            return
        name = next((one.name for one in judged.extractors if one.sends_values), judged.extractors[0].name)
        text = f"{name}: the answer to a form is the page with the form; `submit: none` sends it without its button"
        judged.page.warn(name, "", "form-page", f"{text}, as scripts do, and `submit: NAME` with another one")
