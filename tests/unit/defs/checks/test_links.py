"""Links, `next`, `until`, `canonical`: wrong types and contradictions with their places, and what is read."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Definitions
from crawl_engine.model.link import Link, NextPage, RequestTemplate
from crawl_engine.model.locator import Locator
from crawl_engine.model.stored_form import NO_POSITION
from tests.unit.defs.language.test_schema import VALIDATOR, Core
from tests.unit.defs.language.test_strictness import load_problems, marked, write_defs

DEFS = """\
baseUrl: https://shop.example/
locatorGroups: {list: {locators: [{url: /a}]}}
taskGroups: {list: {items: {dataDef: item}}, detail: {page: {dataDef: page}}}
dataDefs:
  item:
    query: {block: li}
    fields: {sku: {selector: b}, top: {selector: h1, scope: page}, now: {value: x}}
    links: [{selector: a, linkGroup: detail, inBlock: true, carry: [sku]}, LINK]
  page: {fields: {sku: {value: "%{carried.sku}"}}}
"""

LINKS = [
    ("wrong-type", "{selector: a, inBlock: §yes}", "true or false"),
    ("wrong-type", "{selector: a, inBlock: §yes, carry: [sku]}", "true or false"),
    ("wrong-type", "{selector: a, inBlock: §[true]}", ""),
    ("wrong-type", "{selector: a, §inBlock: ~}", ""),
    ("wrong-type", "{selector: a, inBlock: true, carry: §{a: b}}", "a list"),
    ("wrong-type", "{selector: a, inBlock: true, carry: [§[sku]]}", "a text"),
    ("wrong-type", "{selector: a, inBlock: true, carry: §true}", ""),
    ("wrong-type", "{selector: a, inBlock: true, §carry: ~}", ""),
    ("no-effect", "{selector: a, §carry: []}", "name fields, or remove it"),
    ("empty-text", "{selector: a, inBlock: true, carry: [§'']}", ""),
    ("duplicate-name", "{selector: a, inBlock: true, carry: [sku, §sku]}", "twice"),
    ("unknown-field", "{selector: a, inBlock: true, carry: [§skuu]}", "did you mean 'sku'"),
    ("unknown-field", "{selector: a, inBlock: true, carry: §skuu}", "did you mean 'sku'"),
    ("conflict", "{selector: a, carry: [top, §sku]}", "add `inBlock: true`"),
    ("conflict", "{url: §'/x?s=%{field.sku}'}", "add `inBlock: true`"),
    ("missing-key", "§{linkGroup: detail}", "needs a `selector`, or a `url`"),
    ("missing-key", "§{form: {a: b}}", "needs a `selector`, or a `url`"),
    ("conflict", "{selector: img, attribute: src, §largest: true}", "needs `attribute: srcset`"),
    ("conflict", "{url: /x, §selector: a}", "keep one"),
    ("conflict", "{url: /x, §attribute: href}", "keep one"),
    ("wrong-type", "{url: §[/x]}", "a text"),
    ("empty-text", "{url: §''}", ""),
    ("bad-url", "{url: §'ftp://a/%{depth}'}", "not supported"),
    ("bad-url", "{url: §'https://u:p@a/%{depth}'}", "write `auth` for its host"),
    ("bad-url", "{url: §'//u@a/%{depth}'}", "write `auth` for its host"),
    ("unknown-variable", "{url: §'/x?%{fields.sku}'}", "field.sku"),
    ("unknown-variable", "{url: §'/x?%{document.ulr}'}", "document.url"),
    ("unknown-variable", "{url: §'/x?k=%{env.KEY}'}", "send a secret in the `form` or `json`"),
    ("unknown-variable", "{url: /x, method: GET, form: {k: §'%{env.KEY}'}}", "not available in"),
    ("unknown-field", "{url: §'/x?%{field.skuu}', inBlock: true}", "did you mean 'sku'"),
    ("unknown-variable", "{url: §'/x?%{carried.sku}'}", "no link carries 'sku'"),
    ("unknown-value", "{selector: a, method: §FETCH}", ""),
    ("unknown-value", "{selector: a, method: §post}", ""),
    ("unknown-value", "{selector: a, method: §[POST]}", ""),
    ("wrong-type", "{selector: form, form: §[a]}", "a mapping"),
    ("wrong-type", "{selector: form, form: §x}", "a mapping"),
    ("wrong-type", "{selector: form, form: {a: §{b: c}}}", ""),
    ("wrong-type", "{selector: form, §form: ~}", ""),
    ("unknown-variable", "{selector: form, form: {a: §'%{secret.x}'}}", ""),
    ("unknown-field", "{selector: form, inBlock: true, form: {a: [x, §'%{field.nope}']}}", ""),
    ("conflict", "{selector: form, form: {a: b}, §json: {a: b}}", "keep one"),
    ("conflict", "{selector: a, method: GET, §json: {a: b}}", "a GET sends no body"),
    ("unknown-variable", "{selector: a, json: {a: [{b: §'x %{nope}'}]}}", "write `%%{`"),
    ("unknown-key", "{selector: a, §inblock: true}", "inBlock"),
    ("missing-key", "{selector: form, §submit: none}", "add `form`"),
    ("missing-key", "{url: /x, form: {a: b}, §submit: go}", "that `selector` selects"),
    ("wrong-type", "{selector: form, form: {}, submit: §[go]}", "a text"),
    ("bad-pattern", "{selector: a, replace: [[§'(', x]]}", ""),
    ("bad-pattern", "{selector: a, replace: [§[a, '\\1']]}", ""),
    ("wrong-type", "{selector: a, replace: [§a]}", "pairs of a regular expression"),
]

NEXTS = [
    ("wrong-type", "§[a]", "a mapping"),
    ("wrong-type", "§a.next", "a mapping"),
    ("missing-key", "§{}", "needs a `url`, `form` or `json`"),
    ("missing-key", "§{c: a.next}", "needs a `url`, `form` or `json`"),
    ("wrong-type", "{url: §[x], c: b}", "a text"),
    ("bad-url", "{url: §'ftp://a/%{c}', c: b}", "not supported"),
    ("bad-url", "{url: §'http://u:p@a/%{c}', c: b}", "write `auth` for its host"),
    ("unknown-variable", "{url: §'/x?%{d}', c: b, json: {a: '%{c}'}}", "`%{d}`"),
    ("unknown-variable", "{url: §'/x?%{c}%{env.KEY}', c: b}", "send a secret in the `form` or `json`"),
    ("unknown-variable", "{url: /x, form: {a: §'%{field.sku}', b: '%{c}'}, c: b}", "field.sku"),
    ("unknown-variable", "{url: /x, method: GET, form: {a: '%{c}', k: §'%{env.KEY}'}, c: b}", "not available in"),
    ("unused", "{url: '/x?%{c}', c: b, §d: b}", "write `%{d}` in `url`, or remove it"),
    ("unused", "{url: '/x?%{c}', c: b, §untill: empty}", "did you mean `until`"),
    ("no-variable", "§{url: /x}", "add a variable"),
    ("no-variable", "§{url: '/x?d=%{depth}'}", "or `page: 'header: X-Next-Page'`"),
    ("bad-selector", "{url: '/x?p=%{p}', p: §'header:'}", "write the name of a header behind `header:`"),
    ("bad-selector", "{url: '/x?p=%{p}', p: §'header: X Next'}", "write the name of a header behind `header:`"),
    ("bad-step", "{offset: §0}", "from 1 to 1,000,000,000, not 0"),
    ("bad-step", "{offset: §-20}", "must be a whole number"),
    ("bad-step", "{offset: §2.5}", "must be a whole number"),
    ("bad-step", "{offset: §1000000001}", "must be a whole number"),
    ("conflict", "{offset: 20, §url: /x}", "no effect beside `offset`"),
    ("conflict", "{offset: 20, §form: {a: b}}", "no effect beside `offset`"),
    ("conflict", "{§header: next, offset: 20}", "no effect beside `offset`"),
    ("conflict", "{offset: 20, §c: b}", "no effect beside `offset`"),
    ("bad-name", "{url: '/x?%{my-c}', §my-c: b}", "letters, digits and _"),
    ("bad-selector", "{url: '/x?%{c}', c: §'b['}", ""),
    ("bad-selector", "{url: '/x?%{c}', c: §'jmespath: a[?'}", ""),
    ("wrong-type", "{url: '/x?%{c}', c: §[b]}", ""),
    ("conflict", "{form: {a: '%{c}'}, §json: {a: b}, c: b}", "keep one"),
    ("conflict", "{header: next, §url: '/x?%{c}'}", "no effect beside `header`"),
    ("conflict", "{header: next, §c: b}", "no effect beside `header`"),
    ("bad-relation", "{header: §'rel=next'}", "write it alone"),
    ("bad-relation", "{header: §'next prev'}", "write it alone"),
    ("wrong-type", "{header: §[next]}", "a text"),
    ("conflict", "{§json: {a: '%{c}'}, method: GET, c: b}", "a GET sends no body"),
    ("unknown-value", "{url: '/x?%{c}', c: b, method: §HEAD}", ""),
    ("unknown-value", "{url: '/x?%{c}', c: b, until: §never}", ""),
    ("unknown-value", "{url: '/x?%{c}', c: b, until: §true}", ""),
    ("unknown-value", "{url: '/x?%{c}', c: b, until: §[empty]}", ""),
]

SERIES = [
    ("unknown-value", "{url: '/x?p={1..}', until: §never}", ""),
    ("unknown-value", "{url: '/x?p={1..}', until: §5}", ""),
    ("open-range", "{url: §'/x?p={1..}'}", "add `until: empty`"),
    ("open-range", "{urls: [/a, §'/x?p={1..}']}", "add `until: empty`"),
    ("open-range", "{url: §/x, form: {p: '{1..}'}}", "add `until: empty`"),
    ("missing-range", "{url: /x, §until: empty}", "a range of pages, `{1..}`"),
    ("missing-range", "{url: '/{a,b}', §until: empty}", "a range of pages, `{1..}`"),
    ("conflict", "{url: §'/{1..}/{1..}', until: empty}", "only one range"),
    ("conflict", "{url: §'/{1..}/{5..}', until: empty}", "only one range"),
    ("conflict", "{url: §'/{1..5}', until: empty, form: {p: '{1..5}'}}", "only one range"),
    ("conflict", "{url: '/{1..}', until: empty, §sitemap: /s.xml}", "a locator of its own"),
    ("conflict", "{url: '/{1..}', until: empty, §from: '-'}", "a locator of its own"),
    ("bad-range", "{url: §'https://shop.example:{1..}/', until: empty}", "cannot be in the host"),
    ("bad-range", "{url: §'https://shop{1..9}.example/', until: empty}", "cannot be in the host"),
    ("bad-range", "{url: §'//shop{1..9}.example/', until: empty}", "cannot be in the host"),
    ("bad-range", "{url: §'/tea#page={1..}', until: empty}", "not part of the URL"),
    ("bad-url", "{url: §'/x{1..', until: empty}", "unclosed brace"),
]


def check_one(folder: Path, text: str, code: str, advice: str) -> None:
    """The defs have one problem, at the mark, and the schema refuses wrong types."""
    text, (place,) = marked(text)
    problems = [p for p in load_problems(write_defs(folder, text)) if not p.warning]
    assert [(p.code, p.line, p.column) for p in problems] == [(code, *place)], problems
    assert advice in problems[0].message
    assert "s3cret" not in str(problems[0])
    if code in ("wrong-type", "unknown-value", "unknown-key"):
        assert not VALIDATOR.is_valid(yaml.load(text, Core)), problems


@pytest.mark.parametrize(("code", "link", "advice"), LINKS)
def test_a_wrong_link_has_one_problem(tmp_path: Path, code: str, link: str, advice: str) -> None:
    check_one(tmp_path, DEFS.replace("LINK", link), code, advice)


@pytest.mark.parametrize(("code", "next_page", "advice"), NEXTS)
def test_a_wrong_next_page_has_one_problem(tmp_path: Path, code: str, next_page: str, advice: str) -> None:
    text = DEFS.replace(", LINK]", f"]\n    next: {next_page}")
    if next_page.startswith("§") and code == "wrong-type":
        text, advice = text, ""
    check_one(tmp_path, text, code, advice)


@pytest.mark.parametrize(("code", "locator", "advice"), SERIES)
def test_a_wrong_series_has_one_problem(tmp_path: Path, code: str, locator: str, advice: str) -> None:
    check_one(tmp_path, DEFS.replace(", LINK", "").replace("{url: /a}", locator), code, advice)


@pytest.mark.parametrize("value", ["§yes", "§[true]", "§'true'", "§1"])
def test_canonical_is_true_or_false(tmp_path: Path, value: str) -> None:
    text = DEFS.replace(", LINK", "").replace("{items:", f"{{canonical: {value}, items:")
    check_one(tmp_path, text, "wrong-type", "")


def test_in_block_needs_a_block(tmp_path: Path) -> None:
    text = DEFS.replace("query: {block: li}", "key: [sku]").replace(", inBlock: true", "")
    check_one(tmp_path, text.replace("LINK", "{selector: a, §inBlock: true}"), "missing-key", "`query.block`")


def test_what_a_step_fills_later_is_not_carried(tmp_path: Path) -> None:
    step = "steps: {jsoupDefault: {mark: {class: command, run: [x], previous: filter, next: appender}}}"
    text = DEFS.replace("now: {value: x}", "late: {fromStep: true}").replace(
        "{dataDef: item}", f"{{dataDef: item, {step}}}"
    )
    link = "{selector: a, inBlock: true, carry: [§late]}"
    check_one(tmp_path, text.replace("LINK", link), "conflict", "a step fills 'late' later")


def test_until_needs_blocks_or_links(tmp_path: Path) -> None:
    text = DEFS.replace("{selector: a, linkGroup: detail, inBlock: true, carry: [sku]}, LINK", "{selector: a}")
    bare = text.replace("    links: [{selector: a}]\n", "").replace("query: {block: li}", "key: [sku]")
    bare = bare.replace(", detail: {page: {dataDef: page}}", "").replace("page: {fields", "other: {fields")
    series = bare.replace("{url: /a}", "{url: '/a?p={1..}', §until: empty}")
    check_one(tmp_path, series, "conflict", "which tell whether a page is empty")
    chain = bare.replace("now: {value: x}}", "x: {value: y}}\n    next: {url: '/%{c}', c: b, §until: empty}")
    check_one(tmp_path, chain, "conflict", "which tell whether a page is empty")


@pytest.mark.parametrize(
    "where", ["url: 'ftp://me:s3cret@a/'", "url: 'http://me:s3cret@[/'", "url: '/', form: {k: '%{s3}'}"]
)
def test_no_problem_shows_a_password(tmp_path: Path, where: str) -> None:
    for text in (
        DEFS.replace("LINK", f"{{{where}}}"), DEFS.replace(", LINK]", f"]\n    next: {{{where}, c: b}}"),
    ):  # fmt: skip
        for problem in load_problems(write_defs(tmp_path, text)):
            assert "s3cret" not in str(problem)


def load_definitions(folder: Path, text: str) -> Definitions:
    loaded = load(write_defs(folder, text))
    VALIDATOR.validate(yaml.load(text, Core))
    assert Definitions.from_json(loaded.definitions.to_json()) == loaded.definitions
    return loaded.definitions


def load_link(folder: Path, link: str) -> Link:
    data_def = load_definitions(folder, DEFS.replace("LINK", link)).data_def("item")
    assert data_def is not None
    return replace(data_def.links[1], place=NO_POSITION)


@pytest.mark.parametrize(
    ("link", "read"),
    [
        ("{selector: a, inBlock: true}", Link(selector="a", in_block=True)),
        ("{selector: a, inBlock: false}", Link(selector="a")),
        ("{selector: a, inBlock: true, carry: sku}", Link(selector="a", in_block=True, carry=("sku",))),
        ("{selector: a, carry: [top, now]}", Link(selector="a", carry=("top", "now"))),
        ("{url: '/x?%{field.top}'}", Link(selector="", request=RequestTemplate(url="/x?%{field.top}"))),
        ("{url: '%{field.top}'}", Link(selector="", request=RequestTemplate(url="%{field.top}"))),
        ("{selector: a, method: PUT}", Link(selector="a", request=RequestTemplate(method="PUT"))),
        ("{selector: form, form: {}}", Link(selector="form", request=RequestTemplate(has_form=True))),
        ("{selector: form, form: {a: [b, 1], c: 007, d: true, k: '%{env.K}'}}", Link(
            selector="form", request=RequestTemplate(
                has_form=True, form=(("a", "b"), ("a", "1"), ("c", "007"), ("d", "true"), ("k", "%{env.K}"))))),
        ("{url: /x, json: {n: 1, t: '1', l: [~, true, 1.5], k: '%{env.K}'}}", Link(
            selector="", request=RequestTemplate(url="/x", json='{"n":1,"t":"1","l":[null,true,1.5],"k":"%{env.K}"}'))),
        ("{url: /x, json: '%%{a}'}", Link(selector="", request=RequestTemplate(url="/x", json='"%%{a}"'))),
    ],
)  # fmt: skip
def test_links_are_read(tmp_path: Path, link: str, read: Link) -> None:
    assert load_link(tmp_path, link) == read
    assert read.reads_records is (read != Link(selector="a"))


def load_next(folder: Path, next_page: str) -> NextPage:
    data_def = load_definitions(folder, DEFS.replace(", LINK]", f"]\n    next: {next_page}")).data_def("item")
    assert data_def is not None
    assert data_def.next is not None
    return replace(data_def.next, place=NO_POSITION)


def test_next_pages_are_read(tmp_path: Path) -> None:
    assert load_next(tmp_path, "{url: '/x?%{c}&%{c2}', c: b, c2: 'jmespath: d', until: empty}") == NextPage(
        request=RequestTemplate(url="/x?%{c}&%{c2}"), variables=(("c", "b"), ("c2", "jmespath: d")), until_empty=True
    )
    assert load_next(tmp_path, "{method: PUT, json: {a: '%{c}', k: '%{env.K}'}, c: b}") == NextPage(
        request=RequestTemplate(method="PUT", json='{"a":"%{c}","k":"%{env.K}"}'), variables=(("c", "b"),)
    )


def test_a_next_page_may_add(tmp_path: Path) -> None:
    added = NextPage(request=RequestTemplate(), variables=(("offset", "20"), ("p[n]", "1")), until_empty=True)
    for text in ("{offset: 20, 'p[n]': 1}", "{offset: 20, 'p[n]': '1', until: empty}"):
        assert load_next(tmp_path, text) == added
    assert added.steps == {"offset": 20, "p[n]": 1}
    text = DEFS.replace("query: {block: li}", "query: {}").replace(
        "links: [{selector: a, linkGroup: detail, inBlock: true, carry: [sku]}, LINK]", "next: {§offset: 20}"
    )
    check_one(
        tmp_path, text.replace(", detail: {page: {dataDef: page}}", ""), "conflict", "tell whether a page is empty"
    )


def load_locator(folder: Path, locator: str) -> Locator:
    defs = load_definitions(folder, DEFS.replace(", LINK", "").replace("{url: /a}", locator))
    return defs.locator_groups[0].locators[0]


def test_series_and_canonical_are_read(tmp_path: Path) -> None:
    assert load_locator(tmp_path, "{url: '/a?p={1..}', until: empty}").until_empty
    assert not load_locator(tmp_path, "{url: '/a?p={1..5}'}").until_empty
    assert load_locator(tmp_path, "{url: /a, form: {p: '{1..}'}, until: empty}").body == "p={1..}"
    assert load_locator(tmp_path, "{url: 'https://{a,b}.example/?p={1..}', until: empty}").until_empty
    assert load_locator(tmp_path, "{urls: ['/a/{1..}', '/b/{1..}'], until: empty}").until_empty
    text = DEFS.replace(", LINK", "").replace("{items:", "{canonical: true, items:")
    defs = load_definitions(tmp_path, text)
    assert {group.name: group.canonical for group in defs.task_groups} == {"list": True, "detail": False}


scalars = st.sampled_from(
    ["true", "yes", "~", "1", "''", "a", "'%{field.sku}'", "'%{'", "'%{env.A}'", "[a]", "{a: b}", "[~]"]
)
keys = st.sampled_from(["selector", "url", "inBlock", "carry", "form", "json", "method", "attribute", "until", "c"])


@settings(max_examples=150)
@given(st.dictionaries(keys, scalars, max_size=5), st.booleans())
def test_nothing_written_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, written: dict[str, str], in_next: bool
) -> None:
    text = "{" + ", ".join(f"{key}: {value}" for key, value in written.items()) + "}"
    own = DEFS.replace(", LINK]", f"]\n    next: {text}") if in_next else DEFS.replace("LINK", text)
    try:
        load(write_defs(tmp_path_factory.mktemp("fuzz"), own))
    except DefsError as error:
        assert len({(p.line, p.column, p.code) for p in error.problems}) == len(error.problems)
