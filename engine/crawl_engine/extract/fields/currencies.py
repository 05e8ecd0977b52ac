"""Finds the currency of an amount: a sign, code or name that is a word of its own."""

from functools import cache

from msgspec import Struct

from crawl_engine.late_regex import late_regex

_NAMES = """
euro euros eur eurot евро євро ευρώ evro euró usd gbp chf dollar dollars dollari dólar dólares dolar dolarów dolarů
доллар доллара долларов pound pounds pfund libra libras livres sterling franken franc francs franco franchi rupee rupees
rupien रुपये रुपए रुपया zloty złoty złote złotych zlotych krone kronen kroner kronor koruna koruny korun forint lei lire
lira peso pesos real reais yen yens yuan won rubel rubli rubles roubles рубль рубля рублей гривня гривні гривень гривен
dinar dinars dirham dirhams baht บาท tenge лева kuna kune đồng dong rupiah sfr
"""
"""Names of currencies in lower case: an amount beside one has a currency."""
_SIGNS_OF_NAMES = {
    **dict.fromkeys(("euros",), "euro"),
    **dict.fromkeys(("рубль", "рубля", "рублей"), "руб"),
    **dict.fromkeys(("kroner", "kronor"), "kr"),
    **dict.fromkeys(("złoty", "złote", "złotych"), "zł"),
    "sfr": "Fr.",
}
"""The part of a name that is a sign; other names have none."""
_LONGEST = 10
_GAP_BEFORE = late_regex(r"(?: ?[:=]|\.{1,3})? ?[-+(~]?$")
_GAP_BEHIND = late_regex(r"(?: ?[.,]?-{1,2})? ?")
_OF = late_regex(r" ?(?:d'|(?:de|di|do|of|a) )")
_WORD = late_regex(r"[^\W\d_]+")
_WORD_BEFORE = late_regex(r"[^\W\d_]+\.?$")
_PIECES = late_regex(r"[^\s\d]+")


class Currency(Struct, frozen=True):
    """A currency beside an amount, from `start` to `end`."""

    sign: str | None
    """As written; None of a name without a sign."""
    start: int
    end: int


class CurrencyFinder:
    """Knows the signs and codes of a library, and names. Texts are plain: without invisible characters."""

    def __init__(self) -> None:
        from price_parser import parser  # fields of other types do not load it

        self._find_sign = parser.extract_currency_symbol
        safe = [_without_marks(sign) for sign in parser.SAFE_CURRENCY_SYMBOLS]
        signs = {*safe, *map(_without_marks, parser.OTHER_CURRENCY_SYMBOLS)}
        self._signs = frozenset(signs)
        self._names = frozenset(_NAMES.split())
        codes = [sign for sign in signs if len(sign) == 3 and sign.isascii() and sign.isupper()]
        self._clear = frozenset((*safe, *codes))
        """Signs that are no other words: they may stand anywhere."""

    def find(self, text: str, plain: str, start: int, end: int) -> str | None:
        """The currency of the amount from `start` to `end` of the plain text, as written."""
        found = self._find_sign(text, None)
        if found is None:
            return None
        sign = found.strip()
        bare = sign if sign.isascii() else _without_marks(sign)
        behind = end + 1 if plain.startswith(" ", end) else end
        if plain.startswith(bare, behind) and not _continues(plain, behind + len(bare)):
            return sign
        before = plain[:start].rstrip("$ ") if bare[-1] == "D" else plain[:start].rstrip()
        if before.endswith(bare) and not _begins_within(plain, len(before) - len(bare)):
            return sign
        beside = self.behind(plain, end) or self.before(plain, start)
        if beside is not None:
            is_same = beside.sign is not None and beside.sign in bare  # `SGD` of `SGD $5`
            return sign if is_same and self._stands_alone(plain, bare) else beside.sign
        if bare not in plain or (bare in self._clear and self._stands_alone(plain, bare)):
            return sign  # it may have been a mark: `35€ 99`
        pieces = (piece.strip(".,:;()[]/*-") for piece in _PIECES.findall(plain))
        return next((piece for piece in pieces if piece in self._clear), None)

    def before(self, plain: str, start: int) -> Currency | None:
        """The currency before an amount."""
        gap = _GAP_BEFORE.search(plain, max(0, start - 4), start)
        at = start if gap is None else gap.start()
        for end in (at, at + 1) if plain.startswith(".", at) else (at,):
            for first in range(max(0, end - _LONGEST), end):
                if plain[first:end] in self._signs and not _begins_within(plain, first):
                    return Currency(plain[first:end], first, end)
        word = _WORD_BEFORE.search(plain, max(0, at - 20), at)
        if word is not None and (name := word[0].rstrip(".").casefold()) in self._names:
            return Currency(_SIGNS_OF_NAMES.get(name), word.start(), at)
        return None

    def behind(self, plain: str, end: int) -> Currency | None:
        """The currency behind an amount, with words such as `de` between them."""
        gap = _OF.match(plain, end) or _GAP_BEHIND.match(plain, end)
        at = end if gap is None else gap.end()
        for last in range(min(len(plain), at + _LONGEST), at, -1):
            if plain[at:last] in self._signs and not _continues(plain, last):
                return Currency(plain[at:last], at, last)
        word = _WORD.match(plain, at)
        if word is not None and (name := word[0].casefold()) in self._names:
            return Currency(_SIGNS_OF_NAMES.get(name), at, word.end())
        return None

    @staticmethod
    def _stands_alone(plain: str, sign: str) -> bool:
        at = plain.find(sign)
        while at >= 0:
            if not _begins_within(plain, at) and not _continues(plain, at + len(sign)):
                return True
            at = plain.find(sign, at + 1)
        return False


@cache
def currency_finder() -> CurrencyFinder:
    """The finder of all fields."""
    return CurrencyFinder()


def _without_marks(sign: str) -> str:
    return sign.strip().replace("\u200f", "")


def _is_cased(character: str) -> bool:
    """Whether it is a letter of a script with upper and lower case, whose words stand apart."""
    return character.lower() != character.upper()


def _begins_within(text: str, at: int) -> bool:
    """Whether a word began before this place."""
    return at > 0 and _is_cased(text[at]) and _is_cased(text[at - 1])


def _continues(text: str, at: int) -> bool:
    """Whether a word continues at this place."""
    return 0 < at < len(text) and _is_cased(text[at]) and _is_cased(text[at - 1])
