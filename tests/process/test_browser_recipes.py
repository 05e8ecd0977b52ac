"""The recipes for pages that need a browser, run as they stand: exact rows."""

import csv

import pytest

from tests.recipes.recipes import Recipe, at_origin, counted
from tests.recipes.scripted import BROWSER_RECIPES, serve_scripted
from tests.recipes.shop import Shop

from .project import Project
from .shop_front import NEEDS_BROWSER, SANDBOX, assert_nothing_left
from .site import Site

pytestmark = NEEDS_BROWSER
_MAX_LINES = 25


@pytest.mark.parametrize("recipe", BROWSER_RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_gives_the_rows_of_the_page(recipe: Recipe, project: Project, site: Site) -> None:
    shop = Shop(site, 1)
    serve_scripted(site)
    defs = recipe.defs(site.url(""))
    assert len(defs.splitlines()) <= _MAX_LINES
    project.write(defs)
    _, arguments = recipe.command
    done = project.run_command(*arguments, *SANDBOX, seconds=120)
    assert done.code == 0, done.err
    project.assert_clean(done)
    rows = project.rows(recipe.data_def)
    assert counted(rows) == recipe.rows(shop)
    shown = list(csv.DictReader(at_origin(recipe.block("csv"), shop.origin).splitlines(), strict=True))
    assert list(shown[0]) == list(rows[0]), "the columns in their order"
    assert counted(shown) <= counted(rows)
    assert_nothing_left(project)
