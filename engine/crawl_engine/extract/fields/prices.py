"""Reads an amount and its currency from free text: `1.116,90 €`, `Rs. 1,25,000.00`, `(5.00 USD)`."""

import re
import unicodedata
from collections.abc import Collection
from decimal import Decimal
from typing import Any, NamedTuple

import regex
from msgspec import Struct

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.currencies import Currency, currency_finder
from crawl_engine.extract.fields.magnitudes import (
    DOUBTFUL,
    Magnitude,
    find_magnitude,
    find_magnitude_before,
    languages_of,
    letter_exponent,
    scale_digits,
)
from crawl_engine.late_regex import late_regex

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
_CURRENCY = r"(?:[$€£₹₽¥]|(?:[A-Z]{3}|zł|Kč|Ft|kr|lei|лв|руб|грн)(?![^\W\d_]))"
_PERCENT = re.compile(r" ?(?:- ?[0-9.,]+ ?)?%")
"""Follows a percentage, or the first of a range of them."""
_NO_CENTS = late_regex(r"[.,]-")
_DOTS = late_regex(r"(?<=[$€£¥₹])\.{1,3} (?=[0-9]{2}(?![.,]?[0-9]))")
"""Marks of decimals, apart from the decimals: `$.. 99`."""
_MORE = re.compile(r"[0-9]")
_LETTER = re.compile(r"[ -]?[^\W\d_]")
_SHORTENED = late_regex(r"[-+~≈<>]? ?[0-9.,]+[kKMbBtT] ?\+?")
"""A number as counts are shortened, and nothing else."""
_LOST = frozenset(("k", "K", "m", "M", "b", "B", "t", "T", "Cr", "cr", "CR", "Crs", "Md", "Mds", "MM"))
"""Letters that may be a magnitude where no currency stands beside them."""
_MAX_AMOUNTS = 20
_UNIT = late_regex(
    r" ?-?(?:[kcmdµ]?[gml]|[cdmk]?m[²³2]|to?|lbs?|oz|ft|in|inch|yd|mi|[kmgtKMGT]i?[Bb]|[kM]?[WV]h?|mAh|Ah|Hz"
    r"|[mM]?[pP]x?|[kKMm]|kt|ct|cts|karat|carat|x|×|\"|″|pcs?|pieces?|pack|St|Stk|Stck|Stück|szt|ks|uds?|un|pz|stuks?|pièces?"
    r"|шт|г|кг|мл|л|м|個|本|枚|개|件)(?!\w)"
)
_NO_NUMBER = "where such texts are no values, `match: '.*[0-9].*'` leaves the field without one"
_NO_PRICE = "select its element, or pick it out with `match`; `decimalMark` and `groupMark` tell what its marks mean"
_GUESSED_GROUP = ("guessed-group", "`decimalMark` or `groupMark` says what its mark means")
_GUESSED_NUMBER = ("guessed-number", "another number may be the price; select its element, or pick it out with `match`")
_GUESSED_MAGNITUDE = ("guessed-magnitude", "its letter may be a unit; pick out the price with `match`")
_GUESSED_RANGE = (
    "guessed-magnitude",
    "the magnitude behind the range may count for both; pick out the price with `match`",
)
_UNREAD_MAGNITUDE = ("guessed-magnitude", "its letter may be a magnitude; pick out the price with `match`")
_RANGE = late_regex(
    r" ?(?:[-~/]|(?:to|or|and|through|bis|und|oder|à|a|al|et|ou|o|y|e|hasta|até|do|lub|až|tot|en|till|til|och|og|до|и"
    r"|или|से) ) ?"
)
"""Between the two amounts of a range or a choice."""
_LIST = late_regex(r"(?: ?[,;/|]? [0-9][0-9.,]*| ?[,;/|] ?)+")
_LABEL = late_regex(r"[^\W_][ .:#№(-]{0,2}$")


class Price(NamedTuple):
    """The amount keeps its written places; the currency is the sign or code as written."""

    amount: Decimal
    currency: str | None
    doubts: tuple[tuple[str, str], ...] = ()
    """By code, why another amount may be meant, and what to do."""

    @property
    def value(self) -> dict[str, Any]:
        """The value of a field."""
        return {"amount": self.amount, "currency": self.currency}


class _Amount(Struct, frozen=True):
    """A number of the text, with what stands beside it."""

    number: "regex.Match[str]"
    magnitude: Magnitude | None
    added: tuple[tuple["regex.Match[str]", int], ...]
    """Further parts of the sum, each with its power of ten: `3000万` of `5億3000万円`."""
    end: int
    before: Currency | None
    behind: Currency | None

    @property
    def currency(self) -> Currency | None:
        return self.before or self.behind

    @property
    def outer_start(self) -> int:
        return self.number.start() if self.before is None else self.before.start

    @property
    def outer_end(self) -> int:
        return self.end if self.behind is None else self.behind.end


class PriceReader:
    """Reads the first price of a text, by given marks, or by those seen in the text.

    After a group mark, the last other mark is the decimal one. One mark alone before exactly three digits groups.
    A blank may stand at a mark: cents are often an element of their own. Of several numbers, the first counts, unless
    only a later one stands beside a currency. Words of magnitude multiply.
    """

    def __init__(self, decimal_mark: str | None, group_mark: str | None) -> None:
        self._currencies = currency_finder()
        self._may_guess = decimal_mark is None and group_mark is None
        marks = {"decimalMark": decimal_mark, "groupMark": group_mark}
        given = [f"`{name}: '{mark}'`" for name, mark in marks.items() if mark is not None]
        self._with_marks = f" with {' and '.join(given)}" if given else ""
        decimal = None if decimal_mark is None else _to_plain(decimal_mark)
        group = None if group_mark is None else _to_plain(group_mark) or " "
        decimals = {decimal} if decimal else {".", ","} - {group}
        groups = {group} if group else {".", ","} - {decimal}
        self._number = regex.compile(_number_pattern("".join(decimals), "".join(groups)))

    def read(self, text: str, languages: Collection[str] = ()) -> Price:
        """Raises `ValueError` for a text without a price. `languages`: of the text, for words of magnitude."""
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
        if ". " in plain:
            plain = _DOTS.sub(".", plain)
        number = self._find_number(plain, 0)
        if number is None:
            advice = _NO_NUMBER if _MORE.search(plain) is None else _NO_PRICE
            raise ValueError(f"{quote_text(text)} has no price{self._with_marks}; {advice}")
        end = number.end()
        if _MORE.search(plain, end) or (_LETTER.match(plain, end) and find_magnitude(plain, end, languages)):
            return self._read_beside(text, plain, number, languages)
        _check_before(text, plain, number)
        whole, decimals, is_guess = self._digits_of(number)
        doubts = (_GUESSED_GROUP,) if is_guess and not _NO_CENTS.match(plain, end) else ()
        currency = self._currencies.find(text, plain, number.start(), end)
        return Price(_signed(plain, number.start(), end, whole, decimals, currency), currency, doubts)

    def _read_beside(self, text: str, plain: str, first: "regex.Match[str]", languages: Collection[str]) -> Price:
        """The price of a text with several numbers, or with a word of magnitude."""
        amounts = self._examine_all(plain, first, languages)
        at, doubts = _choose(plain, amounts)
        chosen = amounts[at]
        for one in amounts if chosen.currency is None else amounts[: at + 1]:
            _check_before(text, plain, one.number)
        following = amounts[at + 1] if at + 1 < len(amounts) else None
        last = following if following is not None and _is_range(plain, chosen, following) else None
        currency_beside = chosen.currency or (None if last is None else last.currency)
        exponent, end, doubt = _magnify(text, plain, chosen, currency_beside, languages)
        if doubt is not None:
            doubts.append(doubt)
        if self._digits_of(chosen.number)[2] and not _NO_CENTS.match(plain, chosen.number.end()):
            doubts.append(_GUESSED_GROUP)
        if chosen.magnitude is None and last is not None and last.magnitude is not None:
            power, _, _ = _magnify(text, plain, last, last.currency or chosen.currency, languages)
            if power and self._value_of(chosen) < self._value_of(last):
                if chosen.currency is None or last.currency is None:
                    exponent = power  # `5-9 Mio. €`
                else:
                    doubts.append(_GUESSED_RANGE)
        whole, decimals = self._sum(chosen, exponent)
        currency = self._currencies.find(text, plain, chosen.number.start(), end)
        if currency is None and currency_beside is not None:
            currency = currency_beside.sign  # of the last amount of a range
        return Price(_signed(plain, chosen.number.start(), end, whole, decimals, currency), currency, tuple(doubts))

    def _value_of(self, amount: _Amount) -> Decimal:
        """The number as written, without its magnitude."""
        whole, decimals, _ = self._digits_of(amount.number)
        return Decimal(f"{whole}.{decimals}")

    def _sum(self, amount: _Amount, exponent: int) -> tuple[str, str]:
        """The digits before and behind the decimal mark, with all parts of a sum."""
        whole, decimals = scale_digits(*self._digits_of(amount.number)[:2], exponent)
        for number, power in amount.added:
            part = scale_digits(*self._digits_of(number)[:2], power)
            total = Decimal(f"{whole}.{decimals}") + Decimal(".".join(part))
            whole, _, decimals = f"{total:f}".partition(".")
        return whole, decimals

    def _examine_all(self, plain: str, number: "regex.Match[str] | None", languages: Collection[str]) -> list[_Amount]:
        """The amounts of a text to the first beside a currency, and the one behind that."""
        amounts: list[_Amount] = []
        while number is not None and len(amounts) < _MAX_AMOUNTS:
            known = amounts[-1].currency if amounts else None
            amounts.append(self._examine(plain, number, languages or languages_of(known.sign if known else None)))
            if known is not None:
                break
            number = self._find_number(plain, amounts[-1].end)
        return amounts

    def _examine(self, plain: str, number: "regex.Match[str]", languages: Collection[str]) -> _Amount:
        before = self._currencies.before(plain, number.start())
        magnitude = find_magnitude(plain, number.end(), languages)
        if magnitude is not None and magnitude.problem and not languages:
            currency = before or self._currencies.behind(plain, magnitude.end)
            if currency is not None and (languages := languages_of(currency.sign)):
                magnitude = find_magnitude(plain, number.end(), languages)
        sign = None if magnitude is None else self._currencies.behind(plain, number.end())
        if magnitude is not None and sign is not None and sign.start < magnitude.end:  # `T$`
            magnitude = None
        end = number.end() if magnitude is None else magnitude.end
        added = []
        power = 0 if magnitude is None else _power(magnitude, before, languages)
        while power and (part := self._number.match(plain, end + plain.startswith(" ", end))) and part["whole"]:
            following = find_magnitude(plain, part.end(), languages)
            lower = 0 if following is None else _power(following, before, languages)
            if not lower < power or (not lower and part.start() > end) or (lower and following and following.problem):
                break
            added.append((part, lower))
            power, end = lower, part.end() if following is None or not lower else following.end
        behind = self._currencies.behind(plain, end)
        is_before_another = behind is not None and plain[behind.end : behind.end + 1].isdigit()
        if behind is not None and is_before_another and plain[behind.start - 1] == " " and not number["decimals"]:
            behind = None  # `$` of `24K $450`
        return _Amount(number, magnitude, tuple(added), end, before, behind)

    def _find_number(self, text: str, at: int) -> "regex.Match[str] | None":
        """The first number that is not a percentage; None if there is none, or if it is not written as a number."""
        while start := _START.search(text, at):
            number = self._number.match(text, start.start()) or self._number.match(text, start.end() - 1)
            if number is None:
                return None
            percent = _PERCENT.match(text, number.end())
            if percent is None and not _follows_percent(text[: start.start()]):
                return number
            at = number.end() if percent is None else percent.end()
        return None

    def _digits_of(self, number: "regex.Match[str]") -> tuple[str, str, bool]:
        """The digits before and behind the decimal mark, and whether the only mark may be either."""
        whole, decimals, mark = number["whole"] or "", number["decimals"] or "", number["group"]
        is_guess = self._may_guess and mark in (".", ",") and not decimals and whole.count(mark) == 1
        if is_guess and whole.startswith("0"):  # no group follows a zero
            whole, _, decimals = whole.partition(mark)
            is_guess = False
        return re.sub("[^0-9]", "", whole) or "0", decimals, is_guess


def _check_before(text: str, plain: str, number: "regex.Match[str]") -> None:
    """Raises `ValueError` if a word of magnitude stands before a number."""
    if (word := find_magnitude_before(plain, number.start())) is not None:
        raise ValueError(f"{quote_text(text)}: {quote_text(word)} before the number is not read; use `replace`")


def _choose(plain: str, amounts: list[_Amount]) -> tuple[int, list[tuple[str, str]]]:
    """The place of the amount that is the price: the first, unless only a later one stands beside a currency."""
    first = amounts[0]
    if first.currency is not None:
        return 0, []
    start = first.number.start()
    is_labelled = _LABEL.search(plain, max(0, start - 5), start) is not None
    at = next((at for at, one in enumerate(amounts) if one.currency is not None), None)
    if at is None:
        return _choose_by_look(plain, amounts)
    other = amounts[at]
    between = plain[first.end : other.outer_start]
    looks_alike = _has_cents(first.number) == _has_cents(other.number)
    if at == 1 and _RANGE.fullmatch(between) and (other.before is None or between.strip().isalpha()):
        if looks_alike or not is_labelled or between.strip() != "-":
            return 0, []
    elif other.before is None and looks_alike and _LIST.fullmatch(between):
        return 0, []
    elif not between.strip() and not is_labelled and not first.magnitude and (looks_alike or _has_cents(first.number)):
        return 0, [_GUESSED_NUMBER]
    return at, [] if all(_has_unit(plain, one) for one in amounts[:at]) else [_GUESSED_NUMBER]


def _choose_by_look(plain: str, amounts: list[_Amount]) -> tuple[int, list[tuple[str, str]]]:
    """The same where no currency stands beside any: one with cents counts before one with a unit."""
    first, later = amounts[0], range(1, len(amounts))
    start = first.number.start()
    if start and plain[start - 1].isalpha():
        better = [at for at in later if _stands_free(plain, amounts[at])]
        return (better[0], [_GUESSED_NUMBER]) if better else (0, [])
    if not later or _is_range(plain, first, amounts[1]):
        return 0, []
    better = [at for at in later if _has_cents(amounts[at].number) and not _has_unit(plain, amounts[at])]
    if not better or (first.magnitude is not None and first.magnitude.letter in _LOST):
        return 0, []
    if _has_unit(plain, first):
        return better[0], [_GUESSED_NUMBER]
    return 0, [] if _has_cents(first.number) else [_GUESSED_NUMBER]


def _has_unit(plain: str, amount: _Amount) -> bool:
    return _UNIT.match(plain, amount.number.end()) is not None


def _is_range(plain: str, first: _Amount, last: _Amount) -> bool:
    """Whether the two amounts are one range or choice."""
    return _RANGE.fullmatch(plain, first.outer_end, last.outer_start) is not None


def _has_cents(number: "regex.Match[str]") -> bool:
    """Whether it has decimals, directly behind their mark: `10, 20` may be two numbers."""
    return number["decimals"] is not None and " " not in number[0][number.start("decimals") - number.start() - 1 :]


def _stands_free(plain: str, amount: _Amount) -> bool:
    """Whether no word is beside a number."""
    start, end = amount.number.start(), amount.number.end()
    return plain[start - 1 : start] in ("", " ") and not _LETTER.match(plain, end)


def _power(magnitude: Magnitude, currency: Currency | None, languages: Collection[str]) -> int:
    """The power of ten; 0 if the word is a unit, or another word."""
    if not magnitude.letter:
        return magnitude.exponent
    if currency is None or (magnitude.is_apart and magnitude.letter == "mm"):
        return 0
    return letter_exponent(magnitude.letter, currency.sign or "", languages) or 0


def _magnify(
    text: str, plain: str, amount: _Amount, currency: Currency | None, languages: Collection[str]
) -> tuple[int, int, tuple[str, str] | None]:
    """The power of ten of an amount, where its words end, and a doubt about them."""
    magnitude, end = amount.magnitude, amount.number.end()
    if magnitude is None:
        return 0, end, None
    letter = magnitude.letter
    if magnitude.problem:
        raise ValueError(f"{quote_text(text)}: {magnitude.problem}")
    power = _power(magnitude, currency, languages)
    if power:
        precedes_word = amount.behind is None and re.match(r" ?\w", plain[magnitude.end :]) is not None
        is_unit = letter in DOUBTFUL and magnitude.is_apart
        if is_unit and precedes_word:
            return 0, end, _UNREAD_MAGNITUDE
        is_doubtful = is_unit or (precedes_word and magnitude.is_apart and letter.lower() in DOUBTFUL)
        return power, amount.end, _GUESSED_MAGNITUDE if is_doubtful else None
    if letter not in _LOST or currency is not None:
        return 0, end, None
    is_alone = not magnitude.is_apart and _SHORTENED.fullmatch(plain) is not None
    if is_alone and letter in "kKM":
        return 3 if letter in "kK" else 6, magnitude.end, _GUESSED_MAGNITUDE
    if letter in "bBtT" and not is_alone:  # house 12B
        return 0, end, None
    message = f"`{letter}` may be a magnitude or a unit, as no currency stands beside it"
    raise ValueError(f"{quote_text(text)}: {message}; pick out the price with `match`")


def _signed(plain: str, start: int, end: int, whole: str, decimals: str, currency: str | None) -> Decimal:
    amount = Decimal(f"{whole}.{decimals}" if decimals else whole)
    is_signed = "-" in plain or "(" in plain
    if is_signed and amount:
        before, after = plain[:start], plain[end:]
        if _is_negative(before, after, _to_plain(currency or ""), has_decimals=bool(decimals)):
            return amount.copy_negate()
    return amount


def _number_pattern(decimals: str, groups: str) -> str:
    """Groups have three digits; in India, two before the last. What follows must not continue the number.

    `3, 5, 10` is a list, not cents behind a blank.
    """
    group = f"[ {_GROUP}{re.escape(groups)}]"
    thousands = f"[0-9]{{1,3}}(?P<group>{group}) ?[0-9]{{3}}(?:(?P=group) ?[0-9]{{3}})*"
    lakhs = f"[0-9]{{1,2}}(?P<group>(?![ .]){group}) ?(?:[0-9]{{2}}(?P=group) ?)+[0-9]{{3}}"
    mark = f"(?!(?P=group))[{_DECIMAL}{re.escape(decimals)}]"
    places = "2,3" if len(decimals) == 1 else "2"  # three digits behind an uncertain mark may be a group
    cents = f"(?:[0-9]{{{places}}}(?!(?:[{_MARKS}] )?[0-9])|[0-9](?= ?{_CURRENCY}))"
    fraction = f"(?: ?{mark}(?P<decimals>[0-9]+)|(?<=[0-9]) ?{mark} (?P<decimals>{cents}))?"
    return f"(?P<whole>{thousands}|{lakhs}|[0-9]*){fraction}(?![{_MARKS}]?[0-9]|[eE][-+]?[0-9])"


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
