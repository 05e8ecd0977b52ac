"""Documents of other kinds and encodings in a whole crawl: feeds, undeclared encodings, damaged text."""

import pytest

from .project import Project
from .site import Page, Site

pytestmark = pytest.mark.timeout(60)

FEED = """<?xml version="1.0" encoding="koi8-r"?>
<rss xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>Канал</title>
<item><title>Раз</title><link>{first}</link><dc:creator>Анна</dc:creator></item>
<item><title><![CDATA[<b>Два</b>]]></title><link>{second}</link></item></channel></rss>"""

FEED_DEFS = """\
locatorGroups: {{feeds: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{feeds: {{t: {{dataDef: item}}}}, pages: {{t: {{dataDef: page}}}}}}
dataDefs:
  item:
    query: {{block: "channel > item"}}
    fields: {{title: {{selector: title}}, url: {{selector: link}}, by: {{selector: creator}}}}
    links: [{{selector: item > link, attribute: text, linkGroup: pages}}]
  page: {{fields: {{heading: {{selector: h1}}}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


def test_a_feed_is_read_as_xml_and_its_links_are_followed(project: Project, site: Site) -> None:
    first, second = site.url("/1"), site.url("/2")
    text = FEED.format(first=first, second=second)
    site["/feed"] = Page(text.encode("koi8-r"), headers={"Content-Type": "application/rss+xml"})
    # declares nothing, and is not UTF-8
    site["/1"] = Page("<h1>Сегодня в Москве прошёл дождь</h1>".encode("cp1251"), headers={"Content-Type": "text/html"})
    site["/2"] = Page(b"<h1>a\xff\xfe\xfdb</h1>", headers={"Content-Type": "text/html; charset=utf-8"})
    project.write(FEED_DEFS.format(url=site.url("/feed")))
    done = project.crawl()
    assert done.jobs == {"done": 3}
    assert project.rows("item") == [
        {"title": "Раз", "url": first, "by": "Анна"},
        {"title": "<b>Два</b>", "url": second, "by": ""},
    ]
    assert sorted(row["heading"] for row in project.rows("page")) == [
        "a\ufffd\ufffd\ufffdb",
        "Сегодня в Москве прошёл дождь",
    ]
    events = [str(text) for (text,) in project.query("SELECT text FROM events WHERE level = 'WARNING'")]
    assert [text for text in events if "replaced" in text and "/2;" in text and text.endswith("3 bytes replaced")]
    assert not [text for text in events if first in text]
