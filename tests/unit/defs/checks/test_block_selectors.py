"""Which selectors a field may have in its block."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from tests.unit.defs.language.test_strictness import GOOD, load_problems, write_defs


@pytest.mark.parametrize(
    ("block", "selector", "message"),
    [
        ("li", "jmespath: a", "`jmespath:` reads JSON, and the block selects elements"),
        ("li", "jmespath(script): a", None),
        ("li", "jsonld: A.b", None),
        ("jmespath: items", "jmespath: a", None),
        ("jsonld: A", "jmespath: a", None),
        ("jsonld: A", "jsonld: B.c", None),
        ("jsonld: A", "b", "the block selects JSON values, which have no elements"),
        ("jmespath(script): a", "xpath: b", "the block selects JSON values, which have no elements"),
        ("jmespath(script): a", "jmespath(script): b", "the block selects JSON values, which have no elements"),
    ],
)
def test_a_field_that_its_block_cannot_have(tmp_path: Path, block: str, selector: str, message: str | None) -> None:
    price = ".price" if block == "li" else "jmespath: price"
    text = GOOD.replace("li.item", block).replace('"a", req', f'"{selector}", req').replace(".price", price)
    path = write_defs(tmp_path, text)
    if message is None:
        load(path)
    else:
        (problem,) = load_problems(path)
        assert (problem.code, problem.line) == ("conflict", 13)
        assert message in problem.message
