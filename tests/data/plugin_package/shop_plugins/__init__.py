"""A step and a converter, as an installed package provides them."""

from crawl_console import Row, StepContext


class SwapCase:
    """Swaps capitals and small letters."""

    def convert(self, value: str, context: StepContext) -> str:
        return value.swapcase()


class CountLetters:
    """Counts the letters of a field."""

    def __init__(self, field: str) -> None:
        self.field = field

    def run(self, rows: list[Row], context: StepContext) -> list[Row]:
        for row in rows:
            row["letters"] = sum(letter.isalpha() for letter in row[self.field])
        return rows
