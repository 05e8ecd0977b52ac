"""Prometheus is told which field rejects records, and why."""

import re

import pytest

from .project import Project
from .site import Page, Site, html
from .web_server import WebServer

pytestmark = pytest.mark.timeout(90)

DEFS = """\
baseUrl: {base}
locatorGroups: {{g: {{locators: [{{urls: ["/{{1..3}}"]}}]}}}}
taskGroups: {{g: {{page: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{block: li}}
    fields: {{name: {{selector: b, required: true}}, price: {{selector: i, type: price}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


def test_each_field_and_reason_has_a_counter(project: Project, site: Site) -> None:
    items = "<li><b>tea</b><i>1.50</i></li><li><i>2</i></li><li><i>3</i></li><li><b>milk</b><i>call us</i></li>"
    site.fallback = lambda _: Page(html(f"<ul>{items}</ul>"))
    project.write(DEFS.format(base=site.url()))
    project.crawl()
    server = WebServer(project)
    text = server.client.get("/metrics").text
    found = dict(re.findall(r"^crawl_rejected_records_total\{[^}]*(field=.*)\} (\S+)$", text, re.MULTILINE))
    assert found == {'field="name",reason="missing"': "6.0", 'field="price",reason="invalid"': "3.0"}
    server.stop()
