"""Plots as text: scales, gaps, widths, ASCII."""

import pytest

from crawl_console.format import braille_plot, filled_plot, progress_bar, scale, trend
from crawl_console.terminal import to_ascii


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""), ([None], " "), ([5.0], "▄"), ([1.0, 1.0], "▄▄"), ([1.0, None, 3.0, 2.0], "▁ █▄"), ([-3.0, 3.0], "▁█"),
    ],
)  # fmt: skip
def test_a_trend_goes_from_the_lowest_to_the_highest(values: list[float | None], drawn: str) -> None:
    assert trend(values) == drawn


def test_a_filled_plot_takes_the_whole_width_and_leaves_gaps() -> None:
    lines = filled_plot([1.0, None, 3.0], 9, 2)
    assert [len(line) for line in lines] == [9, 9]
    assert lines[0] == " " * 6 + "⣿⣿⣿"
    assert lines[1] == "⣀⣀⣀   ⣿⣿⣿"
    assert filled_plot([], 9, 2) == [" " * 9, " " * 9]


def test_more_values_than_dots_show_the_newest() -> None:
    assert filled_plot([9.0, *[1.0] * 4], 2, 1) == filled_plot([1.0] * 4, 2, 1)


def test_a_plot_of_zeros_is_empty_and_one_without_room_too() -> None:
    assert braille_plot([0.0], 2, 1) == ["  "]
    assert braille_plot([1.0], 0, 1) == []


def test_scale() -> None:
    assert [scale(value, 2.0, 4.0) for value in (2.0, 3.0, 4.0)] == [0.0, 0.5, 1.0]
    assert scale(7.0, 7.0, 7.0) == 0.5


def test_ascii() -> None:
    assert to_ascii("plain") == "plain"
    assert to_ascii(progress_bar(0.5, 4)) == "==--", "full and empty differ"
    assert to_ascii("⣿⣀─→ é 北") == "@:-> ? ??"
