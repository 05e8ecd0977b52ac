"""The recipes of the documentation, run as they stand against a shop: the exact rows of each."""

import csv
from collections import Counter

import pytest

from tests.recipes.recipes import PRICE_WATCH, RECIPES, Recipe, Rows, at_origin, counted
from tests.recipes.shop import Shop
from tests.sample import sampled

from .project import Project
from .site import Site

pytestmark = pytest.mark.timeout(90)

SIZE = 43
"""Pages of a recipe, so that the last page of a list is not full."""


def run_recipe(recipe: Recipe, project: Project) -> Rows:
    """Run the command of the document; return the rows of its file."""
    variables, arguments = recipe.command
    done = project.run_command(*arguments, seconds=60, variables=variables)
    assert done.code == 0, done.err
    project.assert_clean(done)
    return counted(project.rows(recipe.data_def))


@pytest.mark.parametrize("recipe", sampled(RECIPES, 0, 3, 5, 8), ids=lambda recipe: recipe.name)
def test_a_recipe_gives_the_rows_of_the_site(recipe: Recipe, project: Project, site: Site) -> None:
    shop = Shop(site, SIZE)
    project.write(recipe.defs(shop.origin))
    variables, _ = recipe.command
    checked = project.run_command("check", variables=variables)
    assert (checked.code, checked.err) == (0, "")
    assert run_recipe(recipe, project) == recipe.rows(shop)
    requests = Counter((exchange.path, exchange.request.body) for exchange in site.exchanges)
    repeated = [path for path, count in requests.items() if count > 1]
    has_chain = "until: empty" in recipe.block("yaml")
    assert len(repeated) <= has_chain, "only the empty end of a chain is asked for twice"
    assert max(requests.values()) <= 1 + has_chain
    shown = list(csv.DictReader(at_origin(recipe.block("csv"), shop.origin).splitlines(), strict=True))
    written = project.rows(recipe.data_def)
    assert shown
    assert list(shown[0]) == list(written[0]), "the columns in their order"
    assert counted(shown) <= counted(written)
    if recipe.name == PRICE_WATCH:
        shop.raised = True
        assert run_recipe(recipe, project) == recipe.rows(shop)
        assert run_recipe(recipe, project) == counted([]), "nothing is new in a run without a change"
