"""Rows as plugin classes get them: typed by their fields, no digit lost."""

from decimal import Decimal

from engine.append.send.class_host import RowReader


def test_values_have_the_types_of_their_fields() -> None:
    types = {"text": "str", "count": "int", "share": "float", "price": "decimal", "seen": "bool", "data": "json"}
    reader = RowReader([*types, "prices", "parts", "absent"], types, {"prices": "decimal"})
    row = reader.read(
        '{"share":2,"price":1.50,"text":"a","count":123456789012345678901234567890,"seen":true,'
        '"data":{"n":1.10,"m":[1,2.5,null]},"prices":[1,2.50],"parts":[{"n":0.1}],"other":1}'
    )
    assert list(row) == [*types, "prices", "parts", "absent"]
    assert row == {
        "text": "a", "count": 123456789012345678901234567890, "share": 2.0, "price": Decimal("1.50"), "seen": True,
        "data": {"n": Decimal("1.10"), "m": [1, 2.5, None]}, "prices": [Decimal(1), Decimal("2.50")],
        "parts": [{"n": 0.1}], "absent": None,
    }  # fmt: skip
    assert isinstance(row["share"], float)
    assert str(row["price"]) == "1.50"
