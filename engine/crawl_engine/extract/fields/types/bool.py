"""Reads the type `bool`: its words, or whether `match` finds something."""

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import Converter, StepCheck, TypeReader
from crawl_engine.extract.fields.step_values import bool_of
from crawl_engine.model.definition import Field

_TRUE_WORDS = frozenset(("true", "yes", "1"))
_FALSE_WORDS = frozenset(("false", "no", "0"))


class BoolReader(TypeReader):
    """Reads a bool."""

    def converter(self, field: Field) -> Converter:
        """Of a text that `match` leaves, true."""
        return _bool if field.match is None else lambda _text, _base: True

    def default_converter(self, _field: Field) -> Converter:
        """A bool is read from its words in any case."""
        return _bool

    def step_check(self, _field: Field) -> StepCheck:
        """True or false."""
        return lambda value, _page: bool_of(value)


def _bool(text: str, _base: str) -> bool:
    word = text.lower()
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ValueError(f"{quote_text(text)} is not true, yes, 1, false, no or 0; define what counts as true with `match`")


READER = BoolReader()
