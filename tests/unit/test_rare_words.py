"""One search for rare words finds what a search for each of them finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.documents.markup import WORDS
from crawl_engine.http.challenge import ALL_TEXTS
from crawl_engine.rare_words import RareWords

LISTS = [WORDS, ALL_TEXTS, RareWords(b"abc", b"bcd", b"b", b"abcd", b"cda", b"aa")]


@pytest.mark.parametrize("words", LISTS)
@given(data=st.data())
def test_each_word_is_found_as_often_as_it_occurs_also_inside_one_another(
    words: RareWords, data: st.DataObject
) -> None:
    pieces = [*words.words, *(word[:-1] for word in words.words), *(word[1:] for word in words.words), b"x", b" " * 70]
    text = b"".join(data.draw(st.lists(st.sampled_from(pieces) | st.binary(max_size=80), max_size=12)))
    found = words.find(text)
    assert {word: found.count(word) for word in words.words} == {
        word: sum(text.startswith(word, at) for at in range(len(text))) for word in words.words
    }
    assert len(found) == sum(map(found.count, words.words))


@pytest.mark.parametrize("words", LISTS)
@pytest.mark.parametrize("end", [b"", b"y"])
def test_a_word_is_found_at_each_place_of_a_text(words: RareWords, end: bytes) -> None:
    for word in words.words:
        for before in (*range(70), 8_192 - len(word)):
            assert word in words.find(b"<" * before + word + end)
            assert word not in words.find(b"<" * before + word[:-1] + b"\0" + end)
