"""Seeded sweeps: processes killed while pages are re-extracted, saves at random moments; the end is compared."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from .held import Held, changed, fresh, outputs, saved, settled, version
from .house import House, until
from .site import Site

pytestmark = pytest.mark.timeout(600)


def variants(text: str) -> list[str]:
    """Good defs that differ in what they extract, in what they follow, and in the groups they have."""
    link = '      - {selector: "li a", linkGroup: books}\n'
    group = "  books: {page: {dataDef: book}, more: {dataDef: nothing}}\n"
    return [
        text,
        changed(text),
        text.replace("title: {selector: a}", 'title: {selector: a, match: "[0-9]+"}'),
        text.replace("price: {", "cost: {"),
        text.replace('match: "[0-9.]+", type: decimal', 'match: "[0-9]+", type: int'),
        text.replace("isbn: {selector: b, required: true}", 'isbn: {selector: b, match: "001.*", required: true}'),
        text.replace("selector: b,", "selector: blink,"),
        text.replace("      path: {value", "      where: {value"),
        text.replace("page: {dataDef: book}, ", ""),
        text.replace(group, "").replace(link, ""),
        text.replace("dataDefs:\n", "appenders: {a: {type: jsonl}}\ndataDefs:\n"),
        text.replace(", concurrency: 16", ", concurrency: 3"),
    ]


def broken(text: str, dice: random.Random) -> bytes:
    """Defs as an editor may leave them for a moment."""
    match dice.randrange(4):
        case 0:
            return text[: dice.randrange(len(text))].encode()
        case 1:
            return text.replace("dataDef: entry", "dataDef: entri").encode()
        case 2:
            return b"\xff\xfe" + text.encode()
        case _:
            return text.replace("{selector: a}", "{selector: 'a['}").encode()


def save(house: House, content: bytes, dice: random.Random) -> None:
    target = house.defs / "crawl.yml"
    if dice.random() < 0.5:
        beside = house.defs / ".crawl.yml.swp"
        beside.write_bytes(content)
        beside.replace(target)
    else:
        target.write_bytes(content)


def crawl_under_saves(house: House, site: Site, tmp_path: Path, seed: int, saves: int, pause: float) -> None:
    dice = random.Random(seed)
    held = Held(house, site, shelves=6, books=12)
    for path, page in list(site.pages.items()):
        if path.startswith(("/shelf/", "/book/")) and path != "/shelf/gate":
            site.pages[path] = type(page)(page.body, delay=dice.random() * 0.05)  # type: ignore[union-attr]
    good = [held.gated(text) for text in variants(held.library.defs(concurrency=16))]
    running = house.start()
    assert until(lambda: held.done() > 0), running.err
    last = good[0]
    for _ in range(saves):
        if dice.random() < 0.3:
            save(house, broken(last, dice), dice)
        elif dice.random() < 0.08:
            (house.defs / "crawl.yml").unlink(missing_ok=True)
        else:
            last = dice.choice(good)
            save(house, last.encode(), dice)
        time.sleep(dice.random() * pause)
        assert not running.over, running.err[-2000:]
    # the last word finds every page again, so that it can be compared with a crawl from nothing
    last = dice.choice([text for text in good[:8] if text != last])
    save(house, last.encode(), dice)
    held.finish(running)
    other = tmp_path / "fresh"
    other.mkdir()
    assert outputs_of(house, last) == outputs(fresh(house, site, last, other)), f"seed {seed}"


def outputs_of(house: House, text: str) -> object:
    return {name: lines for name, lines in outputs(house).items() if ("type: jsonl" in text) == name.endswith("jsonl")}


@pytest.mark.parametrize("seed", range(1))
def test_random_saves(house: House, site: Site, tmp_path: Path, seed: int) -> None:
    crawl_under_saves(house, site, tmp_path, seed, 30, 0.15)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_thousand_random_saves(house: House, site: Site, tmp_path: Path, seed: int) -> None:
    crawl_under_saves(house, site, tmp_path, seed, 100, (0.01, 0.1, 0.4)[seed % 3])


def killed_while_renewing(house: House, site: Site, tmp_path: Path, seed: int, victim: str) -> None:
    dice = random.Random(seed)
    held = Held(house, site, shelves=8, books=40)
    running = held.begin()
    site.forget()
    held.write(changed(held.library.defs()).replace("price: {", "cost: {"))
    assert until(lambda: version(house) == 2)
    time.sleep(dice.random() * 0.3)
    for _ in range(2 if victim == "any" else 1):
        kind = dice.choice(["node", "append", "supervisor"]) if victim == "any" else victim
        if kind == "supervisor":
            running.send(signal.SIGKILL)
            running.process.wait()
            house.assert_nobody_left(15)
            running = house.start()
        else:
            for pid in house.children(kind)[:1]:
                os.kill(pid, signal.SIGKILL)
        time.sleep(dice.random() * 0.2)
    assert until(lambda: settled(house), 30), house.standing()
    assert {path for path in site.paths if path != "/shelf/gate"} == set(), "re-extraction asks nobody"
    held.finish(running)
    other = tmp_path / "fresh"
    other.mkdir()
    assert outputs(house) == outputs(fresh(house, site, saved(house), other)), f"seed {seed}"
    [(rows,)] = house.query("SELECT count(*) FROM rows")
    assert rows == 2 * 8 * 40


@pytest.mark.parametrize("victim", ["node", "append", "supervisor"])
def test_a_kill_while_pages_are_re_extracted(house: House, site: Site, tmp_path: Path, victim: str) -> None:
    killed_while_renewing(house, site, tmp_path, 7, victim)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(40))
def test_many_kills_while_pages_are_re_extracted(house: House, site: Site, tmp_path: Path, seed: int) -> None:
    killed_while_renewing(house, site, tmp_path, seed, "any")
