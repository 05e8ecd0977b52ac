"""Lines of text in the memory of their bytes."""

from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.model.record import as_text
from crawl_engine.node.lines import Lines, LineWriter

LINES = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30), max_size=20)


def written(lines: list[str]) -> LineWriter:
    writer = LineWriter()
    for line in lines:
        writer.add(line)
    return writer


@given(LINES)
def test_few_lines_stay_as_they_are(lines: list[str]) -> None:
    writer = written(lines)
    assert len(writer) == len(lines)
    assert writer.finish() == tuple(lines)


@given(LINES)
def test_many_lines_are_read_back_in_order(lines: list[str]) -> None:
    many = [*lines, "x" * 200_000, "", "é" * 300_000, *lines, *map(str, range(9_000))]
    writer = written(many)
    texts = writer.finish()
    assert isinstance(texts, Lines)
    assert len(writer) == len(texts) == len(many)
    assert [as_text(text) for text in texts] == many
