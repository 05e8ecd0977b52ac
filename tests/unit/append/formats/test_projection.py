"""Columns that are parts of values."""

import pytest

from crawl_engine.append.formats.projection import projection_of

PATHS = {"price.amount": ["price", "amount"], "price.currency": ["price", "currency"]}


@pytest.mark.parametrize(
    ("row", "projected"),
    [
        (
            '{"title":"x","price":{"amount":1.50,"currency":"€"},"n":1}',
            '{"price.amount":1.50,"title":"x","price.currency":"€"}',
        ),
        (
            '{"title":"x","price":{"amount":1.50,"currency":null}}',
            '{"price.amount":1.50,"title":"x","price.currency":null}',
        ),
        ('{"title":"x","price":null}', '{"title":"x"}'),
        ('{"title":null}', '{"title":null}'),
        ('{"price":{"amount":2}}', '{"price.amount":2}'),
        ('{ "price" : { "amount" : 2 } }', '{"price.amount":2}'),
        ('{"price":"free","title":"y"}', '{"title":"y"}'),
    ],
)
def test_parts_become_fields_with_their_digits(row: str, projected: str) -> None:
    projection = projection_of({"columns": ["price.amount", "title", "price.currency"], "paths": PATHS})
    assert projection is not None
    assert projection.apply([(7, row)]) == [(7, projected)]
    assert projection.apply([(8, None)]) == [(8, None)]


def test_rows_without_such_columns_stay_as_they_are() -> None:
    assert projection_of({"columns": ["a"]}) is None
