"""Seeds of a CSV file: their values are in the rows of the page and of the pages that it links to, over a kill."""

import signal

import pytest

from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

ITEMS = 40


def write_defs(project: Project, site: Site) -> None:
    lines = [f'{number},"shop ""{number}"", x"' for number in range(ITEMS)]
    (project.defs / "seeds.csv").write_text("sku,shop\n" + "\n".join(lines) + '\n7,late\nbad\n"open,1\n')
    project.write(
        f"""
        locatorGroups:
          items: {{locators: [{{from: {{file: seeds.csv}}, url: "{site.url("/item/")}%{{seed.sku}}"}}]}}
        taskGroups:
          items: {{item: {{dataDef: item}}}}
          reviews: {{review: {{dataDef: review}}}}
        dataDefs:
          item:
            fields: {{title: {{selector: h1}}, sku: {{value: "%{{seed.sku}}"}}, shop: {{value: "%{{seed.shop}}"}}}}
            links: [{{selector: a, linkGroup: reviews}}]
          review: {{fields: {{text: {{selector: p}}, sku: {{value: "%{{seed.sku}}"}}}}}}
        """
    )


@pytest.fixture
def shop(project: Project, site: Site) -> Site:
    for number in range(ITEMS):
        site[f"/item/{number}"] = Page(html(f'<h1>item {number}</h1><a href="/review/{number}">r</a>'), delay=0.05)
        site[f"/review/{number}"] = html(f"<p>review {number}</p>")
    write_defs(project, site)
    return site


@pytest.mark.quick
def test_values_are_in_the_rows_of_a_page_and_of_those_it_links_to(project: Project, shop: Site) -> None:
    running = project.start(nodes=1)
    assert until(lambda: len(shop.paths) > ITEMS // 2), running.err
    running.send(signal.SIGKILL)
    running.wait()
    project.crawl(nodes=1)
    items = project.count_rows("item")
    assert sorted(items.elements()) == sorted(
        ("item", f"item {number}", str(number), f'shop "{number}", x') for number in range(ITEMS)
    )
    reviews = project.count_rows("review")
    assert sorted(reviews.elements()) == sorted(("review", f"review {n}", str(n)) for n in range(ITEMS))
    told = project.query("SELECT text FROM events WHERE kind = 'seed' AND level = 'ERROR' ORDER BY id")
    assert told == [
        ("defs/seeds.csv:43: 1 column, and the header has 2",),
        ("defs/seeds.csv:44: a quote is not closed",),
    ]
    path = project.defs / "crawl.yml"
    path.write_text(path.read_text().replace("review: {fields: {", 'review: {fields: {shop: {value: "%{seed.shop}"}, '))
    [(job,)] = project.query("SELECT id FROM jobs WHERE url LIKE '%/review/3'")
    tried = project.run_with_data("try", "review", "--job", str(job), "--defs", str(project.defs))
    assert '"shop":"shop \\"3\\", x"' in tried.out.replace(": ", ":"), tried.err
    again = project.run_with_data("extract", "--defs", str(project.defs))
    assert again.code == 0, again.err
    assert sum(project.count_rows("review").values()) == ITEMS
    [(data,)] = project.query(f"SELECT data FROM rows WHERE job = {job}")
    assert "shop" in data
