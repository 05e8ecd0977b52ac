import pytest

from crawl_engine.model.node import NodeRange


@pytest.mark.parametrize(("text", "least", "most"), [("4", 4, 4), ("1-4", 1, 4), (" 2-2 ", 2, 2), ("10-256", 10, 256)])
def test_a_number_or_a_range(text: str, least: int, most: int) -> None:
    nodes = NodeRange.parse(text)
    assert (nodes.least, nodes.most) == (least, most)
    assert NodeRange.parse(str(nodes)) == nodes
    assert nodes.is_elastic is (least < most)


@pytest.mark.parametrize("text", ["", "0", "0-4", "4-1", "-1", "1-", "1 - 4", "1-4-5", "two", "1.5", "١", "9" * 30])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        NodeRange.parse(text)


def test_the_closest_number_within_it() -> None:
    assert [NodeRange(2, 4).clamp(count) for count in (0, 2, 3, 9)] == [2, 2, 3, 4]
