"""Forms of pages: what a browser would submit, whatever the markup."""

from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_engine.extract.links.html_form import MAX_FIELDS, is_form, read_form, with_query
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selectors import compile_selector
from crawl_engine.model.definition import DataDef
from crawl_engine.model.link import PLAIN_LINK, Carried, Link, LinkRequest, RequestTemplate
from crawl_engine.model.record import ExtractedLink
from crawl_engine.node.extraction.page_extraction import apply_data_defs
from tests.unit.extract.pages import CONTEXT, URL, extract, page


def fields_of(controls: str, selector: str = "form") -> list[tuple[str, str]]:
    document = page(f"<form action=/s>{controls}</form>")
    node = compile_selector(selector).first(Scope(document))
    assert node is not None
    assert is_form(node)
    form = read_form(node, document)
    assert form is not None
    return [(field.name, field.value) for field in form.fields]


def links_of(
    text: str, selector: str = "form", submit: str | None = None, **request: object
) -> tuple[ExtractedLink, ...]:
    template = RequestTemplate(**{"has_form": True, **request})  # type: ignore[arg-type]
    link = Link(selector=selector, request=template, submit=submit)
    extraction = extract(DataDef(name="d", links=(link,)), text)
    assert extraction.rejected == ()
    return extraction.links


def sent(text: str, selector: str = "form", submit: str | None = None, **request: object) -> tuple[str, LinkRequest]:
    """The URL and the request of the only link."""
    (link,) = links_of(text, selector, submit, **request)
    return link.url, link.details.request if link.details else PLAIN_LINK


@pytest.mark.parametrize("selector", ["form", "xpath://form"])
@pytest.mark.parametrize(
    ("controls", "fields"),
    [
        ("<input name=q value='a b'>", [("q", "a b")]),
        ("<input name=q>", [("q", "")]),
        ("<input value=x><input name='' value=y>", []),
        ("<input type=hidden name=token value='é&amp;=\"'>", [("token", 'é&="')]),
        ("<input type=password name=p value=x><input type=search name=s value=y>", [("p", "x"), ("s", "y")]),
        ("<input type=checkbox name=a checked><input type=checkbox name=b>", [("a", "on")]),
        ("<input type=checkbox name=a value=1 checked><input type=checkbox name=a value=2 checked>",
         [("a", "1"), ("a", "2")]),
        ("<input type=radio name=r value=1><input type=radio name=r value=2 checked>", [("r", "2")]),
        ("<input type=radio name=r value=1>", []),
        ("<input type=file name=f><input type=reset name=r value=x>", [("f", "")]),
        ("<input type=image name=i>", [("i.x", "0"), ("i.y", "0")]),
        ("<input type=image><input type=submit name=b value=1>", [("x", "0"), ("y", "0")]),
        ("<input type=button name=b value=x>", []),
        ("<input type=hidden name=a value=1 disabled><input name=b value=2>", [("b", "2")]),
        ("<select name=s><option value=1>one<option value=2 selected>two</select>", [("s", "2")]),
        ("<select name=s><option>one</option><option>two</option></select>", [("s", "one")]),
        ("<select name=s></select>", []),
        ("<select name=s multiple><option value=1 selected><option value=2><option value=3 selected></select>",
         [("s", "1"), ("s", "3")]),
        ("<select name=s multiple><option value=1></select>", []),
        ("<select name=s disabled><option value=1></select>", []),
        ("<textarea name=t>a\nb</textarea><textarea name=u></textarea>", [("t", "a\nb"), ("u", "")]),
        ("<button name=b value=1>go</button><button name=c value=2>go</button>", [("b", "1")]),
        ("<button type=button name=x>no</button><button name=b value=1>go</button>", [("b", "1")]),
        ("<input type=submit name=go value=Search><button name=b>", [("go", "Search")]),
        ("<input type=SUBMIT name=go value=Search>", [("go", "Search")]),
        ("<button name=b></button>", [("b", "")]),
        ("<button>search</button><button name=clear value=1>clear</button>", []),
        ("<button name=b value=1 disabled>", []),
        ("<input type=image name=i><button name=b value=1>", [("i.x", "0"), ("i.y", "0")]),
        ("<button name=a disabled>1</button><button name=b value=1>", [("b", "1")]),
        ("<button type=unknown name=b value=1>", [("b", "1")]),
        ("<fieldset disabled><input name=a value=1></fieldset><input name=b value=2>", [("b", "2")]),
        ("<fieldset disabled><legend><input name=a value=1></legend><legend><input name=b value=2></legend>"
         "<input name=c value=3></fieldset>", [("a", "1")]),
        ("<fieldset disabled><div><legend><input name=a value=1></legend></div></fieldset>", []),
        ("<fieldset disabled><legend><fieldset disabled><input name=a value=1></fieldset></legend></fieldset>", []),
        ("<input type=radio name=r value=1 checked><input type=radio name=r value=2 checked>", [("r", "2")]),
        ("<input type=radio name=r value=1 checked><input type=radio name=r value=2 checked disabled>", []),
        ("<select name=s><optgroup disabled><option>a</optgroup><option>b</select>", [("s", "b")]),
        ("<select name=s><optgroup disabled><option selected>a</optgroup><option>b</select>", []),
        ("<select name=s><option selected>a<option selected>b</select>", [("s", "b")]),
        ("<select name=s size=3><option>a</select>", []),
        ("<select name=s><option disabled>a</select>", []),
        ("<select name=s multiple><option selected>a<option selected disabled>b</select>", [("s", "a")]),
        ("<select name=s><option> a&nbsp; \n b </select>", [("s", "a\u00a0 b")]),
        ("<select name=s><option value>a</select>", [("s", "")]),
        ("<datalist><option><input name=a value=1></datalist><input name=b>", [("b", "")]),
        ("<textarea name=t>\r\n\r\na\rb</textarea>", [("t", "\na\nb")]),
        ("<textarea name=t><b>x</b></textarea>", [("t", "<b>x</b>")]),
        ("<input name=a value='x\ny'><input type=hidden name=b value='x\ny'>", [("a", "xy"), ("b", "x\ny")]),
        ("<input type=email name=a value=' a@b '><input type=x name=b value=' x '>", [("a", "a@b"), ("b", " x ")]),
        ("<input type=number name=a value=1,5><input type=number name=b value=-1.5e3>", [("a", ""), ("b", "-1.5e3")]),
        ("<input type=color name=a><input type=color name=b value=#AABBCC>", [("a", "#000000"), ("b", "#aabbcc")]),
        ("<input type=date name=a value=01/02/2024><input type=date name=b value=2024-02-01>",
         [("a", ""), ("b", "2024-02-01")]),
        ("<input type=range name=a><input type=range name=b max=5><input type=range name=c value=7 min=10 max=20>",
         [("a", "50"), ("b", "3"), ("c", "10")]),
        ("<input type=range name=a min=0 max=1 step=0.25 value=0.6><input type=range name=b max=-5>",
         [("a", "0.5"), ("b", "0")]),
        ("<input type=range name=a min=1e9999999><input type=range name=b value=1e99999999999999999999999 max=5>",
         [("a", "50"), ("b", "3")]),
        ("<input name=a value=x dirname=a.dir><div dir=rtl><textarea name=b dirname=d></textarea></div>",
         [("a", "x"), ("a.dir", "ltr"), ("b", ""), ("d", "rtl")]),
        ("<input type=hidden name=_CHARSET_ value=x><input name=_charset_ value=y>",
         [("_CHARSET_", "UTF-8"), ("_charset_", "y")]),
        ("<select name=s><option disabled selected>choose<option>one</select>", []),
        ("<select name=s><option disabled>choose<option>one</select>", [("s", "one")]),
        ("<input name=a value=1><div><p><input name=b value=2></div>", [("a", "1"), ("b", "2")]),
    ],
)  # fmt: skip
def test_a_form_sends_what_a_browser_sends(selector: str, controls: str, fields: list[tuple[str, str]]) -> None:
    assert fields_of(controls, selector) == fields


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("<input form=s name=a><form id=s><input name=b></form><input form=s name=c>", ["a", "b", "c"]),
        ("<form id=s><input name=a form=t><input name=b form=''></form><form id=t></form>", []),
        ("<p id=s></p><form id=s><input name=a><input name=b form=s></form>", ["a"]),
        ("<table><tr><form id=s><td><input name=a><td><input name=b></form></table>", ["a", "b"]),
    ],
)
def test_a_form_has_the_controls_that_name_it(text: str, fields: list[str]) -> None:
    document = page(text)
    node = compile_selector("form").first(Scope(document))
    assert node is not None
    form = read_form(node, document)
    assert form is not None
    assert [field.name for field in form.fields] == fields


FORM = """<form id=s action="{action}" method="{method}"><input type=hidden name=token value=t1>
<input name=q value=old><button name=go value=1>go</button></form>"""


@pytest.mark.parametrize("selector", ["#s", "xpath://form[@id='s']"])
def test_a_post_form_is_submitted_with_all_its_fields(selector: str) -> None:
    url, request = sent(FORM.format(action="/search", method="post"), selector)
    assert url == "https://shop.example/search"
    assert request == LinkRequest(
        method="POST", body="token=t1&q=old&go=1", content_type="application/x-www-form-urlencoded"
    )


def test_a_get_form_is_a_plain_link_whose_query_is_replaced() -> None:
    url, request = sent(FORM.format(action="/search?old=1#top", method="GET"))
    assert (url, request) == ("https://shop.example/search?token=t1&q=old&go=1", PLAIN_LINK)
    assert sent("<form action='/all?x=1'></form>") == ("https://shop.example/all", PLAIN_LINK)


def test_a_secret_is_never_written_in_the_url_of_a_get_form() -> None:
    request = RequestTemplate(has_form=True, form=(("k", "%{env.KEY}"),))
    data_def = DataDef(name="d", links=(Link(selector="form", request=request),))
    extraction = extract(data_def, FORM.format(action="/s", method="get"))
    (rejection,) = extraction.rejected
    assert (extraction.links, rejection.field) == ((), "links")
    assert "sent with GET" in rejection.reason
    (link,) = extract(data_def, FORM.format(action="/s", method="post")).links
    assert link.details is not None
    assert link.details.request.body == "token=t1&q=old&go=1&k=%{env.KEY}"


@pytest.mark.parametrize("method", ["", "DIALOG", "put", "nonsense"])
def test_another_method_of_a_form_is_get(method: str) -> None:
    assert sent(FORM.format(action="/search", method=method))[1] == PLAIN_LINK


def test_the_method_of_the_defs_counts_before_that_of_the_form() -> None:
    url, request = sent(FORM.format(action="/search", method="get"), method="POST")
    assert (url, request.method, request.body) == ("https://shop.example/search", "POST", "token=t1&q=old&go=1")
    url, request = sent(FORM.format(action="/search", method="post"), method="GET")
    assert (url, request) == ("https://shop.example/search?token=t1&q=old&go=1", PLAIN_LINK)


BUTTONS = """<form action=/s?old=1 method=get><input name=q value="a
b~*"><button name=go value=1>go</button>
<button name=go value=2 formaction=/other formmethod=post>2</button>
<button name=up formmethod=POST formenctype=text/plain>3</button></form>"""


def test_the_fields_of_the_defs_choose_the_button() -> None:
    assert sent(BUTTONS) == ("https://shop.example/s?q=ab%7E*&go=1", PLAIN_LINK)
    url, request = sent(BUTTONS, form=(("go", "2"),))
    assert (url, request.method, request.body) == ("https://shop.example/other", "POST", "q=ab%7E*&go=2")
    url, request = sent(BUTTONS, form=(("up", "x"),))
    assert (url, request.content_type, request.body) == (f"{URL[:20]}/s?old=1", "text/plain", "q=ab~*\r\nup=x\r\n")


PAGER = """<form method=post action=/list><input type=hidden name=__EVENTTARGET value=""><input name=q value=tea>
<input type=submit name=search value=Search formaction=/found><button id=more formmethod=get>more</button>
<input type=image id=go name=go><button name=off disabled>off</button><button type=button name=b>b</button></form>"""


@pytest.mark.parametrize(
    ("submit", "form", "url", "body"),
    [
        (None, (), "found", "__EVENTTARGET=&q=tea&search=Search"),
        ("none", (), "list", "__EVENTTARGET=&q=tea"),
        ("none", (("__EVENTTARGET", "grid"), ("go", "1")), "list", "__EVENTTARGET=grid&q=tea&go=1"),
        ("search", (("go", "1"),), "found", "__EVENTTARGET=&q=tea&search=Search&go=1"),
        ("go", (), "list", "__EVENTTARGET=&q=tea&go.x=0&go.y=0"),
        ("more", (("q", "oil"),), "list?__EVENTTARGET=&q=oil", None),
    ],
)
def test_the_button_is_the_one_that_submit_names(
    submit: str | None, form: tuple[tuple[str, str], ...], url: str, body: str | None
) -> None:
    made, request = sent(PAGER, submit=submit, form=form)
    assert (made, request.body) == (f"https://shop.example/{url}", body)


@pytest.mark.parametrize("submit", ["up", "off", "b", "q"])
def test_a_form_without_the_button_is_not_sent(submit: str) -> None:
    document = page(PAGER)
    link = Link(selector="form", request=RequestTemplate(has_form=True), submit=submit)
    assert RecordExtractor(DataDef(name="d", links=(link,))).extract(document, CONTEXT).links == ()
    assert [*document.faults] == [f"a form has no button `{submit}` that may be pressed, and is not sent"]


def test_of_buttons_with_one_name_the_fields_choose() -> None:
    assert sent(BUTTONS, submit="go")[0].endswith("&go=1")
    assert sent(BUTTONS, submit="go", form=(("go", "2"),))[0].endswith("/other")
    assert sent(BUTTONS, submit="go", form=(("up", "x"),))[0].endswith("&go=1&up=x")


def answer_to(text: str, answer: str, **request: object) -> list[str]:
    """The codes of the warnings of a page that answers the form of another."""
    (link,) = links_of(text, **request)
    assert link.details is not None
    carried = Carried.from_json(link.details.carried)
    context = msgspec.structs.replace(CONTEXT, rules={"form_page": carried.form_page})
    other = RecordExtractor(DataDef(name="other", links=(Link(selector="a"),)))
    warnings = apply_data_defs(page(answer), context, [(other, True)], 100).warnings
    assert all(one.data_def == "other" and "`submit: none`" in one.text for one in warnings)
    return [one.code for one in warnings]


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_answer_that_is_the_page_of_the_form_is_a_warning(method: str) -> None:
    def shop(token: str = "1", rest: str = "<img src=1.png>", title: str = "teas") -> str:
        state = f"<input type=hidden name=state value={token}>"
        return f"<h1>{title}</h1><form method={method}>{state}<button name=go>go</button></form>{rest}"

    assert answer_to(shop(), shop()) == answer_to(shop(), shop(token="2")) == ["form-page"]
    assert answer_to(shop(), shop(title="oils")) == answer_to(shop(), shop(rest="<img src=2.png>")) == []
    assert links_of(shop(), only_read=True)[0].details.carried is None  # type: ignore[union-attr]


def test_line_breaks_are_sent_as_crlf() -> None:
    text = "<textarea name=t>\na\r\nb\rc\nd</textarea><input type=hidden name='a\nb' value='&#13;'>"
    assert sent(f"<form method=post>{text}</form>")[1].body == "t=a%0D%0Ab%0D%0Ac%0D%0Ad&a%0D%0Ab=%0D%0A"
    assert sent("<form method=post></form>", form=(("n", "two\nlines"),))[1].body == "n=two%0D%0Alines"
    assert sent("<form><textarea name=t>a\nb</textarea></form>")[0].endswith("?t=a%0D%0Ab")


def test_a_multipart_form_has_its_empty_files_and_no_variables() -> None:
    text = """<form method=post enctype=Multipart/form-data><input type=hidden name='a"' value='%{env.SECRET}
x'><input type=file name=up></form>"""
    request = sent(text, form=(("k", "%{env.KEY}"),))[1]
    assert request.content_type is not None
    boundary = request.content_type.removeprefix("multipart/form-data; boundary=")
    assert request.body == (
        f'--{boundary}\r\nContent-Disposition: form-data; name="a%22"\r\n\r\n%%{{env.SECRET}}\r\nx\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="up"; filename=""\r\n'
        "Content-Type: application/octet-stream\r\n\r\n\r\n"
        f'--{boundary}\r\nContent-Disposition: form-data; name="k"\r\n\r\n%{{env.KEY}}\r\n--{boundary}--\r\n'
    )
    assert sent(text, form=(("k", "%{env.KEY}"),))[1] == request


@pytest.mark.parametrize(
    ("form", "head", "encoding", "query"),
    [
        ("", "", "", "q=%D0%B6&c=UTF-8"),
        ("", "", "cp1251", "q=%E6&c=windows-1251"),
        ("", "<meta charset=windows-1251>", "", "q=%E6&c=windows-1251"),
        ("", "<meta http-equiv=content-type content='text/html; charset=koi8-r'>", "", "q=%D6&c=KOI8-R"),
        ("accept-charset='nonsense UTF-8'", "<meta charset=windows-1251>", "", "q=%D0%B6&c=UTF-8"),
        ("accept-charset=nonsense", "", "cp1251", "q=%D0%B6&c=UTF-8"),
        ("accept-charset=x-mac-ukrainian", "", "", "q=%E6&c=x-mac-cyrillic"),
        ("", "<meta charset=x-mac-cyrillic>", "", "q=%E6&c=x-mac-cyrillic"),
        ("accept-charset=logical", "", "", "q=%26%231078%3B&c=ISO-8859-8"),
        ("accept-charset=iso-8859-1", "", "", "q=%26%231078%3B&c=windows-1252"),
        ("", "", "utf-16-le", "q=%D0%B6&c=UTF-8"),
    ],
)
def test_a_form_is_sent_in_the_encoding_that_it_accepts_or_its_page_has(
    form: str, head: str, encoding: str, query: str
) -> None:
    text = f"{head}<form {form}><input name=q value=ж><input type=hidden name=_charset_></form>"
    document = Page(url=URL, text=text, kind="html", status=200, fetched_at=0.0, encoding=encoding)
    data_def = DataDef(name="d", links=(Link(selector="form", request=RequestTemplate(has_form=True)),))
    (link,) = RecordExtractor(data_def).extract(document, CONTEXT).links
    assert link.url.partition("?")[2].replace("_charset_", "c") == query


@pytest.mark.parametrize("action", ["", "  ", "#", "?a=b"])
def test_an_empty_action_is_the_page(action: str) -> None:
    url, request = sent(FORM.format(action=action, method="post"))
    assert url == (f"{URL}?a=b" if action == "?a=b" else URL)
    assert request.method == "POST"


def test_a_form_without_action_is_sent_to_the_page_and_not_to_its_base() -> None:
    assert sent("<base href=/other/><form method=post></form>")[0] == URL
    assert sent("<base href=/other/><form method=post action=x></form>")[0] == "https://shop.example/other/x"


@pytest.mark.parametrize("action", ["https://evil.example/s", "//evil.example/s", "javascript:alert(1)", "mailto:a@b"])
def test_a_form_that_leads_to_another_host_is_not_followed(action: str) -> None:
    assert links_of(FORM.format(action=action, method="post")) == ()
    assert links_of(FORM.format(action=action, method="get")) == ()


def test_a_form_may_lead_to_another_host_where_the_link_says_so() -> None:
    link = Link(selector="form", same_host=False, request=RequestTemplate(has_form=True))
    extraction = extract(DataDef(name="d", links=(link,)), FORM.format(action="//cdn.example/s", method="post"))
    (found,) = extraction.links
    assert (found.url, found.may_leave_host) == ("https://cdn.example/s", True)


def test_credentials_in_an_action_are_dropped() -> None:
    assert sent(FORM.format(action="https://u:pw@shop.example/s", method="post"))[0] == "https://shop.example/s"


def test_fields_of_the_defs_take_the_place_of_those_of_the_form() -> None:
    text = "<form method=post><input name=a value=1><input name=q value=old><input name=q value=2><input name=z></form>"
    assert sent(text, form=(("q", "new"),))[1].body == "a=1&q=new&z="
    assert sent(text, form=(("q", "x"), ("q", "y"), ("m", "%{depth}")))[1].body == "a=1&q=x&q=y&z=&m=1"


def test_each_form_is_a_page_of_its_own() -> None:
    text = "".join(f"<form method=post action=/s><input name=q value={word}></form>" for word in "aab")
    links = links_of(text)
    assert [link.details.request.body for link in links if link.details] == ["q=a", "q=b"]
    assert len({link.key for link in links}) == 2


def test_an_element_that_is_no_form_gives_its_href() -> None:
    url, request = sent("<a href=/api>x</a>", "a", form=(("q", "1"),))
    assert (url, request.method, request.body) == ("https://shop.example/api", "POST", "q=1")
    assert links_of("<a>x</a>", "a", form=(("q", "1"),)) == ()


def test_a_field_of_a_page_that_looks_like_a_variable_is_sent_as_text() -> None:
    text = "<form method=post><input name='%{env.A}' value='%{env.SECRET} %{depth} %%{x}'></form>"
    body = sent(text)[1].body
    assert body is not None
    assert "%{" not in body
    assert parse_qsl(body) == [("%{env.A}", "%{env.SECRET} %{depth} %%{x}")]


def test_a_form_has_a_limit_of_fields() -> None:
    assert len(fields_of("".join(f"<input name=f{number}>" for number in range(MAX_FIELDS + 5)))) == MAX_FIELDS


def test_a_url_with_a_query() -> None:
    assert with_query("/s?x#y", "a=1") == "/s?a=1"
    assert with_query("/s?x", "") == "/s"


PIECES = (
    "<form> </form> <input <button <select> </select> <option> <textarea> </textarea> name=a value=b checked disabled"
)
MORE = "type=radio type=checkbox type=image multiple selected <table> <td> <template> <svg> <!-- --> > method=post"
REST = "action=/x action=// é <fieldset <label> \0 &#xD800; form=f <object name=o>"
markup = st.lists(st.sampled_from(f"{PIECES} {MORE} {REST}".split()), max_size=30).map(" ".join)


@settings(max_examples=150)
@given(markup, st.sampled_from(["form", "xpath://form", "form, input, button, *"]))
def test_no_markup_breaks_a_form(text: str, selector: str) -> None:
    for method in (None, "POST", "GET"):
        for link in links_of(f"<form>{text}", selector, method=method, form=(("a", "x"),)):
            link.url.encode()
            if link.details is not None:
                link.details.to_line()


def test_a_deep_form_is_read_or_left_and_breaks_nothing() -> None:
    extraction = extract(
        DataDef(name="d", links=(Link(selector="form", request=RequestTemplate(has_form=True)),)),
        "<form method=post>" + "<div>" * 400 + "<input name=q value=1>",
    )
    assert [link.details.request.body for link in extraction.links if link.details] == ["q=1"]
