"""The recipes for customers and for later runs, run as they stand: exact rows, and what each asks the site for."""

import csv
import re
import shlex
from collections import Counter

import pytest

from tests.recipes.member_recipes import CHANGED, CHANGES, DAILY, FILES, LOGIN, MEMBER_RECIPES, TOKEN_API
from tests.recipes.members import PASSWORD, TOKEN, MemberShop
from tests.recipes.recipes import Recipe, at_origin, counted
from tests.sample import sampled

from .project import Completed, Project
from .site import Site

pytestmark = pytest.mark.timeout(90)

SIZE = 43
"""Products, so that the last page of a list is not full."""


@pytest.fixture
def shop(site: Site) -> MemberShop:
    return MemberShop(site, SIZE)


def run(recipe: Recipe, project: Project) -> Completed:
    """Run the commands of the document, which must succeed; returns the last one."""
    for line in recipe.block("sh").splitlines():
        words = shlex.split(line)
        start = words.index("crawl-console")
        variables = dict(word.split("=", 1) for word in words[:start])
        done = project.run_command(*words[start + 1 :], seconds=60, variables=variables)
        assert done.code == 0, done.err
    return done


def write_checked(recipe: Recipe, project: Project, shop: MemberShop) -> None:
    defs = recipe.defs(shop.origin)
    project.write(defs)
    checked = project.run_command("check", variables=dict.fromkeys(re.findall(r"%\{env\.(\w+)\}", defs), "x"))
    assert (checked.code, checked.err) == (0, "")


@pytest.mark.parametrize("recipe", sampled(MEMBER_RECIPES, 0, 2), ids=lambda recipe: recipe.name)
def test_a_recipe_gives_the_rows_of_the_site(recipe: Recipe, project: Project, site: Site, shop: MemberShop) -> None:
    write_checked(recipe, project, shop)
    done = run(recipe, project)
    project.assert_clean(done)
    assert counted(project.rows(recipe.data_def)) == recipe.rows(shop)
    requests = Counter((exchange.request.method, exchange.path) for exchange in site.exchanges)
    twice = [path for (_, path), count in requests.items() if count > 1]
    assert twice == (["/api/stock?page=6"] if recipe is TOKEN_API else []), (
        "an empty end is confirmed, and nothing else"
    )
    if recipe is CHANGES:
        return
    shown = list(csv.DictReader(at_origin(recipe.block("csv"), shop.origin).splitlines(), strict=True))
    assert shown
    assert list(shown[0]) == list(project.rows(recipe.data_def)[0]), "the columns in their order"
    assert counted(shown) <= counted(project.rows(recipe.data_def))


@pytest.mark.parametrize(("recipe", "secret"), [(LOGIN, PASSWORD), (TOKEN_API, TOKEN)], ids=["login", "token"])
def test_a_secret_is_nowhere_in_the_data_dir(recipe: Recipe, secret: str, project: Project, shop: MemberShop) -> None:
    write_checked(recipe, project, shop)
    run(recipe, project)
    files = [path for path in project.data.rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if secret.encode() in path.read_bytes()] == []


@pytest.mark.sweep
def test_the_daily_crawl_asks_for_what_has_changed(project: Project, site: Site, shop: MemberShop) -> None:
    write_checked(DAILY, project, shop)
    run(DAILY, project)
    shop.change(*CHANGED)
    site.clear_log()
    run(DAILY, project)
    assert sorted(site.paths) == ["/d/2", "/d/3", "/daily.xml"]
    assert counted(project.rows("product")) == DAILY.rows(shop)


@pytest.mark.sweep
def test_changes_are_what_the_second_run_found(project: Project, site: Site, shop: MemberShop) -> None:
    write_checked(CHANGES, project, shop)
    run(CHANGES, project)
    shop.change(*CHANGED)
    done = run(CHANGES, project)
    assert done.out.splitlines() == recipe_lines(CHANGES)
    shop.removed.add(5)
    done = run(CHANGES, project)
    [_, line] = done.out.splitlines()
    assert line.startswith("vanished,COC-00005,")


def recipe_lines(recipe: Recipe) -> list[str]:
    return recipe.block("csv").splitlines()


def test_each_file_is_downloaded_once(project: Project, site: Site, shop: MemberShop) -> None:
    write_checked(FILES, project, shop)
    run(FILES, project)
    files = [path for path in site.paths if path.startswith("/files/")]
    assert len(files) == len(set(files)) == SIZE // 3 + 1
    stored = project.output("manual.csv").parent / "files"
    assert len([path for path in stored.iterdir() if path.suffix == ".pdf"]) == len(files)
