"""What a login sends does not stand in the reasons why it failed."""

import pytest

from engine.node.handlers.concealment import conceal

VALUES = ("Us er&x", "pass-word-1234")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timeout after 5 s", "timeout after 5 s"),
        ("redirect leaves a for pass-word-1234.example", "redirect leaves a for [secret].example"),
        ("redirect leaves a for PASS-WORD-1234.example", "redirect leaves a for [secret].example"),
        (
            "http://a/?u=Us+er%26x&v=Us%20er%26x&p=pass-word-1234 nests",
            "http://a/?u=[secret]&v=[secret]&p=[secret] nests",
        ),
        ("bad line b'pass-word-1234 pass-wor…", "bad line b'[secret] [secret]…"),
        ("more than 65536 bytes: b'/pass-...'.", "more than 65536 bytes: b'/[secret]...'."),
        ("a pa…", "a pa…"),
    ],
)
def test_values_are_hidden_however_they_are_written(text: str, expected: str) -> None:
    assert conceal(text, VALUES) == expected


def test_what_is_put_in_place_of_a_value_is_not_searched() -> None:
    assert conceal("a secret b", ("secret", "ecr")) == "a [secret] b"


def test_a_short_value_is_not_looked_for() -> None:
    assert conceal("a no-op of ok", ("no", "")) == "a no-op of ok"
