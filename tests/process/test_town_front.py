"""The shop front of the demo town: crawled where a browser starts, and set aside where none does."""

import json

from .project import Project
from .shop_front import NEEDS_BROWSER, SANDBOX

pytestmark = NEEDS_BROWSER


def crawl_town(project: Project, *arguments: str) -> tuple[dict[str, int], str]:
    """The numbers of rows, and what was told."""
    where = ("--pages", "20", "--json", "--data", str(project.data))
    done = project.start_command("demo", "--no-ui", "--town", *where, *arguments).wait(120)
    assert done.code in (0, 1), done.err
    return json.loads(done.out.splitlines()[-1])["rows"], done.err


def test_the_shop_front_is_crawled_where_a_browser_starts(project: Project) -> None:
    defs = project.folder / "demo-defs"
    rows, told = crawl_town(project, *SANDBOX)
    assert rows["good"] == 96
    assert "front: 1 of 4 pages needed no browser" in told
    names = [f"Good {window}-{index}" for window in range(1, 5) for index in range(1, 25)]
    assert sorted(row["name"] for row in project.rows("good")) == sorted(names)
    (defs / "front.yml").write_text((defs / "front.yml").read_text() + "# mine\n")
    others, told = crawl_town(project, "--set", "browser=/nowhere")
    assert others == {name: count for name, count in rows.items() if name != "good"}
    assert "is skipped: browser = /nowhere: no such program. Set browser" in told
    again, _ = crawl_town(project, *SANDBOX)
    assert again == rows
    assert (defs / "front.yml").read_text().endswith("# mine\n")
