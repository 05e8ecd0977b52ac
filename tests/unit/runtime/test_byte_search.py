"""The search of the C library finds what `in` finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.runtime import byte_search
from engine.runtime.byte_search import contains


@given(st.binary(max_size=40), st.binary(min_size=1, max_size=4), st.integers(0, 9_000), st.booleans())
def test_a_word_is_found_in_short_and_long_texts(text: bytes, word: bytes, size: int, occurs: bool) -> None:
    searched = text + b"\0" * size + (word if occurs else b"") + text
    assert contains(searched, word) == (word in searched)


def test_without_the_c_function_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_search, "_memmem", None)
    assert contains(b"x" * 9_000 + b"word", b"word")
    assert not contains(b"x" * 9_000, b"word")
