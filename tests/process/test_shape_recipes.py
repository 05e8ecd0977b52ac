"""The recipes for other shapes, data inside other texts, and values that need more, run as they stand: exact rows."""

import csv

import pytest

from tests.recipes.inside import INSIDE_RECIPES, serve_inside
from tests.recipes.recipes import Recipe, at_origin, counted
from tests.recipes.shapes import SHAPE_RECIPES, serve_shapes
from tests.recipes.shop import Shop
from tests.recipes.values import VALUE_RECIPES, serve_values

from .project import Project
from .site import Site

pytestmark = pytest.mark.timeout(60)
_MAX_LINES = 25


@pytest.mark.parametrize("recipe", [*SHAPE_RECIPES, *INSIDE_RECIPES, *VALUE_RECIPES], ids=lambda recipe: recipe.name)
def test_a_recipe_gives_the_rows_of_the_page(recipe: Recipe, project: Project, site: Site) -> None:
    shop = Shop(site, 1)
    serve_shapes(site)
    serve_inside(site)
    serve_values(site)
    defs = recipe.defs(site.url(""))
    assert len(defs.splitlines()) <= _MAX_LINES
    project.write(defs)
    _, arguments = recipe.command
    done = project.run_command(*arguments, seconds=40)
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert counted(project.rows(recipe.data_def)) == recipe.rows(shop)
    shown = list(csv.DictReader(at_origin(recipe.block("csv"), shop.origin).splitlines(), strict=True))
    assert list(shown[0]) == list(project.rows(recipe.data_def)[0]), "the columns in their order"
    assert counted(shown) <= counted(project.rows(recipe.data_def))
