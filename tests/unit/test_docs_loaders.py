"""The example of a loader in the documentation is the one that the tests crawl with."""

import pytest
import yaml

from .doc_pages import ROOT, blocks, with_chapters

PAGE = with_chapters("extending.md")
EXAMPLE = ROOT / "tests" / "data" / "loader"


@pytest.mark.parametrize("name", ["shop.py", "helper.py"])
def test_the_plugins_of_the_example_are_tested(name: str) -> None:
    assert (EXAMPLE / "plugins" / name).read_text("utf-8").strip() in [
        block.strip() for block in blocks(PAGE, "python")
    ]


def test_the_step_of_the_example_is_tested() -> None:
    [documented] = [yaml.safe_load(block) for block in blocks(PAGE, "yaml") if "shop.Helped" in block]
    tested = yaml.safe_load((EXAMPLE / "shop.yml").read_text("utf-8"))
    assert documented["taskGroups"]["items"]["offers"] == tested["taskGroups"]["items"]["own"]
