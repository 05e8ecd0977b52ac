"""Reads the amount and the currency of a price in free text."""

from collections.abc import Callable
from typing import Any

from engine.extract.quoting import quote_text

MAX_LENGTH = 200
"""Characters of a text with a price. The worst takes the library 0.5 ms, and a longer one its square."""


_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u2032", "'"))
"""Typographers' forms of the group mark of Switzerland, which the library does not know."""


def price_converter(decimal_mark: str | None, group_mark: str | None) -> Callable[[str, str], Any]:
    """A converter from a text to `{"amount": Decimal, "currency": str or None}`; the marks are guessed if not given.

    The amount has the places as written, the currency is the sign or code as written. Raises `ValueError` for a text
    without a price. Imports the library, 10 ms.
    """
    from price_parser import Price

    # Blanks in a number are group marks to the library in any case.
    group = None if group_mark is None or group_mark.isspace() else group_mark.translate(_APOSTROPHES)

    def convert(text: str, _base: str) -> dict[str, Any]:
        if len(text) > MAX_LENGTH:
            message = f"{quote_text(text)} is longer than {MAX_LENGTH} characters; pick out the price with `match`"
            raise ValueError(message)
        price = Price.fromstring(
            text.translate(_APOSTROPHES), decimal_separator=decimal_mark, digit_group_separator=group
        )
        # To the library, `free shipping` is a price of 0.
        is_price = any(map(str.isdigit, text)) or text.lower() == "free"
        if price.amount is None or not is_price:
            raise ValueError(f"{quote_text(text)} has no price")
        return {"amount": price.amount, "currency": price.currency}

    return convert
