"""Seeded sweeps: kills during re-extraction, saves at random moments; compared with a fresh crawl."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.sample import sampled

from .gated_crawl import (
    GatedCrawl,
    crawl_from_scratch,
    defs_version,
    outputs,
    read_defs,
    reextraction_finished,
    with_changed_field,
)
from .project import Project, until
from .site import Site

pytestmark = pytest.mark.timeout(600)


def variants(text: str) -> list[str]:
    """Valid defs that differ in fields, links and groups."""
    link = '      - {selector: "li a", linkGroup: books}\n'
    group = "  books: {page: {dataDef: book}, more: {dataDef: nothing}}\n"
    return [
        text,
        with_changed_field(text),
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


def invalid(text: str, rng: random.Random) -> bytes:
    """Invalid defs, as an editor may leave them for a moment."""
    match rng.randrange(4):
        case 0:
            return text[: rng.randrange(len(text))].encode()
        case 1:
            return text.replace("dataDef: entry", "dataDef: entri").encode()
        case 2:
            return b"\xff\xfe" + text.encode()
        case _:
            return text.replace("{selector: a}", "{selector: 'a['}").encode()


def save(project: Project, content: bytes, rng: random.Random) -> None:
    target = project.defs / "crawl.yml"
    if rng.random() < 0.5:
        beside = project.defs / ".crawl.yml.swp"
        beside.write_bytes(content)
        beside.replace(target)
    else:
        target.write_bytes(content)


def crawl_under_saves(project: Project, site: Site, tmp_path: Path, seed: int, saves: int, pause: float) -> None:
    rng = random.Random(seed)
    gated = GatedCrawl(project, site, shelves=6, books=12)
    for path, page in list(site.pages.items()):
        if path.startswith(("/shelf/", "/book/")) and path != "/shelf/gate":
            site.pages[path] = type(page)(page.body, delay=rng.random() * 0.05)  # type: ignore[union-attr]
    good = [gated.with_gate(text) for text in variants(gated.library.defs(concurrency=16))]
    running = project.start()
    assert until(lambda: gated.done() > 0), running.err
    last = good[0]
    for _ in range(saves):
        if rng.random() < 0.3:
            save(project, invalid(last, rng), rng)
        elif rng.random() < 0.08:
            (project.defs / "crawl.yml").unlink(missing_ok=True)
        else:
            last = rng.choice(good)
            save(project, last.encode(), rng)
        time.sleep(rng.random() * pause)
        assert not running.exited, running.err[-2000:]
    # the last defs reach every page, so that the result can be compared with a fresh crawl
    last = rng.choice([text for text in good[:8] if text != last])
    save(project, last.encode(), rng)
    gated.finish(running)
    other = tmp_path / "fresh"
    other.mkdir()
    assert outputs_of(project, last) == outputs(crawl_from_scratch(project, site, last, other)), f"seed {seed}"


def outputs_of(project: Project, text: str) -> object:
    return {
        name: lines for name, lines in outputs(project).items() if ("type: jsonl" in text) == name.endswith("jsonl")
    }


@pytest.mark.parametrize("seed", range(1))
def test_random_saves(project: Project, site: Site, tmp_path: Path, seed: int) -> None:
    crawl_under_saves(project, site, tmp_path, seed, 30, 0.15)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_thousand_random_saves(project: Project, site: Site, tmp_path: Path, seed: int) -> None:
    crawl_under_saves(project, site, tmp_path, seed, 100, (0.01, 0.1, 0.4)[seed % 3])


def kill_during_reextraction(project: Project, site: Site, tmp_path: Path, seed: int, victim: str) -> None:
    rng = random.Random(seed)
    gated = GatedCrawl(project, site, shelves=8, books=40)
    running = gated.start()
    site.clear_log()
    gated.write(with_changed_field(gated.library.defs()).replace("price: {", "cost: {"))
    assert until(lambda: defs_version(project) == 2)
    time.sleep(rng.random() * 0.3)
    for _ in range(2 if victim == "any" else 1):
        kind = rng.choice(["node", "appender", "supervisor"]) if victim == "any" else victim
        if kind == "supervisor":
            running.send(signal.SIGKILL)
            running.process.wait()
            project.assert_no_process_left(15)
            running = project.start()
        else:
            for pid in project.children(kind)[:1]:
                os.kill(pid, signal.SIGKILL)
        time.sleep(rng.random() * 0.2)
    assert until(lambda: reextraction_finished(project), 30), project.describe_state()
    assert {path for path in site.paths if path != "/shelf/gate"} == set(), "re-extraction sends no request"
    gated.finish(running)
    other = tmp_path / "fresh"
    other.mkdir()
    assert outputs(project) == outputs(crawl_from_scratch(project, site, read_defs(project), other)), f"seed {seed}"
    [(rows,)] = project.query("SELECT count(*) FROM rows")
    assert rows == 2 * 8 * 40


@pytest.mark.sweep
@pytest.mark.parametrize("victim", sampled(["node", "appender", "supervisor"], 2))
def test_a_kill_while_pages_are_re_extracted(project: Project, site: Site, tmp_path: Path, victim: str) -> None:
    kill_during_reextraction(project, site, tmp_path, 7, victim)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(40))
def test_many_kills_while_pages_are_re_extracted(project: Project, site: Site, tmp_path: Path, seed: int) -> None:
    kill_during_reextraction(project, site, tmp_path, seed, "any")
