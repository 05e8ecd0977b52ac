"""Reads the type `price`: an object of amount and currency."""

from collections.abc import Mapping
from typing import Any

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import Conversion, Converter, Digits, StepCheck, StepPage, TypeReader
from crawl_engine.extract.fields.locales import find_languages, languages_of
from crawl_engine.extract.fields.prices import PriceReader
from crawl_engine.extract.fields.step_values import decimal_of, text_of, unexpected
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.model.definition import Field


class PriceFieldReader(TypeReader):
    """Reads prices by `PriceReader`."""

    digits: Digits = "amount"

    def converter(self, field: Field) -> Converter:
        """By the languages that its `locale` names."""
        reader, languages = PriceReader(field.decimal_mark, field.group_mark), languages_of(field)
        return lambda text, _base: reader.read(text, languages).value

    def conversion(self, field: Field, path: str) -> Conversion:
        """By the languages of the page; doubts are warnings."""
        reader, languages = PriceReader(field.decimal_mark, field.group_mark), find_languages(field)

        def read_price(text: str, reading: PageReading) -> Any:
            # slow: one value may be a list of such texts, and could take longer than a page may
            reading.time_budget.check_patience()
            price = reader.read(text, languages(reading.page))
            for code, advice in price.doubts:
                reading.warn(
                    path, code, f"{reading.data_def}.{path}: {quote_text(text)} is read as {price.amount}; {advice}"
                )
            return price.value

        return read_price

    def step_check(self, field: Field) -> StepCheck:
        """A text such as `£3`, a number, or an object."""
        convert = self.converter(field)

        def check(value: Any, _page: StepPage) -> Any:
            if isinstance(value, str):
                return convert(text, "") if (text := value.strip()) else None
            if not isinstance(value, Mapping):
                return {"amount": decimal_of(value), "currency": None}
            if value.get("amount") is None or not value.keys() <= {"amount", "currency"}:
                raise unexpected(value, "an object of `amount` and `currency`")
            currency = value.get("currency")
            return {"amount": decimal_of(value["amount"]), "currency": None if currency is None else text_of(currency)}

        return check


READER = PriceFieldReader()
