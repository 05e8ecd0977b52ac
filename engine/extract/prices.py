"""Reads the amount and the currency of a price in free text."""

import re
from collections.abc import Callable
from typing import Any

from engine.extract.quoting import quote_text

MAX_LENGTH = 200
"""Characters of a text with a price. The worst takes the library 0.5 ms, and a longer one its square."""


_PLAIN_MARKS = str.maketrans({**dict.fromkeys("\u2018\u2019\u02bc\u2032", "'"), "\u066b": ".", "\u066c": ","})
"""Marks that the library does not know: typographers' forms of the group mark of Switzerland, and Arabic ones."""
_BELOW_ONE = re.compile(r"\D*0([.,])\d{3}(?![\d.,])")
"""No group follows a zero: the mark in `0,500` is a decimal one."""


def price_converter(decimal_mark: str | None, group_mark: str | None) -> Callable[[str, str], Any]:
    """A converter from a text to `{"amount": Decimal, "currency": str or None}`; the marks are guessed if not given.

    The amount has the places as written, the currency is the sign or code as written. Raises `ValueError` for a text
    without a price. Imports the library, 10 ms.
    """
    from price_parser import Price

    # Blanks in a number are group marks to the library in any case.
    group = None if group_mark is None or group_mark.isspace() else group_mark.translate(_PLAIN_MARKS)
    decimal = None if decimal_mark is None else decimal_mark.translate(_PLAIN_MARKS)

    def convert(text: str, _base: str) -> dict[str, Any]:
        if len(text) > MAX_LENGTH:
            message = f"{quote_text(text)} is longer than {MAX_LENGTH} characters; pick out the price with `match`"
            raise ValueError(message)
        plain = text.translate(_PLAIN_MARKS)
        below_one = _BELOW_ONE.match(plain) if decimal is None and group is None else None
        price = Price.fromstring(
            plain, decimal_separator=decimal if below_one is None else below_one[1], digit_group_separator=group
        )
        # To the library, `free shipping` is a price of 0.
        is_price = any(map(str.isdigit, text)) or text.lower() == "free"
        if price.amount is None or not is_price:
            raise ValueError(f"{quote_text(text)} has no price")
        return {"amount": price.amount, "currency": price.currency}

    return convert
