"""The goods of the recipes' shop: made from their numbers, so that the site and the expected rows agree."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

PER_PAGE = 20
"""Goods on a page of a list."""
API_PAGE = 100
"""Goods in an answer of an API."""

DEPARTMENTS = ("tea", "coffee", "cocoa")
_ORIGINS = ("Assam", "Darjeeling", "Yirgacheffe", "Ceylon", "Huila", "Grand Cru", "Uji", "Nyeri", "Kona", "Esmeraldas")
_GRADES = ("First Flush", "Gold", "Reserve", "N° 5", "Black & Strong", "Organic", "Spring")
_BRANDS = ("Dragon Hill", "Miller & Sons", "Café Solé", "Hofmann")
_COLOURS = ("red", "green", "blue", "natural")
_MONTHS = (
    *("Januar", "Februar", "März", "April", "Mai", "Juni"),
    *("Juli", "August", "September", "Oktober", "November", "Dezember"),
)
_FIRST_DAY = datetime(2024, 1, 1, 8, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to buy a product. A stock of None: the page does not say."""

    code: str
    size: str
    price: Decimal
    stock: int | None


@dataclass(frozen=True, slots=True)
class Product:
    """A product by its number, from 1."""

    number: int

    @property
    def department(self) -> str:
        return DEPARTMENTS[self.number % len(DEPARTMENTS)]

    @property
    def sku(self) -> str:
        return f"{self.department[:3].upper()}-{self.number:05d}"

    @property
    def name(self) -> str:
        return f"{_ORIGINS[self.number % len(_ORIGINS)]} {_GRADES[self.number % len(_GRADES)]}"

    @property
    def brand(self) -> str | None:
        """Every fifth product has none."""
        return None if self.number % 5 == 0 else _BRANDS[self.number % len(_BRANDS)]

    @property
    def price(self) -> Decimal:
        return Decimal(390 + self.number * 111_300 % 250_007).scaleb(-2)

    @property
    def rating(self) -> Decimal:
        return Decimal(30 + self.number % 20).scaleb(-1)

    @property
    def colours(self) -> list[str]:
        return [_COLOURS[(self.number + offset) % len(_COLOURS)] for offset in range(1 + self.number % 3)]

    @property
    def weight(self) -> Decimal:
        return Decimal(25 + self.number * 35 % 4000).scaleb(-1)

    @property
    def in_stock(self) -> bool:
        return self.number % 4 != 0

    @property
    def time(self) -> datetime:
        """When it came into the shop."""
        return _FIRST_DAY + timedelta(days=self.number * 11 % 700, minutes=self.number * 7 % 600)

    @property
    def german_day(self) -> str:
        return f"{self.time.day}. {_MONTHS[self.time.month - 1]} {self.time.year}"

    @property
    def variants(self) -> list[Variant]:
        return [
            Variant(
                code=f"{self.sku}-{place}",
                size=size,
                price=self.price * factor,
                stock=None if (self.number + place) % 4 == 0 else (self.number * 7 + place) % 90,
            )
            for place, (size, factor) in enumerate((("100 g", 1), ("250 g", 2), ("1 kg", 7)), start=1)
        ]


def page_of(page: int, size: int = PER_PAGE) -> list[Product]:
    """The goods of a page of a list, from page 1."""
    return [Product(number) for number in range((page - 1) * size + 1, page * size + 1)]


def page_of_department(department: str, page: int) -> list[Product]:
    """The goods of a page of a list of one department."""
    step = len(DEPARTMENTS)
    first = DEPARTMENTS.index(department) or step
    return [Product(first + step * place) for place in range((page - 1) * PER_PAGE, page * PER_PAGE)]


def german(number: Decimal) -> str:
    """A number as Germans write it: 1.116,90."""
    return f"{number:,}".translate(str.maketrans(",.", ".,"))
