"""`command` steps in real crawls: programs of other languages, their outcomes, their deaths."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from .project import Project, parent_of, until
from .shared_crawl import Part, shared
from .site import Site
from .stepped_shop import Shop, SteppedShop
from .test_steps import results

pytestmark = pytest.mark.timeout(240)
SWEEP = ("--grace", "10")
"""Arguments of the crawl that the tests of the sweep share."""

AWK = """\
# scores every row: its price twice, as a decimal text
{
    out = ""
    while (match($0, /"price":"[0-9.]+","score":null/)) {
        pair = substr($0, RSTART, RLENGTH)
        price = pair
        gsub(/[^0-9.]/, "", price)
        sub(/null/, sprintf("\\"%.2f\\"", price * 2), pair)
        out = out substr($0, 1, RSTART - 1) pair
        $0 = substr($0, RSTART + RLENGTH)
    }
    print out $0
    fflush()
}
"""
PROGRAM = """\
import json, os, sys, time
trouble = sys.argv[1]
for line in sys.stdin:
    page = json.loads(line)
    for row in page["rows"]:
        number = int(row["title"].split()[1])
        row["score"] = str(float(row["price"]) * 2)
        if number % 10 == 3:
            if trouble == "error": page = {"outcome": "error", "text": "three is bad"}
            elif trouble == "not applicable": page = {"outcome": "not_applicable", "text": "three"}
            elif trouble == "garbage": print("garbage"); sys.stdout.flush(); page = None; break
            elif trouble == "exit": sys.exit(4)
            elif trouble == "sleep": time.sleep(60)
            elif trouble == "long": print("x" * 60_000_000)
            elif trouble == "stderr": print("three on stderr", file=sys.stderr)
            elif trouble == "link": page["links"] = [{"url": "/i/%d" % (number + 1), "group": "items"}]
            elif trouble == "bad row": row["colour"] = "red"
            elif trouble == "two lines": print(json.dumps(page))
            elif trouble == "chatty": print("loading the model")
    if page is not None:
        print(json.dumps(page))
        sys.stdout.flush()
"""


@pytest.fixture
def shop(project: Project, site: Site) -> SteppedShop:
    project.nodes = 1
    return SteppedShop(project, site)


def awk() -> list[str]:
    """awk with the scoring script; mawk reads lines one by one only when asked to."""
    if shutil.which("awk") is None:
        pytest.skip("awk is not installed")
    version = subprocess.run(["awk", "-W", "version"], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    interactive = ["-W", "interactive"] if b"mawk" in version.stdout + version.stderr else []
    return ["awk", *interactive, "-f", "plugins/score.awk"]


def step(run: list[str], *, workers: int = 1, limit: str = "20") -> str:
    arguments = ", ".join(f'"{part}"' for part in run)
    return (
        f"{{class: command, run: [{arguments}], previous: filter, next: appender, workers: {workers}, limit: {limit}}}"
    )


def write(shop: SteppedShop, run: list[str], *, workers: int = 1, limit: str = "20") -> None:
    shop.write(step=step(run, workers=workers, limit=limit))
    (shop.project.defs / "plugins" / "score.awk").write_text(AWK)
    (shop.project.defs / "plugins" / "score.py").write_text(PROGRAM)


def commands(project: Project) -> list[int]:
    """Pids of the programs of `command` steps."""
    templates = project.children("template")
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_command(pid, templates)]


def is_command(pid: int, templates: list[int]) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return parent_of(pid) in templates and b"score." in file.read()
    except OSError:
        return False


def test_a_program_of_another_language_fills_a_field(shop: SteppedShop, project: Project) -> None:
    write(shop, awk())
    project.crawl()
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()
    assert results(project) == {("ok", ""): shop.size}


def costs_one_job(site: Site, trouble: str, reason: str, limit: str = "20") -> Part:
    shop = Shop(site)
    crawl = yield shop.defs(step([sys.executable, "plugins/score.py", trouble], limit=limit)), {"score.py": PROGRAM}
    assert crawl.jobs == {"done": shop.size - 3, "failed": 3}
    reasons = [job["reason"] for job in crawl.all_jobs() if job["state"] == "FAILED"]
    assert all(text.startswith(reason) for text in reasons), reasons
    assert crawl.count_rows("named") == shop.named()
    assert len(crawl.rows("scored")) == shop.size - 3
    assert crawl.project.query("SELECT count(*) FROM nodes") == [(1,)]


@shared()
def test_an_error_that_a_program_answers_costs_one_job(site: Site) -> Part:
    yield from costs_one_job(site, "error", "own/mark: three is bad")


@shared()
def test_an_unreadable_answer_of_a_program_costs_one_job(site: Site) -> Part:
    yield from costs_one_job(site, "garbage", "own/mark: its answer is no JSON object")


@pytest.mark.sweep
@shared(*SWEEP)
def test_a_program_that_ends_without_an_answer_costs_one_job(site: Site) -> Part:
    yield from costs_one_job(site, "exit", "own/mark: the program ended 5 times without an answer (exit 4)")


@shared()
def test_a_program_that_hangs_costs_one_job(site: Site) -> Part:
    yield from costs_one_job(site, "sleep", "own/mark: takes longer than its limit of 1 s", limit="1")


@pytest.mark.sweep
@shared(*SWEEP)
def test_a_wrong_row_of_a_program_costs_one_job(site: Site) -> Part:
    yield from costs_one_job(site, "bad row", "own/mark: row 1: 'colour' is not a field of")


@pytest.mark.sweep
@shared(*SWEEP)
def test_an_answer_that_is_too_long_costs_one_job(site: Site) -> Part:
    yield from costs_one_job(site, "long", "own/mark: its answer has more than")


@pytest.mark.sweep
@pytest.mark.parametrize("trouble", ["two lines", "chatty"])
def test_rows_never_belong_to_another_page(shop: SteppedShop, project: Project, trouble: str) -> None:
    write(shop, [sys.executable, "plugins/score.py", trouble])
    done = project.crawl(code=1 if trouble == "chatty" else 0)
    lost = {3, 13, 23} if trouble == "chatty" else set()
    assert done.jobs.get("failed", 0) == len(lost)
    titles = project.query("SELECT j.url, json_extract(r.data, '$.title') FROM rows r JOIN jobs j ON j.id = r.job")
    assert all(url.rpartition("/")[2] in ("", title.split()[1]) for url, title in titles if title)
    assert sorted(int(row["title"].split()[1]) for row in project.rows("scored")) == [
        number for number in range(shop.size) if number not in lost
    ]


@shared()
def test_a_program_that_is_not_there_fails_each_job_with_its_name(site: Site) -> Part:
    shop = Shop(site)
    crawl = yield shop.defs(step(["no-such-program"]))
    assert crawl.jobs == {"failed": shop.size}
    [reason] = {job["reason"] for job in crawl.all_jobs()}
    assert reason == "own/mark: cannot run no-such-program: No such file or directory"
    assert crawl.count_rows("named") == shop.named()


@shared()
def test_other_answers_keep_the_rows(site: Site) -> Part:
    run = [sys.executable, "plugins/score.py", "not applicable"]
    crawl = yield Shop(site).defs(step(run)), {"score.py": PROGRAM}
    assert len([row for row in crawl.rows("scored") if not row["score"]]) == 3
    assert crawl.results()["not_applicable", ""] == 3


@pytest.mark.sweep
def test_links_and_stderr_of_a_program(shop: SteppedShop, project: Project) -> None:
    write(shop, [sys.executable, "plugins/score.py", "stderr"])
    project.crawl()
    assert "three on stderr" in project.logs()
    shop.url = shop.url + "i/3"
    write(shop, [sys.executable, "plugins/score.py", "link"])
    project.crawl("--fresh")
    assert Counter(row["title"] for row in project.rows("scored")) == Counter(["Item 3", "Item 4"])


@pytest.mark.sweep
def test_workers_run_at_once(shop: SteppedShop, project: Project) -> None:
    program = "import sys, time\nfor line in sys.stdin:\n    time.sleep(0.5)\n    print(line, end='', flush=True)\n"
    write(shop, [sys.executable, "plugins/slow_score.py"], workers=8)
    (project.defs / "plugins" / "slow_score.py").write_text(program)
    running = project.start(nodes=2)
    assert until(lambda: len(commands(project)) == 8)
    done = running.wait()
    assert done.code == 0
    assert commands(project) == []
    assert len(project.rows("scored")) == shop.size


def crawl_with_kills(project: Project, site: Site, size: int, kills: int, seed: int) -> int:
    """Crawl through awk while its processes are killed at random; returns how many were."""
    project.nodes = 1
    shop = SteppedShop(project, site, size=size)
    write(shop, awk(), workers=2)
    rng, running, killed = random.Random(seed), project.start(nodes=2), 0
    while not running.exited and killed < kills:
        time.sleep(rng.uniform(0.01, 0.08) if size < 1_000 else rng.uniform(0.1, 1.0))
        for pid in rng.sample(pids, 1) if (pids := commands(project)) else ():
            with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)
                killed += 1
    done = running.wait(600)
    assert done.code == 0, done.err
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()
    return killed


@pytest.mark.quick
def test_programs_killed_at_random_lose_no_row(project: Project, site: Site) -> None:
    assert crawl_with_kills(project, site, 600, 10, seed=7) > 3


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_programs_killed_at_random_sweep(project: Project, site: Site) -> None:
    assert crawl_with_kills(project, site, 10_000, 20, seed=11) == 20


def test_a_node_that_is_killed_leaves_no_program(shop: SteppedShop, project: Project) -> None:
    program = "import sys, time\nfor line in sys.stdin:\n    time.sleep(60)\n"
    write(shop, [sys.executable, "plugins/stuck_score.py"], limit="30")
    (project.defs / "plugins" / "stuck_score.py").write_text(program)
    running = project.start()
    assert until(lambda: commands(project))
    [stuck] = commands(project)
    [node] = project.children("node")
    os.kill(node, signal.SIGKILL)
    assert until(lambda: not os.path.exists(f"/proc/{stuck}"))
    running.send(signal.SIGKILL)
    running.process.wait()
    assert until(lambda: not commands(project))
