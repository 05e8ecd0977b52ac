"""Finds words of magnitude behind a number: `Mio.`, `bn`, `lakh`, `億`, or a letter as in `1.2M`."""

import re
import unicodedata
from collections.abc import Collection, Mapping
from functools import cache

from msgspec import Struct

from crawl_engine.late_regex import late_regex

_WORDS = {
    3: """
thousand thousands tsd tausend mille millier milliers mila duizend tys tysiąc tysiące tysięcy tis tisíc tisíce tusen
tusind tusinde tuhat tuhatta milhar milhares mii ezer тыс тысяч тысяча тысячи тис тисяч тисяча тисячі хил хиляди χιλ
χιλιάδες ribu rb nghìn ngàn हज़ार हजार হাজার ألف آلاف هزار אלף
""",
    5: "lakh lakhs lac lacs लाख লাখ লক্ষ لاکھ",
    6: """
million millions mio mln mn mill millionen millón millon millones milione milioni milhão milhões milhao milhoes milió
milions miljoen milion miliony milionów milionu milionů miljon miljoner millioner milj miljoona miljoonaa
milioane millió milijun milijuna млн миллион миллиона миллионов мільйон мільйони мільйонів милион милиона
εκατ εκατομμύρια εκατομμύριο milyon juta jt triệu मिलियन مليون ملايين میلیون מיליון
""",
    7: "crore crores करोड़ करोड কোটি کروڑ",
    9: """
bn mrd mld mlrd mdr mia milliarde milliarden milliard milliards milliarder millardo millardos miliardo miliardi bilhão
bilhões bilhao bilhoes miljard miljarden miljarder miljardi miljardia miliard miliardy miliardów miliarda miliarde
milliárd milijarda milijardi млрд миллиард миллиарда миллиардов мільярд мільярди мільярдів милиард милиарда δισ
δισεκατομμύρια δισεκατομμύριο milyar miliar tỷ tỉ अरब مليار ملیارد میلیارد מיליארד
""",
    12: """
trn trln trillions billionen billón billones bilione bilioni bilião biliões biljoen bilion biliony bilionów biljon
biljoner trilhão trilhões трлн триллион триллиона триллионов trilyon triliun
""",
    18: "trillionen trillones",
}  # fmt: skip
"""By power of ten, words that have one meaning."""
_THIN = {
    **dict(zip("十십百백千천万萬만億亿억兆조", (1, 1, 2, 2, 3, 3, 4, 4, 4, 8, 8, 8, 12, 12), strict=True)),
    "พัน": 3,
    "หมื่น": 4,
    "แสน": 5,
    "ล้าน": 6,
}
"""Words of scripts without blanks."""
_LONG_SCALE = "de fr da no nb nn"
_DIFFERENT: Mapping[str, Mapping[int, str]] = {
    "billion": {9: "en $", 12: _LONG_SCALE},
    "billions": {9: "en $", 12: _LONG_SCALE},
    "trillion": {12: "en $ tr", 18: _LONG_SCALE},
    "mil": {3: "es pt gl ca ast", 6: "en cs sk ro da hr sl"},
    "bln": {9: "en $ it", 12: "pl nl"},
}
"""Words whose meaning depends on the language. `$` stands for those in which dollars are counted."""
_LANGUAGES: Mapping[str, str] = {
    **dict.fromkeys(("$", "US$", "USD", "A$", "AUD", "C$", "CAD", "NZ$", "NZD", "HK$", "HKD", "S$", "SGD"), "$"),
    **dict.fromkeys(("£", "GBP"), "en"),
    **dict.fromkeys(("R$", "BRL"), "pt"),
    **dict.fromkeys(("Kč", "CZK"), "cs"),
    **dict.fromkeys(("lei", "RON"), "ro"),
    **dict.fromkeys(("zł", "PLN"), "pl"),
}
"""The language of a text that has no `locale`, by a currency."""
_THOUSAND_MILLIONS = late_regex(r" (?:millones|milhões|milhoes|milions|millóns)\b", re.IGNORECASE)

_LETTERS: Mapping[str, int] = {"k": 3, "m": 6, "mm": 6, "md": 9, "mds": 9, "b": 9, "bio": 12, "tn": 12}
"""Short words, which count beside a currency alone."""
_RUPEES = frozenset(("₹", "Rs", "INR", "₨", "৳", "NPR", "PKR", "NPRs", "PKRs", "BDT", "Tk", "LKR", "रु", "र"))
_REAIS = frozenset(("R$", "BRL"))
DOUBTFUL = ("m", "b", "t")
"""Letters that are units where they stand apart, or sizes and the like as capitals before a word: `$25 M shirt`."""
_LETTERS_OF_FEW: Mapping[str, tuple[int, frozenset[str], str]] = {
    "l": (5, _RUPEES, ""),
    "cr": (7, _RUPEES, ""),
    "crs": (7, _RUPEES, ""),
    "mi": (6, _REAIS, "pt"),
    "bi": (9, _REAIS, "pt"),
    "tri": (12, _REAIS, "pt"),
    "tr": (6, frozenset(("₫", "đ", "VND")), "vi"),
    "bin": (3, frozenset(("TL", "₺", "TRY")), "tr"),
}
"""Those of some currencies or of one language: elsewhere they are units, or other words."""
_SIGN = (
    r"(?:[€$£₹₽¥円]|R\$|EUR|USD|GBP|CHF|SEK|NOK|DKK|PLN|CZK|HUF|RUB|INR|BRL|CAD|AUD|NZD|JPY|CNY|RMB|HKD|SGD|UAH|RON|TRY"
    r"|ZAR|MXN|kr|DM|zł|Kč|руб|Rs|Ft)"
)
_COMBINED = late_regex(rf"([^\W\d_]+?)\.?(?={_SIGN}(?![^\W\d_])| ?р(?:\.|\b|уб)| Ft\b)")
"""A word that is written together with its currency: `M€`, `TEUR`, `mkr`."""
_COMBINED_LETTERS: Mapping[str, tuple[str, int]] = {"t": ("", 3), "т": ("", 3), "e": ("Ft", 3), "g": ("€", 9)}
"""Letters that are magnitudes nowhere else, some with one currency: `E£` and `G$` are signs."""
_BEFORE = late_regex(
    rf"(?:(?<![^\W\d_])|(?=[$€£]))(?:(?![TM]\$)[TMKtmk]{_SIGN}|[€$£][KMkm]|{_SIGN}\.? ?(?P<last>[^\W\d_]+)"
    rf"|(?P<first>[^\W\d_]+)\.? ?{_SIGN})\.?:? ?$"
)
"""A word of magnitude before the amount, with its currency: `TEUR 450`, `EUR mln 5`."""
_DOLLARS = ("$", "£", "USD", "GBP")
_JOINED = late_regex(r"[-/&]|\.[^\W\d_]")
"""Behind a unit, or the first letter of an abbreviation, that stands apart: `5 m/s`, `k.k.`."""
_BEHIND = late_regex(
    r"( ?)(-?)(?:([十百千万萬億亿兆십백천만억조]|พัน|หมื่น|แสน|ล้าน)"
    r"|([^\W\d_](?:[^\W\d_¹²³⁰⁴-⁹]|[\u0300-\u036f\u0900-\u0dff])*)(\.?)(?![0-9]|(?<=[mM])[²³]))"
)
"""The next word, without the number of a note behind it; scripts of India write vowels as marks."""
_ENDS_THIN = late_regex(r"[十百千万萬億亿兆]*(?:[円元원圓块塊]|บาท|(?![^\W\d_a-zA-Zа-яА-Яł]))")
"""Behind a word of such a script that stands apart: another one may begin with the same character."""


class Magnitude(Struct, frozen=True):
    """A power of ten, by words that end at `end`."""

    exponent: int
    end: int
    letter: str = ""
    """A short word as written, which is a unit or the like without a currency beside it; its `exponent` is 0."""
    is_apart: bool = False
    """Whether a blank stands before it."""
    problem: str = ""
    """Why the words have no one meaning."""


def find_magnitude(text: str, at: int, languages: Collection[str] = ()) -> Magnitude | None:
    """The words of magnitude directly behind the number that ends at `at`. `text` has plain blanks."""
    exponent, end = 0, at
    while found := _BEHIND.match(text, end):
        blank, hyphen, thin, word, _dot = found.groups()
        if thin:
            if (blank or hyphen) and not _ENDS_THIN.match(text, found.end()):
                break
            exponent += _THIN[thin]
            end = found.end()
            continue
        name = _normalize(word)
        power = _words().get(name)
        if name in _DIFFERENT:
            power = _power_among(name, text[found.end(4) :], languages)
            if power is None:
                return Magnitude(exponent, found.end(), problem=_problem(word, _DIFFERENT[name]))
        if power is not None:
            exponent += power
            end = found.end()
        elif not hyphen and (combined := _find_combined(text, found.start(4))) is not None:
            return Magnitude(exponent + combined.exponent, combined.end)
        elif not exponent and not hyphen and _is_letter(word) and not (blank and _JOINED.match(text, found.end(4))):
            return Magnitude(0, found.end(4 if len(word) == 1 else 0), word, bool(blank))
        else:
            break
    return Magnitude(exponent, end) if exponent else None


def find_magnitude_before(text: str, start: int) -> str | None:
    """The word of magnitude, with its currency, that stands before the number that begins at `start`."""
    found = _BEFORE.search(text, max(0, start - 20), start) if start > 1 else None
    if found is None:
        return None
    word = found["first"] or found["last"]
    is_known = word is None or (name := _normalize(word)) in _words() or name in _DIFFERENT
    return found[0].strip() if is_known else None


def languages_of(currency: str | None) -> Collection[str]:
    """The languages of a text without a `locale`, as its currency says."""
    language = _LANGUAGES.get(currency or "")
    return () if language is None else (language,)


def letter_exponent(letter: str, currency: str, languages: Collection[str] = ()) -> int | None:
    """The power of ten of a short word beside this currency; None: it is a unit or another word."""
    lower = letter.lower()
    if lower == "t":
        return 12 if currency.endswith(_DOLLARS) else 3 if letter == "T" else None
    if lower in _LETTERS:
        return _LETTERS[lower]
    exponent, currencies, language = _LETTERS_OF_FEW[lower]
    return exponent if currency in currencies or language in languages else None


def count_exponent(magnitude: Magnitude, languages: Collection[str]) -> int | None:
    """The power of ten of a word behind a number that is no price; None: it may be a unit."""
    letter = magnitude.letter
    if not letter:
        return magnitude.exponent
    if (letter in DOUBTFUL and magnitude.is_apart) or (len(letter) > 1 and letter.lower() in _LETTERS):
        return None
    return letter_exponent(letter, "$", languages)


def scale_digits(whole: str, decimals: str, exponent: int) -> tuple[str, str]:
    """The digits before and behind the decimal mark, after the mark has moved by `exponent` places."""
    padded = decimals.ljust(exponent, "0")
    return whole + padded[:exponent], padded[exponent:]


def language_of(locale: str) -> str:
    """The language of a locale such as `de-AT`."""
    return locale.strip().replace("_", "-").partition("-")[0].lower()


def _is_letter(word: str) -> bool:
    lower = word.lower()
    return lower in _LETTERS or lower in _LETTERS_OF_FEW or lower == "t"


def _find_combined(text: str, at: int) -> Magnitude | None:
    found = _COMBINED.match(text, at)
    if found is None:
        return None
    name, currency = found[1].lower(), text[found.end() :]
    power = _words().get(name) or _LETTERS.get(name)
    if power is None and name in _COMBINED_LETTERS and not currency.startswith(_DOLLARS):
        sign, exponent = _COMBINED_LETTERS[name]
        power = exponent if currency.lstrip().startswith(sign) else None
    is_apart = currency.startswith(" ") and name not in ("т", "e")
    return None if power is None or is_apart else Magnitude(power, found.end())


def _power_among(name: str, rest: str, languages: Collection[str]) -> int | None:
    """What a word means in the first of the languages that has it; None: they do not say."""
    if name == "mil" and _THOUSAND_MILLIONS.match(rest):
        return 3
    meanings = _DIFFERENT[name].items()
    return next((power for one in languages for power, speakers in meanings if one in speakers.split()), None)


def _problem(word: str, meanings: Mapping[int, str]) -> str:
    shown = ", ".join(f"10^{power} in `{speakers.split()[0]}`" for power, speakers in meanings.items())
    return f"`{word}` is {shown}; add the `locale` of the text"


@cache
def _words() -> Mapping[str, int]:
    return {_normalize(word): power for power, words in _WORDS.items() for word in words.split()}


def _normalize(word: str) -> str:
    return unicodedata.normalize("NFC", word.casefold())
