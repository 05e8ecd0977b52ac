"""A shop of numbered items whose rows go through plugin code; what the code does depends on the number."""

from collections import Counter
from pathlib import Path

from .project import Project
from .site import Site, html

DEFS = """\
locatorGroups:
  items: {{locators: [{{url: "{url}", name: items}}]}}
taskGroups:
  items:
    own: {{dataDef: scored, steps: {{jsoupDefault: {{mark: {step}}}}}}}
    plain: {{dataDef: named}}
dataDefs:
  scored:
    fields:
      title: {{selector: h1, required: true}}
      price: {{selector: i, type: decimal, required: true}}
      score: {{fromStep: true, type: decimal}}
    links: [{{selector: a}}]
  named:
    fields: {{name: {{selector: h1, required: true}}}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {{robots: false, concurrency: 16}}}}
{more}
"""
PLUGIN = '''\
"""Steps of the shop."""

import os
import sys
import time
from decimal import Decimal

from crawl_console import NotApplicable, StepError

FACTOR = {factor}
leaked = []


class Unreadable(Exception):
    """An error whose text cannot be read."""

    def __str__(self):
        raise RuntimeError("no text")


class Mark:
    """Gives each row a score."""

    def __init__(self, trouble=""):
        self.trouble = trouble

    def run(self, rows, context):
        for row in rows:
            number = int(row["title"].split()[1])
            row["score"] = row["price"] * FACTOR
            if number % 10 == 3:
                self.misbehave(number, context)
        return rows

    def misbehave(self, number, context):
        match self.trouble:
            case "error":
                raise StepError("three is bad", "three")
            case "exception":
                1 / 0
            case "unreadable":
                raise Unreadable
            case "damage":
                sys.path.clear()
                sys.modules.clear()
            case "warning":
                context.warning("three is odd", "odd")
            case "not applicable":
                raise NotApplicable("three")
            case "loop":
                while True:
                    pass
            case "sleep":
                time.sleep(60)
            case "exit":
                os._exit(7)
            case "quit":
                sys.exit(3)
            case "memory":
                leaked.append(bytearray(600_000_000))
            case "leak":
                leaked.append(bytearray(150_000_000))
            case "print":
                print("x" * 100_000)
                os.write(1, b"y" * 100_000)
'''
STEP = "{class: shop.Mark, previous: filter, next: appender, options: {trouble: %s}, limit: %s}"


def plugin(factor: int) -> str:
    return PLUGIN.replace("{factor}", str(factor))


class Shop:
    """`size` items behind an index."""

    def __init__(self, site: Site, size: int = 30) -> None:
        self.size = size
        self.url = site.url("/")
        site["/"] = html("<h1>Item 0</h1><i>0.50</i>" + "".join(f"<a href=/i/{n}>x</a>" for n in range(1, size)))
        for number in range(1, size):
            site[f"/i/{number}"] = html(f"<h1>Item {number}</h1><i>{number}.50</i>")

    def defs(self, step: str, more: str = "") -> str:
        return DEFS.format(url=self.url, step=step, more=more)

    def scored(self, *, factor: int = 2, without: int | None = None) -> Counter[tuple[str, ...]]:
        """The rows of `scored`; `without`: numbers with this last digit have none."""
        numbers = [number for number in range(self.size) if number % 10 != without]
        return Counter(
            ("scored", f"Item {n}", f"{n}.50", f"{(2 * n + 1) * factor * 5 / 10:.2f}" if n >= 0 else "")
            for n in numbers
        )

    def named(self) -> Counter[tuple[str, ...]]:
        return Counter(("named", f"Item {n}") for n in range(self.size))

    def threes(self) -> list[int]:
        return [n for n in range(self.size) if n % 10 == 3]


class SteppedShop(Shop):
    """A shop that is crawled by one project."""

    def __init__(self, project: Project, site: Site, size: int = 30) -> None:
        super().__init__(site, size)
        self.project = project

    def write(
        self, trouble: str = "none", *, factor: int = 2, limit: str = "5", step: str = "", more: str = ""
    ) -> None:
        """Write defs and plugin; `step` takes the place of the step."""
        self.write_plugin(factor)
        self.project.write(self.defs(step or STEP % (trouble, limit), more))

    def write_plugin(self, factor: int) -> None:
        folder = Path(self.project.defs) / "plugins"
        folder.mkdir(exist_ok=True)
        (folder / "shop.py").write_text(plugin(factor))
