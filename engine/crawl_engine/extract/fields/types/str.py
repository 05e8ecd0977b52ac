"""Reads the type `str`: the text as it is."""

from crawl_engine.extract.fields.convert import Conversion, Converter, Digits, StepCheck, TypeReader, keep_text
from crawl_engine.extract.fields.step_values import text_of
from crawl_engine.model.definition import Field


class TextReader(TypeReader):
    """Keeps the text."""

    digits: Digits = "text"

    def converter(self, _field: Field) -> Converter:
        """The text itself."""
        return lambda text, _base: text

    def conversion(self, _field: Field, _path: str) -> Conversion:
        """The text itself."""
        return keep_text

    def step_check(self, _field: Field) -> StepCheck:
        """A text, with the white space around it."""
        return lambda value, _page: text_of(value)


READER = TextReader()
