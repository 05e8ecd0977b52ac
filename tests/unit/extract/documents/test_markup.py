"""The markup of a page: what it mentions, and its counts, for small pages and for large ones."""

import pytest

from crawl_engine.extract.documents.markup import FORBIDDING, SPANS, Markup

LARGE = 600_000
"""Of two such fillings a page is not kept in lower case, and read in pieces."""


@pytest.mark.parametrize("word", [*FORBIDDING, *SPANS])
@pytest.mark.parametrize("size", [0, 3_000, LARGE])
def test_a_word_is_found_in_any_case_and_wherever_it_stands(word: bytes, size: int) -> None:
    filling = b"<p>text " * (size // 8)
    assert Markup(filling + word.upper() + filling).mentions(word)
    assert not Markup(filling + word[:-1] + b"-" + filling).mentions(word)


def test_a_word_is_found_across_the_pieces_of_a_large_page() -> None:
    for before in range(256 * 1024 - 9, 256 * 1024 + 2):
        page = b"x" * before + b"NOFOLLOW" + b"x" * 2 * LARGE
        assert Markup(page).mentions(b"nofollow")


def test_a_large_page_mentions_each_of_its_words() -> None:
    markup = Markup(b"<td RowSpan=2>" + b"x" * 2 * LARGE + b"NoIndex")
    assert [word for word in (*FORBIDDING, *SPANS) if markup.mentions(word)] == [b"noindex", b"rowspan"]


def test_counts_are_those_of_the_text() -> None:
    markup = Markup(b"<html><B class=x>bold</B><font/><br></html>")
    assert (markup.tags, markup.start_tags, markup.formatting_tags) == (6, 4, 2)
