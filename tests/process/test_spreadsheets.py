"""The recipe of spreadsheets in docs/whole-outputs.md, crawled: a workbook and a CSV file with typed, exact cells."""

import csv
import re
import urllib.parse
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from tests.recipes.recipes import ROOT, at_origin

from .project import Project
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(90)

TOTAL, PER_PAGE = 45, 20
HEADER = ["name", "price", "price_currency", "since", "stock"]


def offer(number: int) -> str:
    stock = "In stock" if number % 3 else "Sold out"
    return (
        f'<div class="offer"><h3>=Tea {number}</h3><p class="price">€ 1.{100 + number},{number % 10}0</p>'
        f"<time>{number % 28 + 1:02}.02.2024</time><p class=stock>{stock}</p></div>"
    )


def serve(request: Request) -> Page:
    start = int(urllib.parse.parse_qs(request.path.partition("?")[2])["start"][0])
    return Page(html("".join(map(offer, range(start, min(start + PER_PAGE, TOTAL))))))


def expected() -> list[list[Any]]:
    """The rows, as a workbook has them."""
    return [
        [f"=Tea {n}", 1100 + n + n % 10 / 10, "€", datetime(2024, 2, n % 28 + 1), bool(n % 3)] for n in range(TOTAL)
    ]


def read_book(path: Path) -> list[list[Any]]:
    with closing(load_workbook(path, read_only=True)) as book:
        header, *rows = ([*row] for row in book.active.iter_rows(values_only=True))
    assert header == HEADER
    return sorted(rows, key=lambda row: int(row[0].partition(" ")[2]))


def recipe(site: Site) -> str:
    page = (ROOT / "docs/whole-outputs.md").read_text("utf-8").partition("## Workbooks of Excel")[2]
    [text] = re.findall(r"^```yaml\n(.*?)^```$", page.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    return at_origin(text, site.url("/").rstrip("/"))


@pytest.mark.quick
def test_a_list_by_offset_becomes_a_workbook_and_a_table(project: Project, site: Site) -> None:
    site.fallback = serve
    project.write(recipe(site))
    checked = project.run_command("check")
    assert (checked.code, checked.err) == (0, "")
    project.crawl("--set", "robots=false")
    pages = ["/offers?start=0", "/offers?start=20", "/offers?start=40", "/offers?start=60"]
    assert site.paths == [*pages, pages[-1]], "an empty page ends the list once it is empty twice"
    assert read_book(project.output("offer.xlsx")) == expected()
    exported = project.folder / "one.xlsx"
    assert project.run_with_data("export", "offer", "-o", str(exported)).code == 0
    with closing(load_workbook(exported, read_only=True)) as book:
        assert book.active.max_row == TOTAL + 1
    text = project.output("offers.csv").read_text("utf-8-sig")
    header, *lines = csv.reader(text.splitlines(), delimiter=";", strict=True)
    assert header == HEADER
    assert sorted(lines) == sorted(
        [name, f"{price:.2f}".replace(".", ","), currency, day.date().isoformat(), str(stock).lower()]
        for name, price, currency, day, stock in expected()
    )
    assert project.run_with_data("state", "--verify").code == 0
