"""The recipes of the documentation: their number, their order and their lines, beside those of the spiders."""

import re

import pytest

from tests.recipes.inside import INSIDE_RECIPES
from tests.recipes.line_counts import count_python_lines, count_yaml_lines
from tests.recipes.member_recipes import MEMBER_RECIPES
from tests.recipes.recipes import DOCUMENTS, RECIPES, SPIDERS, Recipe
from tests.recipes.scripted import BROWSER_RECIPES
from tests.recipes.shapes import SHAPE_RECIPES
from tests.recipes.values import VALUE_RECIPES


def test_each_section_is_a_recipe_with_a_spider():
    chapters = (RECIPES, MEMBER_RECIPES, SHAPE_RECIPES, INSIDE_RECIPES, VALUE_RECIPES, BROWSER_RECIPES)
    headings = [recipe.heading for chapter in chapters for recipe in chapter]
    assert [
        title for page in DOCUMENTS for title in re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    ] == headings
    spiders = {path.stem for path in SPIDERS.glob("*.py")} - {"__init__"}
    assert spiders == {recipe.name for recipe in RECIPES}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_the_defs_have_at_most_half_the_lines_of_the_spider(recipe: Recipe):
    defs = recipe.block("yaml")
    spider = (SPIDERS / f"{recipe.name}.py").read_text("utf-8")
    assert count_yaml_lines(defs) <= count_python_lines(spider) / 2
    assert max(map(len, defs.splitlines())) <= 120, "no longer than a line of Python may be"
    assert "settings" not in spider, "settings are on the command line, for both"


def test_blank_lines_comments_and_docstrings_do_not_count():
    assert count_yaml_lines("a: 1  # one\n\n  # none\nb: '#'\n") == 2
    source = '"""None."""\n\nimport os  # one\n\nclass A:\n    """None,\n    none.\n    """\n    # none\n    b = 2\n'
    assert count_python_lines(source) == 3
    assert count_python_lines('text = """\none\n"""\n') == 3, "a text is no docstring"
