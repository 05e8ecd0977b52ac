"""The markup of a page: what it mentions, and its counts, for small pages and for large ones."""

import pytest

from crawl_engine.extract.documents.markup import WORDS, Markup

LARGE = 600_000
"""Of two such fillings a page is not kept in lower case, and read in pieces."""


@pytest.mark.parametrize("word", WORDS.words)
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
    markup = Markup(b"<td RowSpan=2>" + b"x" * 2 * LARGE + b"NoFollow")
    assert {word for word in WORDS.words if markup.mentions(word)} == {b"nofollow", b"rowspan"}
    assert markup.forget()
    assert {word for word in WORDS.words if markup.mentions(word)} == {b"nofollow", b"rowspan"}


@pytest.mark.parametrize("size", [0, LARGE])
@pytest.mark.parametrize(
    ("head", "forbids"),
    [
        (b"<META NAME=Robots CONTENT=NOARCHIVE>", True),
        (b"<meta name=robots content='index,nosnippet'>", True),
        (b"<meta name=acme content=noindex>", True),
        (b"<meta name=other content=noindex>", False),
        (b"<meta name=robots content='index, follow, max-snippet:-1'><noscript></noscript>", False),
        (b"</head>robots noindex", False),
    ],
)
def test_a_meta_may_forbid_something_to_all_robots_or_to_one(head: bytes, forbids: bool, size: int) -> None:
    text = b"<head><title>x</title>" + head + b"</HEAD>" + b"<p>text " * (2 * size // 8)
    markup = Markup(text)
    assert markup.mentions_robots(b"acme") is forbids
    assert markup.forget()
    assert markup.mentions_robots(b"acme") is forbids


def test_a_large_head_that_forbids_something_is_not_forgotten() -> None:
    start = b"<meta name=robots content=%s>"
    filling = b"<p>text " * (2 * LARGE // 8)
    assert not Markup(start % b"noindex" + filling).forget()
    forgotten = Markup(start % b"index" + filling)
    assert forgotten.forget()
    assert (forgotten.head, forgotten.mentions_robots(b"acme")) == (b"", False)
    assert Markup(b"November, not now" + filling).forget()


def test_counts_are_those_of_the_text() -> None:
    markup = Markup(b"<html><B class=x>bold</B><font/><br></html>")
    assert (markup.tags, markup.start_tags, markup.formatting_tags) == (6, 4, 2)
