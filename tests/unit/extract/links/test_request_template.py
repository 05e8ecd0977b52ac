"""Templates of requests: how values of a page are written, and that none of them brings a secret along."""

import json
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.links.filled_text import MissingValue, NoNumber, fill_url
from crawl_engine.extract.links.form_encoding import FormField, RequestBody
from crawl_engine.extract.links.request_template import fill_body
from crawl_engine.http.request import build_request
from crawl_engine.model.job import Request
from crawl_engine.model.link import FORM_TYPE, JSON_TYPE, RequestTemplate


def looking_up(**values: Any) -> Any:
    return values.get


def fill_json(value: Any, **values: Any) -> str:
    body = fill_body(RequestTemplate(json=json.dumps(value)), looking_up(**values))
    assert body is not None
    assert body.content_type == JSON_TYPE
    return body.text


def fill_form(*fields: tuple[str, str], **values: Any) -> str:
    body = fill_body(RequestTemplate(form=fields, has_form=True), looking_up(**values))
    assert body is not None
    assert body.content_type == FORM_TYPE
    return body.text


def send(body: str) -> str:
    """The body as it is sent."""
    return build_request("https://a/", Request(method="POST", body=body), {}, {}, from_defs=False).body.decode()


@pytest.mark.parametrize(
    ("template", "value", "url"),
    [
        ("/s?q=%{v}", "a b&c=d/é#?", "/s?q=a%20b%26c%3Dd%2F%C3%A9%23%3F"),
        ("/p/%{v}/x", "../../admin", "/p/..%2F..%2Fadmin/x"),
        ("%{v}", "https://b.example/x?y=1#z", "https://b.example/x?y=1#z"),
        ("  %{v}  ", "/next", "/next"),
        ("x%{v}", "https://b.example/", "xhttps%3A%2F%2Fb.example%2F"),
        ("%{v}%{v}", "/a", "%2Fa%2Fa"),
        ("/s?q=%%{v}", "x", "/s?q=%{v}"),
        ("/s?q=%{v}", "%{env.SECRET}", "/s?q=%25%7Benv.SECRET%7D"),
        ("/s?q=%{v}", 7, "/s?q=7"),
        ("/s?q=%{v}", True, "/s?q=true"),
        ("/s?q=%{v}", False, "/s?q=false"),
        ("/s?q=%{v}", 0, "/s?q=0"),
        ("/s?q=%{v}", Decimal("1.50"), "/s?q=1.50"),
    ],
)
def test_a_value_in_a_url_is_encoded_unless_it_is_the_whole(template: str, value: Any, url: str) -> None:
    assert fill_url(template, looking_up(v=value)) == url


@pytest.mark.parametrize("value", [None, "", []])
@pytest.mark.parametrize("template", ["%{v}", "/x?y=%{v}", "/x?y=%{other}"])
def test_a_missing_value_leaves_no_request(template: str, value: Any) -> None:
    with pytest.raises(MissingValue):
        fill_url(template, looking_up(v=value))
    with pytest.raises(MissingValue):
        fill_form(("q", template), v=value)
    with pytest.raises(MissingValue):
        fill_json({"a": [template]}, v=value)


def test_a_form_is_encoded() -> None:
    filled = fill_form(("q ä", "a b&%{v}"), ("q ä", "2"), ("e", ""), v="x=é y")
    assert filled == "q+%C3%A4=a+b%26x%3D%C3%A9+y&q+%C3%A4=2&e="
    assert parse_qsl(filled, keep_blank_values=True) == [("q ä", "a b&x=é y"), ("q ä", "2"), ("e", "")]
    assert fill_form(("q", "%%{v}"), v="x") == "q=%25%7Bv%7D"


def test_without_form_and_json_there_is_no_body() -> None:
    assert fill_body(RequestTemplate(url="/x", method="POST"), looking_up()) is None
    assert fill_body(RequestTemplate(has_form=True), looking_up()) == RequestBody("", FORM_TYPE)
    assert fill_body(RequestTemplate(), looking_up(), [FormField("a", "1")]) == RequestBody("a=1", FORM_TYPE)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (7, "7"), (-2.5, "-2.5"), (True, "true"), (False, "false"), (0, "0"), (2**70, str(2**70)),
        (Decimal("1116.90"), "1116.90"), ("7", '"7"'), ('a"\\\n', '"a\\"\\\\\\n"'), ("é", '"é"'),
        (["x", "y"], '["x","y"]'),
    ],
)  # fmt: skip
def test_a_text_that_is_one_variable_keeps_the_type_of_its_value(value: Any, written: str) -> None:
    assert fill_json({"v": "%{v}", "n": 1}, v=value) == f'{{"v":{written},"n":1}}'
    assert fill_json("%{v}", v=value) == written


def test_a_variable_inside_a_text_stays_a_text() -> None:
    assert fill_json({"v": "n %{v}", "%{v}": [None, True, 1.5, {"x": "%{v}%{v}"}]}, v=7) == (
        r'{"v":"n 7","\u0025{v}":[null,true,1.5,{"x":"77"}]}'
    )


@pytest.fixture
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", 'pw"1')


@pytest.mark.usefixtures("_secret")
def test_a_variable_of_the_environment_is_filled_in_when_it_is_sent() -> None:
    form = fill_form(("k", "a %{env.SECRET}"), ("q", "%{v}"), v="x")
    assert form == "k=a+%{env.SECRET}&q=x"
    assert send(form) == 'k=a+pw"1&q=x'
    data = fill_json({"k": "%{env.SECRET}", "j": "a %{env.SECRET}", "q": "%{v}"}, v="x")
    assert data == '{"k":"%{env.SECRET}","j":"a %{env.SECRET}","q":"x"}'


HOSTILE = [
    "%{env.SECRET}",
    "%%{env.SECRET}",
    "%%%{env.SECRET}",
    "%%%%{env.SECRET}",
    "%{%{env.SECRET}}",
    "%",
    "%{",
    "{env.SECRET}",
    "%{env.",
    "env.SECRET}",
    "\\%{env.SECRET}",
    "%25%7Benv.SECRET%7D",
]


@pytest.mark.usefixtures("_secret")
@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_of_a_page_never_brings_a_secret_along(value: str) -> None:
    data = send(fill_json({"whole": "%{v}", "part": "a %{v}"}, v=value))
    assert json.loads(data) == {"whole": value, "part": f"a {value}"}
    form = send(fill_form(("whole", "%{v}"), ("part", "a %{v}"), v=value))
    assert parse_qsl(form) == [("whole", value), ("part", f"a {value}")]
    url = fill_url("https://a/?q=%{v}", looking_up(v=value))
    assert "pw" not in build_request(url, Request(), {}, {}, from_defs=False).target
    whole = fill_url("%{v}", looking_up(v=f"https://a/?q={value}"))
    assert "pw" not in build_request(whole, Request(), {}, {}, from_defs=False).target


TEMPLATES = ["%{a}%{b}", "%{a}{env.SECRET}", "%{a}%%{env.SECRET}", "%{%{a}", "%%{a}%{b}", "%%{%{b}"]


@pytest.mark.usefixtures("_secret")
@pytest.mark.parametrize("template", TEMPLATES)
def test_values_side_by_side_make_no_variable(template: str) -> None:
    for a in HOSTILE:
        for b in HOSTILE:
            data = send(fill_json({"x": template}, a=a, b=b))
            assert "pw" not in data, (template, a, b)
            form = send(fill_form(("x", template), a=a, b=b))
            assert "pw" not in form, (template, a, b)


pieces = st.sampled_from(["%", "{", "}", "%{", "%%{", "env.SECRET", "x", "%{env.SECRET}", " ", '"', "\\"])
texts = st.lists(pieces, min_size=1, max_size=6).map("".join)


@given(texts, texts, st.sampled_from(["%{a}%{b}", "%{a}", "x%{a}y%{b}", "%%{%{a}{%{b}}", "%%{env.SECRET}%{a}"]))
def test_what_a_page_writes_is_what_is_sent(a: str, b: str, template: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", "pw-1")
        expected = template.replace("%%{", "\0").replace("%{a}", "\1").replace("%{b}", "\2")
        expected = expected.replace("\0", "%{").replace("\1", a).replace("\2", b)
        assert json.loads(send(fill_json({"x": template}, a=a, b=b))) == {"x": expected}
        assert parse_qsl(send(fill_form(("x", template), a=a, b=b)), keep_blank_values=True) == [("x", expected)]


def fill_numbers(value: Any, *numbers: str, **values: Any) -> str:
    body = fill_body(RequestTemplate(json=json.dumps(value), numbers=numbers), looking_up(**values))
    assert body is not None
    return body.text


@pytest.mark.parametrize(
    ("value", "sent"),
    [("2", "2"), (" 2.50 ", "2.50"), (2, "2"), (Decimal("2.50"), "2.50"), ("-1e3", "-1e3")],
)
def test_a_number_of_a_page_is_sent_without_quotation_marks(value: Any, sent: str) -> None:
    assert fill_numbers({"v": {"page": "%{p}"}, "p": "%{p}"}, "page", p=value).startswith(f'{{"v":{{"page":{sent}}}')
    assert fill_numbers({"a": ["%{p}", "3"]}, "a", p=value) == f'{{"a":[{sent},3]}}'


@pytest.mark.parametrize("value", ["", "two", "01", "1,5", '1,"admin":true', "1}", "NaN", "%{env.HOME}", True, [1], {}])
def test_what_is_no_number_is_not_sent(value: Any) -> None:
    with pytest.raises(MissingValue) as raised:
        fill_numbers({"page": "%{p}"}, "page", p=value)
    assert isinstance(raised.value, NoNumber) == (value not in ("", []))
