"""Plugin steps in real crawls: what they return is written, and what they do wrong costs one job, never a node."""

from collections import Counter

import pytest

from .project import Project
from .shared_crawl import Part, shared
from .site import Site
from .stepped_shop import STEP, Shop, SteppedShop, plugin

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def shop(project: Project, site: Site) -> SteppedShop:
    project.nodes = 1
    return SteppedShop(project, site)


def results(project: Project) -> dict[tuple[str, str], int]:
    rows = project.query("SELECT outcome, code, sum(results) FROM result_counts GROUP BY outcome, code")
    return {(outcome, code): count for outcome, code, count in rows}


def test_rows_go_through_a_step(shop: SteppedShop, project: Project) -> None:
    shop.write()
    project.crawl()
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()
    assert results(project) == {("ok", ""): shop.size}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        pytest.param("error", "own/mark: three is bad", marks=pytest.mark.sweep),
        pytest.param("quit", "own/mark: SystemExit: 3 (plugins/shop.py:", marks=pytest.mark.sweep),
        ("exit", "own/mark: its extraction process died twice (exit 7"),
        pytest.param("loop", "own/mark: takes longer than its limit of 0.3 s", marks=pytest.mark.sweep),
        pytest.param("sleep", "own/mark: takes longer than its limit of 0.3 s", marks=pytest.mark.sweep),
        ("memory", "own/mark: needs more than 400 MB"),
    ],
)
def test_a_fault_costs_one_job_and_the_rows_of_one_task(
    shop: SteppedShop, project: Project, trouble: str, reason: str
) -> None:
    shop.write(trouble, limit="0.3" if trouble in ("loop", "sleep") else "5")
    done = project.crawl(code=1)
    assert done.jobs == {"done": shop.size - 3, "failed": 3}
    reasons = [row[0] for row in project.query("SELECT reason FROM jobs WHERE state = 'FAILED'")]
    assert all(text.startswith(reason) for text in reasons), reasons
    assert project.count_rows("scored", "named") == shop.scored(without=3) + shop.named()
    assert project.query("SELECT count(*) FROM nodes") == [(1,)]
    assert sum(count for (outcome, _), count in results(project).items() if outcome == "error") == 3


def fault_costs_one_job(site: Site, trouble: str, reason: str) -> Part:
    shop = Shop(site)
    crawl = yield shop.defs(STEP % (trouble, 5)), {"shop.py": plugin(factor=2)}
    assert crawl.jobs == {"done": shop.size - 3, "failed": 3}
    reasons = [job["reason"] for job in crawl.all_jobs() if job["state"] == "FAILED"]
    assert all(text.startswith(reason) for text in reasons), reasons
    assert crawl.count_rows("scored", "named") == shop.scored(without=3) + shop.named()
    assert crawl.project.query("SELECT count(*) FROM nodes") == [(1,)]
    assert sum(count for (outcome, _), count in crawl.results().items() if outcome == "error") == 3


@shared()
def test_an_exception_costs_one_job_and_the_rows_of_one_task(site: Site) -> Part:
    yield from fault_costs_one_job(site, "exception", "own/mark: ZeroDivisionError: division by zero (plugins/shop.py:")


@shared()
def test_an_exception_without_a_text_costs_one_job_and_the_rows_of_one_task(site: Site) -> Part:
    yield from fault_costs_one_job(
        site, "unreadable", "own/mark: Unreadable: its text cannot be read (plugins/shop.py:"
    )


def keeps_the_rows(site: Site, trouble: str, outcome: tuple[str, str], count: int) -> Part:
    shop = Shop(site)
    crawl = yield shop.defs(STEP % (trouble, 5)), {"shop.py": plugin(factor=2)}
    assert crawl.jobs == {"done": shop.size}
    unscored = [row for row in crawl.count_rows("scored") if not row[-1]]
    assert len(unscored) == (3 if outcome[0] == "not_applicable" else 0)
    assert crawl.count_rows("named") == shop.named()
    assert crawl.results()[outcome] == count


@shared()
def test_a_step_that_is_not_applicable_keeps_the_rows(site: Site) -> Part:
    yield from keeps_the_rows(site, "not applicable", ("not_applicable", ""), 3)


@shared()
def test_a_warning_keeps_the_rows(site: Site) -> Part:
    yield from keeps_the_rows(site, "warning", ("warning", "odd"), 3)


@shared()
def test_a_step_that_prints_keeps_the_rows(site: Site) -> Part:
    yield from keeps_the_rows(site, "print", ("ok", ""), 30)


def test_a_step_that_damages_its_interpreter_costs_its_own_page(shop: SteppedShop, project: Project) -> None:
    shop.write("damage")
    assert project.start().wait().code in (0, 1)
    failed = {url for (url,) in project.query("SELECT url FROM jobs WHERE state <> 'DONE'")}
    assert all(url.endswith("3") for url in failed), failed
    assert project.query("SELECT count(*) FROM nodes") == [(1,)]
    assert project.count_rows("named") >= shop.named() - Counter(("named", f"Item {n}") for n in shop.threes())


@pytest.mark.sweep
def test_a_leak_costs_no_job(shop: SteppedShop, project: Project) -> None:
    shop.write("leak")
    project.crawl()
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()


@pytest.mark.sweep
def test_retry_works_a_failed_job_from_its_stored_document(shop: SteppedShop, project: Project, site: Site) -> None:
    shop.write("error")
    project.crawl(code=1)
    site.clear_log()
    shop.write()
    assert project.run_with_data("retry").code == 0
    assert project.count_rows("named") == shop.named()
    project.crawl()
    assert site.paths == []
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()
    assert results(project) == {("ok", ""): shop.size}


@pytest.mark.quick
def test_a_fixed_plugin_re_extracts_its_task_alone(shop: SteppedShop, project: Project, site: Site) -> None:
    shop.write("error", more="")
    project.crawl(code=1)
    before = project.query("SELECT max(r.id) FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = 'named'")
    site.clear_log()
    shop.write(factor=3)
    done = project.run_with_data("extract", "--defs", str(project.defs))
    assert done.code == 0, done.err
    assert site.paths == []
    assert project.count_rows("scored", "named") == shop.scored(factor=3) + shop.named()
    assert project.query("SELECT state, count(*) FROM jobs WHERE page IS NULL GROUP BY state") == [("DONE", shop.size)]
    after = project.query("SELECT max(r.id) FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = 'named'")
    assert before == after
    assert results(project) == {("ok", ""): shop.size}
