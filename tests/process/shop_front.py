"""A shop whose pages need a browser: its site, its defs, and what a crawl of it gives."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest

from crawl_engine.runtime.extras import has_extra

from .project import Project, until
from .site import Page, Request, Site, html

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
NEEDS_BROWSER = [
    pytest.mark.skipif(not has_extra("browser"), reason="needs playwright: pip install 'crawl-console[browser]'"),
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.timeout(240),
    pytest.mark.browser,
]
JSON = {"Content-Type": "application/json"}
SANDBOX = ("--set", f"browser_sandbox={'false' if os.geteuid() == 0 else 'true'}")
FETCHED = """<ul id=list></ul><script>
fetch('/api' + location.pathname).then(answer => answer.json()).then(items => {
    for (const item of items) {
        const row = document.createElement('li');
        row.className = 'item';
        row.innerHTML = `<b>${item.name}</b> <i>${item.price}</i>`;
        list.append(row);
    }
    document.body.append(Object.assign(document.createElement('p'), {id: 'ready'}));
});
</script>"""


class Front:
    """A shop whose rows come by script."""

    def __init__(self, project: Project, site: Site) -> None:
        self.project, self.site = project, site
        project.nodes = 1
        site.fallback = self.answer
        self.pages = 6

    def answer(self, request: Request) -> Page:
        if request.path.startswith("/api/p/"):
            number = int(request.path.rpartition("/")[2])
            items = [{"name": f"Item {number}-{n}", "price": f"{number}.{n}0"} for n in range(3)]
            return Page(json.dumps(items), headers=JSON)
        if request.path.startswith("/p/"):
            return Page(html(FETCHED))
        return Page("nothing here", 404)

    def write(
        self, loader: str = "{browser: {wait: '#ready'}}", *, block: str = ".item", more: str = "",
        query: str = "", fields: str = "{name: {selector: b, required: true}, price: {selector: i}}",
    ) -> None:  # fmt: skip
        """`more`: further lines below the fields; `query`: in place of one with the block."""
        self.project.write(f"""
locatorGroups:
  shop: {{locators: [{{url: "{self.site.url("/p/{1.." + str(self.pages) + "}")}"}}]}}
taskGroups:
  shop:
    loader: {loader}
    items: {{dataDef: item}}
dataDefs:
  item:
    query: {query or f'{{block: "{block}"}}'}
    fields: {fields}
{more}
""")

    def crawl(self, *arguments: str, code: int = 0) -> list[dict[str, str]]:
        self.done = self.project.crawl(*SANDBOX, *arguments, code=code, seconds=200)
        return sorted(self.project.rows("item"), key=lambda row: row["name"])

    @property
    def rows(self) -> list[dict[str, str]]:
        return [
            {"name": f"Item {page}-{number}", "price": f"{page}.{number}0"}
            for page in range(1, self.pages + 1)
            for number in range(3)
        ]


def browsers(project: Project) -> list[int]:
    """The processes of browsers: they work in the folder of their profile."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if str(entry.readlink()).startswith(str(project.data / "browsers")):
                found.append(int(entry.parent.name))
    return found


def assert_nothing_left(project: Project) -> None:
    assert until(lambda: not browsers(project), 5.0), browsers(project)
    assert not (project.data / "browsers").exists()
