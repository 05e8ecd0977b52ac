"""States of a page: what is written is read back, and costs what is new."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.documents.page_states import Part, find_difference, size_of, split_states, write_states

TOKENS = st.lists(st.sampled_from(["<li>", "</li>", "<b>", "é", "1", "<!--", "</script>", "<p>", "\u2028", "\\", "x"]))


def written(states: list[bytes]) -> bytes:
    differences = [find_difference(*pair) for pair in pairwise(states)]
    return write_states(states[-1] + b"<!-- captured -->", len(states[-1]), differences)


@given(st.lists(TOKENS.map("".join).map(str.encode), min_size=1, max_size=6))
def test_states_are_read_back(states: list[bytes]) -> None:
    document, read = split_states(written(states))
    assert read is not None
    assert document == states[-1] + b"<!-- captured -->"
    assert [*read.read_backwards()][::-1] == states[:-1]


def rows(first: int, last: int) -> bytes:
    listed = "".join(f"<li class=row><b>{n}</b> <i>name {n}</i></li>" for n in range(first, last))
    return f"<h1>{last} of 999</h1><ul>{listed}</ul><p>at {first}</p><footer>é</footer>".encode()


def test_a_list_that_grows_costs_a_few_bytes_a_state() -> None:
    states = [rows(0, 20 * page) for page in range(1, 40)]
    assert sum(size_of(find_difference(*pair)) for pair in pairwise(states)) < 40 * 100


def test_a_window_costs_the_rows_that_leave_it() -> None:
    [difference] = [find_difference(rows(0, 40), rows(20, 60))]
    assert size_of(difference) < len(rows(0, 22))


@pytest.mark.parametrize("difference", [[(5, 3)], [(4, 9), (0, 3)], [(-1, 3)]])
def test_a_state_that_nobody_has_written_so_is_none(difference: list[Part]) -> None:
    _, read = split_states(write_states(b"<p>0123456789", 13, [difference]))
    assert read is not None
    assert [*read.read_backwards()] == []


@pytest.mark.parametrize("text", [b"", b"x", b"[1]", b'[1,[["a"],[[0]]]]', b"[" * 5000])
def test_what_a_page_writes_in_their_place_is_its_own(text: bytes) -> None:
    page = b'<p>\n<script type="application/json" data-states>' + text + b"</script><!-- states -->"
    assert split_states(page) == (page, None)
