"""Reads an amount and its currency from free text: `1.116,90 €`, `Rs. 1,25,000.00`, `(5.00 USD)`."""

import re
import unicodedata
from decimal import Decimal
from typing import Any, NamedTuple

import regex

from engine.errors import quote_text

MAX_PRICE_CHARACTERS = 200
"""Characters of a text with a price: the library takes the square of its length."""

_DECIMAL, _GROUP = "\u066b", "'"
"""Marks that never group, and that always do: the Arabic decimal mark, and the Swiss group mark."""
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u2032\u00b4`\uff07\u066c", _GROUP),
        **dict.fromkeys("\u2212\ufe63\uff0d\u2010\u2011\u2012\u2013\u2014", "-"),
        **dict.fromkeys("\u066a\ufe6a\uff05\u2030", "%"),
        "\uff0c": ",", "\u060c": ",", "\uff0e": ".", "\u00b7": _DECIMAL,
    }
)  # fmt: skip
"""Other forms of marks, minus and percent signs."""
_FOREIGN = regex.compile(r"(?V1)[\p{Nd}--[0-9]]|\p{Cf}")
_MARKS = f".,{_DECIMAL}{_GROUP}"
_POINT = f"[.,{_DECIMAL}]"
_START = re.compile(rf"(?<![^\W\d_])(?<![^\W\d_]{_POINT})(?<!{_POINT}{{2}}){_POINT}[0-9]|[0-9]")
"""A digit, with a mark before it that belongs neither to a word such as `Rs.` nor to an ellipsis."""
_WORDS = re.compile(r"\w+")
_EURO_BEFORE_CENTS = re.compile(r"(?<=[0-9])(?<![.,][0-9])(?<![.,][0-9]{2}) ?€ ?([0-9]{2})$")
_PERCENT = re.compile(r" ?(?:- ?[0-9.,]+ ?)?%")
"""Follows a percentage, or the first of a range of them."""
_NO_CENTS = re.compile(r"[.,]-")


class Price(NamedTuple):
    """The amount keeps its written places; the currency is the sign or code as written."""

    amount: Decimal
    currency: str | None
    is_guess: bool = False
    """Whether the only mark may group digits or begin decimals."""

    @property
    def value(self) -> dict[str, Any]:
        """The value of a field."""
        return {"amount": self.amount, "currency": self.currency}


class PriceReader:
    """Reads the first price of a text, by given marks, or by those seen in the text.

    After a group mark, the last other mark is the decimal one. One mark alone before exactly three digits groups.
    A blank may stand at a mark: cents are often an element of their own.
    """

    def __init__(self, decimal_mark: str | None, group_mark: str | None) -> None:
        from price_parser import Price as LibraryPrice  # fields of other types do not load it

        self._find_currency = LibraryPrice.fromstring
        self._may_guess = decimal_mark is None and group_mark is None
        marks = {"decimalMark": decimal_mark, "groupMark": group_mark}
        given = [f"`{name}: '{mark}'`" for name, mark in marks.items() if mark is not None]
        self._with_marks = f" with {' and '.join(given)}" if given else ""
        decimal = None if decimal_mark is None else _to_plain(decimal_mark)
        group = None if group_mark is None else _to_plain(group_mark) or " "
        decimals = {decimal} if decimal else {".", ","} - {group}
        groups = {group} if group else {".", ","} - {decimal}
        self._number = regex.compile(_number_pattern("".join(decimals), "".join(groups)))

    def read(self, text: str) -> Price:
        """Raises `ValueError` for a text without a price."""
        if len(text) > MAX_PRICE_CHARACTERS:
            message = (
                f"{quote_text(text)} is longer than {MAX_PRICE_CHARACTERS} characters; pick out the price with `match`"
            )
            raise ValueError(message)
        if _WORDS.findall(text.lower()) == ["free"]:
            return Price(Decimal(0), None)
        plain = _to_plain(text)
        if plain.count("€") == 1:
            plain = _EURO_BEFORE_CENTS.sub(rf"{_DECIMAL}\1", plain)
        number = self._find_number(plain)
        if number is None:
            raise ValueError(f"{quote_text(text)} has no price{self._with_marks}")
        currency = self._find_currency(text).currency
        before, after = plain[: number.start()], plain[number.end() :]
        whole, decimals, mark = number["whole"] or "", number["decimals"] or "", number["group"]
        is_lone_mark = self._may_guess and mark in (".", ",") and not decimals and whole.count(mark) == 1
        if is_lone_mark and whole.startswith("0"):  # no group follows a zero
            whole, _, decimals = whole.partition(mark)
            is_lone_mark = False
        digits = re.sub("[^0-9]", "", whole) or "0"
        amount = Decimal(f"{digits}.{decimals}" if decimals else digits)
        is_signed = "-" in plain or "(" in plain
        if is_signed and amount and _is_negative(before, after, _to_plain(currency or ""), has_decimals=bool(decimals)):
            amount = amount.copy_negate()
        return Price(amount, currency, is_lone_mark and not _NO_CENTS.match(after))

    def _find_number(self, text: str) -> "regex.Match[str] | None":
        """The first number that is not a percentage; None if there is none, or if it is not written as a number."""
        at = 0
        while start := _START.search(text, at):
            number = self._number.match(text, start.start()) or self._number.match(text, start.end() - 1)
            if number is None:
                return None
            percent = _PERCENT.match(text, number.end())
            if percent is None and not _follows_percent(text[: start.start()]):
                return number
            at = number.end() if percent is None else percent.end()
        return None


def _number_pattern(decimals: str, groups: str) -> str:
    """Groups have three digits; in India, two before the last. What follows must not continue the number.

    `3, 5, 10` is a list, not cents behind a blank.
    """
    group = f"[ {_GROUP}{re.escape(groups)}]"
    thousands = f"[0-9]{{1,3}}(?P<group>{group}) ?[0-9]{{3}}(?:(?P=group) ?[0-9]{{3}})*"
    lakhs = f"[0-9]{{1,2}}(?P<group>(?![ .]){group}) ?(?:[0-9]{{2}}(?P=group) ?)+[0-9]{{3}}"
    mark = f"(?!(?P=group))[{_DECIMAL}{re.escape(decimals)}]"
    places = "2,3" if len(decimals) == 1 else "2"  # three digits behind an uncertain mark may be a group
    cents = f"[0-9]{{{places}}}(?!(?:[{_MARKS}] )?[0-9])"
    fraction = f"(?: ?{mark}(?P<decimals>[0-9]+)|(?<=[0-9]) ?{mark} (?P<decimals>{cents}))?"
    return f"(?P<whole>{thousands}|{lakhs}|[0-9]*){fraction}(?![{_MARKS}]?[0-9])"


def _follows_percent(before: str) -> bool:
    """Whether a percent sign is written before its number: `%10`."""
    return before.endswith("%") and not before[:-1].rstrip()[-1:].isdigit()


def _is_negative(before: str, after: str, currency: str, *, has_decimals: bool) -> bool:
    """Whether a sign stands before or behind the number, or accounting brackets stand around it.

    A dash between words, a range or `12.-` is not a minus sign.
    """
    rest = after.replace(currency, "").strip()
    if before.replace(currency, "").strip() == "(" and rest == ")":
        return True
    if after.startswith("-") and rest == "-":
        return has_decimals
    sign = re.fullmatch(rf"(.*)-( ?)(?:{re.escape(currency)} ?)?", before)
    if sign is None:
        return False
    left, gap = sign.groups()
    is_start = not left.strip() or left.rstrip().endswith(":")
    return is_start or (not gap and left.endswith((" ", "(", currency or " ")))


def _to_plain(text: str) -> str:
    """The text with plain digits, marks and blanks, without invisible characters."""
    if not text.isascii():
        text = _FOREIGN.sub(lambda found: str(unicodedata.decimal(found[0], "")), text.translate(_PLAIN))
    return " ".join(text.replace("`", _GROUP).split())
