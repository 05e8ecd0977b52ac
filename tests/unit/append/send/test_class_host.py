"""Rows as plugin classes get them: typed by their fields, no digit lost."""

from decimal import Decimal

from crawl_engine.append.send.class_host import RowReader
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.supervise.outputs import output_settings


def test_values_have_the_types_of_their_fields() -> None:
    types = {"text": "str", "count": "int", "share": "float", "price": "decimal", "seen": "bool", "data": "json"}
    types["amount"] = "price"
    parts = {"n": "decimal", "deep": {"x": "float", "y": "int"}}
    items = {"prices": "decimal", "parts": parts, "amounts": "price"}
    reader = RowReader([*types, *items, "absent"], types, items)
    row = reader.read(
        '{"share":2,"price":1.50,"text":"a","count":123456789012345678901234567890,"seen":true,'
        '"data":{"n":1.10,"m":[1,2.5,null]},"prices":[1,2.50],"parts":[{"n":0.10,"deep":[{"x":2,"y":2}]},{"n":3}],'
        '"amount":{"amount":1116,"currency":"€"},"amounts":[{"amount":2}],"other":1}'
    )
    assert list(row) == [*types, *items, "absent"]
    assert row == {
        "text": "a", "count": 123456789012345678901234567890, "share": 2.0, "price": Decimal("1.50"), "seen": True,
        "data": {"n": Decimal("1.10"), "m": [1, Decimal("2.5"), None]}, "prices": [Decimal(1), Decimal("2.50")],
        "parts": [{"n": Decimal("0.10"), "deep": [{"x": 2.0, "y": 2}]}, {"n": Decimal(3)}], "absent": None,
        "amount": {"amount": Decimal(1116), "currency": "€"}, "amounts": [{"amount": Decimal(2)}],
    }  # fmt: skip
    assert isinstance(row["share"], float)
    assert str(row["price"]) == "1.50"
    assert [type(part["n"]) for part in row["parts"]] == [Decimal, Decimal]
    assert {type(value) for value in (row["amount"]["amount"], row["amounts"][0]["amount"], row["data"]["m"][1])} == {
        Decimal
    }
    assert [type(value) for value in row["parts"][0]["deep"][0].values()] == [float, int]


def test_the_settings_of_an_encoder_name_the_types_of_nested_fields() -> None:
    size = Field(name="size", selector="i", fields=(Field(name="price", type="decimal"), Field(name="n", type="int")))
    fields = (size, Field(name="amounts", type="price", all=True), Field(name="amount", type="price"))
    settings = output_settings(DataDef(name="d", fields=fields), AppenderDef(name="a", type="x.E", kind="encoder"))
    reader = RowReader(settings["columns"], settings["types"], settings["item_types"])
    for price in ("2", "2.5"):
        row = reader.read(
            f'{{"size":[{{"price":{price},"n":2}}],"amounts":[{{"amount":{price}}}],"amount":{{"amount":{price}}}}}'
        )
        assert [type(value) for value in row["size"][0].values()] == [Decimal, int]
        assert type(row["amounts"][0]["amount"]) is type(row["amount"]["amount"]) is Decimal
