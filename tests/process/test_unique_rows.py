"""Lists that repeat each other, and defs that change while rows arrive: each key once, and files that go on."""

import csv
import os
import random
import signal
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from crawl_engine.store.db.sqlite import sqlite3

from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(600)

DEFS = """\
locatorGroups: {{start: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{start: {{page: {{dataDef: link}}}}, list: {{page: {{dataDef: item}}}}}}
dataDefs:
  link: {{links: [{{selector: a, linkGroup: list}}]}}
  item:
    query: {{block: li}}
    key: [sku]
    unique: {unique}
    fields: {{sku: {{selector: b}}, name: {{selector: i, match: "{match}"}}}}
appenders: {{c: {{type: csv}}, j: {{type: jsonl}}, s: {{type: sqlite}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
LISTS, ITEMS = 300, 20


def fill(site: Site, delay: float = 0.0) -> None:
    """Each list has ten items of the one before it."""
    site["/"] = html("".join(f"<a href='/list/{number}'>x</a>" for number in range(LISTS)))
    for number in range(LISTS):
        items = "".join(
            f"<li><b>{sku}</b><i>name {sku} of {number}</i></li>" for sku in range(number * 10, number * 10 + ITEMS)
        )
        site[f"/list/{number}"] = partial(answer, Page(html(items), delay=delay))


def answer(page: Page, _: object) -> Page:
    return page


def write(project: Project, site: Site, match: str = ".*", unique: str = "true") -> None:
    project.write(DEFS.format(url=site.url("/"), match=match, unique=unique))


def written(project: Project, folder: str = "latest") -> dict[str, list[str]]:
    """The keys in each output, in order."""
    output = project.data / "output" / folder
    with (output / "item.csv").open(newline="") as stream:
        of_csv = [row["sku"] for row in csv.DictReader(stream)]
    of_jsonl = [line.split('"')[3] for line in (output / "item.jsonl").read_text().splitlines()]
    with closing(sqlite3.connect(f"file:{output / 'item.db'}?mode=ro", uri=True)) as db:
        of_sqlite = [sku for (sku,) in db.execute("SELECT sku FROM item ORDER BY 1")]
    return {"csv": of_csv, "jsonl": of_jsonl, "sqlite": of_sqlite}


def check_exact(project: Project, summary: dict[str, object]) -> None:
    skus = sorted(str(number) for number in range(LISTS * 10 + ITEMS - 10))
    assert {name: sorted(keys) for name, keys in written(project).items()} == dict.fromkeys(
        ("csv", "jsonl", "sqlite"), skus
    )
    assert summary["duplicates"] == {"item": LISTS * ITEMS - len(skus)}
    project.assert_clean()


def kill(project: Project, kind: str) -> None:
    for pid in project.children(kind)[:1]:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.quick
@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.sweep), pytest.param(3, marks=pytest.mark.sweep)]
)
def test_each_key_is_written_once_under_kills_and_reloads(project: Project, site: Site, seed: int) -> None:
    rng = random.Random(seed)
    fill(site, delay=0.1)
    write(project, site)
    running = project.start("--set", "host_concurrency=4")
    for number in range(4):
        time.sleep(rng.uniform(0.3, 1.2))
        write(project, site, match=f"name|{number}" if number % 2 else ".*")
        kill(project, rng.choice(["node", "appender"]))
        if number == 2:
            running.send(signal.SIGKILL)
            running.process.wait()
            project.assert_no_process_left(15)
            running = project.start("--set", "host_concurrency=4")
    done = running.wait(120)
    assert done.code == 0, done.err
    check_exact(project, done.summary)
    assert "duplicate rows not written" in done.err


def test_without_unique_doubles_of_a_key_are_a_warning(project: Project, site: Site) -> None:
    fill(site)
    write(project, site, unique="false")
    done = project.start().wait(120)
    assert done.code == 0, done.err
    assert done.summary["rows"]["item"] == LISTS * ITEMS
    [warning] = [one for one in done.summary["warnings"] if one["code"] == "doubled-key"]
    assert warning["text"] == (
        "item: 2,990 of 6,000 rows have the key (sku) of an earlier row; `unique: true` leaves one"
    )
    assert warning["text"] in done.err


def oldest_waiting(project: Project, path: Path, seen: dict[int, float]) -> float:
    """Seconds that the newest row of the file is behind the table; `seen`: when each last id was seen first."""
    [(last,)] = project.query("SELECT coalesce(max(id), 0) FROM rows")
    seen.setdefault(last, time.monotonic())
    [(cursor,)] = project.query("SELECT min(cursor) FROM outputs")
    late = [at for row, at in seen.items() if row > cursor]
    return time.monotonic() - min(late) if late and path.exists() else 0.0


@pytest.mark.parametrize("seconds", [12.0, pytest.param(300.0, marks=pytest.mark.sweep)])
def test_reloads_under_load_freeze_no_output(project: Project, site: Site, seconds: float) -> None:
    fill(site, delay=4 * seconds / LISTS)
    write(project, site)
    running = project.start("--set", "host_concurrency=4")
    assert until(lambda: (project.data / "output" / "current" / "item.csv").exists())
    began, saved, worst, seen, number = time.monotonic(), time.monotonic(), 0.0, dict[int, float](), 0
    while not running.exited and time.monotonic() - began < seconds:
        if time.monotonic() - saved > min(20.0, seconds / 6):
            number, saved = number + 1, time.monotonic()
            write(project, site, match="name" if number % 2 else ".*")
            if number in (1, 3, 5):  # five deaths within a minute of each other would end the run
                kill(project, "appender")
        worst = max(worst, oldest_waiting(project, project.data / "output" / "current" / "item.csv", seen))
        time.sleep(0.1)
    done = running.wait(120)
    assert done.code == 0, done.err
    assert number >= 3
    assert worst < 15.0
    check_exact(project, done.summary)
