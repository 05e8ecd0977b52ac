"""One search for rare words finds what a search for each of them finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.documents.markup import WORDS
from crawl_engine.http.challenge import ALL_TEXTS
from crawl_engine.rare_words import RareWords

LISTS = [WORDS, ALL_TEXTS, RareWords(b"abc", b"bcd", b"b", b"abcd", b"cda")]


@pytest.mark.parametrize("words", LISTS)
@given(data=st.data())
def test_the_words_that_occur_are_found_also_inside_one_another(words: RareWords, data: st.DataObject) -> None:
    pieces = [*words.words, *(word[:-1] for word in words.words), *(word[1:] for word in words.words), b"x", b" " * 70]
    text = b"".join(data.draw(st.lists(st.sampled_from(pieces) | st.binary(max_size=80), max_size=12)))
    assert words.find(text) == {word for word in words.words if word in text}


@pytest.mark.parametrize("words", LISTS)
@pytest.mark.parametrize("end", [b"", b"y"])
def test_a_word_is_found_at_each_place_of_a_text(words: RareWords, end: bytes) -> None:
    for word in words.words:
        for before in (*range(70), 8_192 - len(word)):
            assert word in words.find(b"<" * before + word + end)
            assert word not in words.find(b"<" * before + word[:-1] + b"\0" + end)
