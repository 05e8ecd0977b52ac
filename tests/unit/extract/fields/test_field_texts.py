"""What becomes of a field's text: whose page it is of, white space, replacements, parts, marks of numbers."""

from decimal import Decimal
from typing import Any

import pytest

from crawl_engine.extract.page.page import PageTooCostly
from crawl_engine.extract.page.reading import MAX_CHARACTERS
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from tests.unit.extract.pages import CONTEXT, extract, page, reason, value


@pytest.mark.parametrize("block", ["li", "xpath: //li"])
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"selector": "h1"}, "Teas"),
        ({"selector": "xpath: //h1"}, "Teas"),
        ({"selector": "b", "all": True}, ["out", "1", "2"]),
        ({"selector": "h1", "attribute": "id"}, "x"),
        ({"selector": "u"}, None),
        ({"selector": "u", "all": True}, []),
    ],
)
def test_a_field_of_the_page_is_the_same_in_every_block(block: str, field: dict[str, Any], expected: Any) -> None:
    data_def = DataDef(
        name="d", block=block, fields=(Field(name="p", scope="page", **field), Field(name="b", selector="b"))
    )
    rows = extract(data_def, "<h1 id=x>Teas</h1><b>out</b><li><b>1</b></li><li><b>2</b></li>").rows
    assert rows == ({"p": expected, "b": "1"}, {"p": expected, "b": "2"})


def test_a_field_of_the_page_is_selected_once() -> None:
    """Else a page with many blocks would be searched for each of them."""
    data_def = DataDef(name="d", block="li", fields=(Field(name="p", selector="h1", scope="page"),))
    extractor = RecordExtractor(data_def)
    for text in ("a", "b"):
        document = page(f"<h1>{text}</h1>" + "<li></li>" * 1_000)
        assert {row["p"] for row in extractor.extract(document, CONTEXT).rows} == {text}
        assert len(document.selections) == 1


def test_json_items_read_fields_of_the_document() -> None:
    fields = (Field(name="n", selector="jmespath:n"), Field(name="shop", selector="jmespath:shop", scope="page"))
    data_def = DataDef(name="d", block="jmespath:items", fields=fields)
    text = '{"shop": "s", "items": [{"n": "a"}, {"n": "b"}]}'
    assert extract(data_def, text, kind="json").rows == ({"n": "a", "shop": "s"}, {"n": "b", "shop": "s"})


@pytest.mark.parametrize("selector", ["pre", "xpath: //pre"])
@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<pre>  a\n\t b  </pre>", "  a\n\t b  "),
        ("<pre>a <b>b</b>\n<i>c<u> d</u></i> e</pre>", "a b\nc d e"),
        ("<pre>a<br>b<br/> c</pre>", "a\nb\n c"),
        ("<pre>a<script>x</script><style>y</style><!-- z -->b</pre>", "ab"),
        ("<pre><div>a</div><div>b</div></pre>", "ab"),
        ("<pre>\u00a0a </pre>", "\u00a0a "),
        ("<pre> \n </pre>", None),
        ("<pre></pre>", None),
    ],
)
def test_white_space_is_kept(selector: str, markup: str, text: str | None) -> None:
    assert value(markup, selector=selector, whitespace="keep") == text


def test_white_space_is_kept_of_every_content() -> None:
    markup = "<pre title='  a  '> own <b>x</b>\n</pre>"
    assert value(markup, selector="pre", whitespace="keep", attribute="title") == "  a  "
    assert value(markup, selector="pre", whitespace="keep", attribute="ownText") == " own \n"
    assert value(markup, selector="xpath: //pre", whitespace="keep", attribute="ownText") == " own \n"
    assert value(markup, selector="pre", whitespace="keep", attribute="html") == " own <b>x</b>\n"
    assert value('{"a": " x "}', kind="json", selector="jmespath:a", whitespace="keep") == " x "
    assert value("", value=" x ", whitespace="keep") == " x "
    assert value("<pre> 5 </pre>", selector="pre", whitespace="keep", type="int") == 5
    assert value("<pre>a\n x </pre>", selector="pre", whitespace="keep", match="\n.*") == "\n x "


def test_a_deep_element_keeps_its_white_space() -> None:
    markup = "<pre>" + "<b>" * 150 + " x" + "</b>" * 150 + "</pre>"
    assert value(markup, selector="pre", whitespace="keep") == " x"
    assert value(markup, selector="xpath: //pre", whitespace="keep") == " x"


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("[€ ]", "")], "1.5a"),
        ([("[€ ]", ""), ("a$", "b"), ("1", "2")], "2.5b"),
        ([(r"(\d)\.(\d)", r"\2,\1"), (" ", "_")], "€_5,1_a"),
        ([("(?P<n>[0-9])", r"<\g<n>>")], "€ <1>.<5> a"),
        ([("(x)?€", r"[\1]")], "[] 1.5 a"),
        ([(".", "")], None),
        ([(".", " ")], None),
        ([("€", "")], "1.5 a"),
    ],
)
def test_replace_applies_in_order(pairs: list[tuple[str, str]], expected: str | None) -> None:
    assert value("<p> € 1.5\n a </p>", selector="p", replace=tuple(pairs)) == expected


def test_replace_comes_before_match_and_type() -> None:
    field = {"selector": "p", "replace": (("[.]", ""), (",", ".")), "match": "[0-9.]+", "type": "decimal"}
    assert value("<p>ab 1.116,90 €</p>", **field) == Decimal("1116.90")
    assert value("<p>x</p>", selector="p", replace=(("x", ""),), default="d", has_default=True) == "d"
    assert value("<i>a1</i><i>b</i>", selector="i", all=True, replace=(("[ab]", ""),)) == ["1"]
    assert value("", value="%{depth}/a", replace=(("/", "-"),)) == "1-a"


@pytest.mark.parametrize(
    ("text", "match", "kind", "taken"),
    [
        ("£1,022.05", "[0-9.]+", "decimal", "1"),
        ("£1,022.05", "[0-9.]+", "str", "1"),
        ("1.022,05 €", "([0-9.]+) €", "decimal", "05"),
        ("1,234 items", r"(\d+) items", "int", "234"),
        ("1 234 items", r"\d+", "int", "1"),
        ("1 234 items", r"(\d+) items", "int", "234"),
        ("1\u2019022.50", "[0-9.]+", "float", "1"),
        ("12345", r"\d{3}", "int", "123"),
        ("£1022.05", "[0-9]+", "price", "1022"),
        ("£51.77", "[0-9.]+", "decimal", None),
        ("£1,022.05", "[0-9.,]+", "price", None),
        ("51.77", r"(\d+)\.", "int", None),
        ("51.77", r"\.(\d+)", "int", None),
        ("12345", r"\d{3}", "str", None),
        ("2024-01-31", r"\d+", "int", None),
        ("3/5", r"\d", "int", None),
        ("2 items, 12 €", r"(\d+) €", "int", None),
        ("£1,022.05", "[0-9]", "bool", None),
    ],
)
def test_a_numeric_match_that_leaves_digits_beside_it_is_a_warning(
    text: str, match: str, kind: str, taken: str | None
) -> None:
    document = page(f"<i>7</i><p>{text}</p>")
    field = Field(name="price", selector="p", match=match, type=kind)
    RecordExtractor(DataDef(name="book", fields=(field,))).extract(document, CONTEXT)
    assert [one[:3] for one in document.warnings.values()] == ([("book", "price", "digits-left")] if taken else [])
    for warning in document.warnings.values():
        assert warning.text.startswith(f"book.price: `match` takes {taken!r} of {text!r} and leaves digits beside it")


def test_such_a_warning_names_a_nested_field_once() -> None:
    inner = Field(name="price", selector="b", match="[0-9.]+", type="decimal")
    field = Field(name="sizes", selector="li", fields=(inner,))
    document = page("<li><b>£1,022.05</b><li><b>£2,044.10</b>")
    RecordExtractor(DataDef(name="book", fields=(field,))).extract(document, CONTEXT)
    ((_, path, _, text),) = document.warnings.values()
    assert path == "sizes.price"
    assert "'£1,022.05'" in text


def test_a_slow_or_endless_replacement_rejects_the_record() -> None:
    text = "a" * 5_000 + "b"
    assert "did not finish" in reason(f"<p>{text}</p>", selector="p", replace=(("(a+)+$", ""),))
    assert "writes over" in reason(f"<p>{text}</p>", selector="p", replace=(("", "x" * 4_000),))
    assert "writes over" in reason(f"<p>{text}</p>", selector="p", replace=(("(?=(.*))", r"\1"),))
    assert "cannot be compiled" in reason("<p>a</p>", selector="p", replace=(("(", ""),))


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("red, green ,, blue,", {"split": ","}, ["red", "green", "blue"]),
        ("a / b/c", {"split": " / "}, ["a", "b/c"]),
        ("a b c", {"split": " "}, ["a", "b", "c"]),
        ("", {"split": ","}, []),
        (", ,", {"split": ","}, []),
        ("1,2", {"split": ",", "type": "int"}, [1, 2]),
        ("Colours: a;b", {"split": ";", "match": ": (.*)"}, ["a", "b"]),
        ("a and b", {"split": ",", "replace": ((" and ", ","),)}, ["a", "b"]),
        ("a <br> b  c<br>", {"split": "\n", "whitespace": "keep"}, ["a", "b c"]),
        (", ", {"split": ",", "default": ["x"], "has_default": True}, ["x"]),
        (", ", {"split": ",", "type": "int", "default": "7", "has_default": True}, [7]),
    ],
)
def test_split_gives_the_parts(text: str, field: dict[str, Any], expected: list[Any]) -> None:
    assert value(f"<p>{text}</p>", selector="p", **field) == expected


def test_split_of_all_matches_is_one_list() -> None:
    assert value("<i>a,b</i><i></i><i>c</i>", selector="i", split=",", all=True) == ["a", "b", "c"]
    assert value("<i>a,b</i><i>c</i>", selector="i", split=",") == ["a", "b"]
    assert value("", value="a,%{depth}", split=",") == ["a", "1"]
    assert value('{"a": ["x,y", "z"]}', kind="json", selector="jmespath:a", split=",") == ["x", "y"]


def test_a_part_that_does_not_fit_rejects_the_record() -> None:
    assert reason("<i>1,x</i>", selector="i", split=",", type="int") == "'x' is not a whole number"
    assert "required" in reason("<i>,</i>", selector="i", split=",", required=True)


def test_each_part_is_converted() -> None:
    extraction = RecordExtractor(
        DataDef(name="d", fields=(Field(name="f", selector="i", split=",", convert=("c.Up",)),)),
        converters=lambda _: _upper,
    ).extract(page("<i>a, drop ,b</i>"), CONTEXT)
    assert extraction.rows == ({"f": ["A", "B"]},)


def _upper(text: str) -> str:
    return "" if text == "drop" else text.upper()


def test_parts_count_as_text() -> None:
    """Millions of tiny parts take the memory of a far longer text."""
    markup = "<i>" + "a," * 30_000 + "</i>"
    data_def = DataDef(name="d", block="li", fields=(Field(name="f", selector="i", split=","),))
    with pytest.raises(PageTooCostly, match=f"values of more than {MAX_CHARACTERS:,}"):
        extract(data_def, "".join(f"<li>{markup}</li>" for _ in range(50)))


@pytest.mark.parametrize(
    ("text", "kind", "marks", "expected"),
    [
        ("1.116,90", "decimal", ",.", Decimal("1116.90")),
        ("-1.000.000,5", "float", ",.", -1000000.5),
        ("1116,9", "decimal", ",.", Decimal("1116.9")),
        (",5", "decimal", ",.", Decimal("0.5")),
        ("1,116.90", "decimal", ".,", Decimal("1116.90")),
        ("12,34,567", "int", ".,", 1234567),
        ("1\u00a0116\u202f000,5", "decimal", ", ", Decimal("1116000.5")),
        ("1'116", "int", ".'", 1116),
        ("1,5", "decimal", ",", Decimal("1.5")),
        ("1.5", "decimal", ",", "is not a number with the decimal mark ','"),
        ("1.5", "decimal", ",.", "and the group mark '.'"),
        ("1.11,5", "decimal", ",.", "is not a number"),
        ("1,116", "int", ".", "is not a number"),
        ("1.5", "int", ",.", "is not a number"),
        ("x", "decimal", ",.", "'x' is not a number"),
        (".", "decimal", ",.", "is not a number"),
        ("1." * 2_000, "decimal", ",.", "is not a number"),
        ("9.223.372.036.854.775.808", "int", ",.", "does not fit in 64 bits"),
    ],
)
def test_numbers_with_marks(text: str, kind: Any, marks: str, expected: Any) -> None:
    field = {"selector": "p", "type": kind, "decimal_mark": marks[0], "group_mark": marks[1:] or None}
    if isinstance(expected, str):
        assert expected in reason(f"<p>{text}</p>", **field)
        return
    number = value(f"<p>{text}</p>", **field)
    assert (number, type(number), str(number)) == (expected, type(expected), str(expected))


def test_a_default_is_a_number_of_the_defs() -> None:
    field = {"selector": "p", "type": "decimal", "decimal_mark": ",", "group_mark": "."}
    assert value("", **field, default="0.50", has_default=True) == Decimal("0.50")
