"""How a login fills in a form: with the fields, the button and the encoding that a link would send."""

import pytest

from crawl_engine.extract.links.form_encoding import FormEncoding, FormField
from crawl_engine.extract.links.html_form import HtmlForm
from crawl_engine.http.request import build_request
from crawl_engine.node.handlers.login_job import _fill

FIELDS = (FormField("token", "a\nb %{env.PW}"), FormField("user", ""), FormField("pw", "x"), FormField("up", "", True))


def sent(form: HtmlForm, **values: str) -> tuple[str, str, str | None]:
    """URL, body as it is sent, and content type."""
    url, request = _fill(form, values, "https://a/login?next=/x")
    assert dict(request.headers)["Referer"] == "https://a/login"
    built = build_request(url, request, {}, {}, from_defs=False)
    return built.target, built.body.decode(), built.headers.get("content-type")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "secret")


def test_values_take_the_place_of_the_pages_and_are_never_variables() -> None:
    form = HtmlForm("https://a/in", "POST", FIELDS)
    url, body, type_ = sent(form, user="ä %{env.PW}", pw="p&w", more="1")
    assert (url, type_) == ("https://a/in", "application/x-www-form-urlencoded")
    assert body == (
        "token=a%0D%0Ab+%25%7Benv.PW%7D&user=%C3%A4+%25%7Benv.PW%7D&pw=p%26w&up=&more=1"
    )  # fmt: skip


def test_a_get_form_is_a_query_in_the_encoding_of_its_page() -> None:
    form = HtmlForm("https://a/in?old=1", "GET", FIELDS[1:3], FormEncoding("multipart/form-data", "cp1251"))
    url, request = _fill(form, {"user": "ж", "pw": "p"}, "https://a/login")
    assert (url, request.method, request.body) == ("https://a/in?user=%E6&pw=p", "GET", None)


def test_a_multipart_form_is_sent_as_such() -> None:
    _, body, type_ = sent(
        HtmlForm("https://a/in", "POST", FIELDS, FormEncoding("multipart/form-data")), user="u", pw="p"
    )
    assert type_ is not None
    boundary = type_.partition("boundary=")[2]
    parts = [part.partition("\r\n\r\n")[2].removesuffix("\r\n") for part in body.split(f"--{boundary}")[1:-1]]
    assert parts == ["a\r\nb %{env.PW}", "u", "p", ""]
    assert 'name="up"; filename=""' in body
