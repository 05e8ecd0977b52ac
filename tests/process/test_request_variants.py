"""Pages of one URL that are asked for with other headers or cookies are other pages."""

import pytest

from .project import Project
from .site import Page, Request, Site, html, redirect

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{a: {{locators: [{locators}]}}}}
taskGroups: {{a: {{live: P1D, page: {{dataDef: d}}}}}}
dataDefs: {{d: {{fields: {{of: {{value: "%{{locator.name}}"}}, got: {{selector: b}}}}}}}}
hosts: {{"127.0.0.1": {{robots: false, concurrency: 4}}}}
"""
LOCATORS = (
    "{{name: de, url: {url}, headers: {{Accept-Language: de}}, cookies: {{shop: de}}}},"
    " {{name: en, url: {url}, headers: {{Accept-Language: en}}}}, {{name: plain, url: {url}}},"
    " {{name: key, url: {url}, headers: {{X-Api-Key: literal-key}}}},"
    ' {{name: env, url: {url}, headers: {{X-Api-Key: "%{{env.SHOP_KEY}}"}}}}'
)


def echo(request: Request) -> Page:
    headers = request.headers
    return Page(html(f"<b>{headers.get('accept-language')} {headers.get('cookie')} {headers.get('x-api-key')}</b>"))


@pytest.mark.parametrize("start", ["/p", "/from"])
def test_each_locator_gets_its_own_page_and_keeps_it(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setenv("SHOP_KEY", "k1")
    site["/p"], site["/from"] = echo, redirect("/p")
    project.write(DEFS.format(locators=LOCATORS.format(url=site.url(start))))
    expected = {
        "de": "de shop=de None", "en": "en None None", "plain": "None None None", "key": "None None literal-key",
        "env": "None None k1",
    }  # fmt: skip
    for requests in (5 if start == "/p" else 10, 0):
        site.clear_log()
        project.crawl()
        got = {row["of"]: row["got"].replace("en-US,en;q=0.5", "None") for row in project.rows("d")}
        assert got == expected
        assert len(site.paths) == requests, "a run after it uses the stored page of each"
