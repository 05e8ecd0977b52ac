"""The digest of what a page gives: its text and its fields, and nothing that only its URL or markup tells."""

import pytest
from msgspec.structs import replace

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link
from crawl_engine.node.extraction.page_extraction import apply_data_defs
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.rules.page_digest import EACH, RepeatPart
from tests.unit.extract.pages import CONTEXT, page

DATA_DEF = DataDef(
    name="d", block=".item",
    fields=(
        Field(name="text"), Field(name="id", attribute="id"), Field(name="url", value="%{document.url}"),
        Field(name="sku", value="%{carried.sku}"), Field(name="constant", value="x"),
    ),
    links=(Link(selector="a"),),
)  # fmt: skip
BODY = "<html><head><title>t</title><script>1</script></head><body><h1>Not found</h1><p class=item id=1>nothing</p>"


def read_part(result: PageResult) -> int:
    part = result.parts["repeats"]
    assert isinstance(part, RepeatPart)
    return part.digest


def digest_of(text: str, url: str = "https://shop.example/a/") -> int:
    context = replace(CONTEXT, carried={"sku": url}, rules={"repeats": EACH})
    result = apply_data_defs(page(text, url=url), context, [(RecordExtractor(DATA_DEF), True)], 100)
    return read_part(result)


def test_the_url_the_markup_and_scripts_do_not_count() -> None:
    same = [
        BODY,
        BODY.replace("<h1>", "<h1 class=x>"),
        f"{BODY}<a href=/other></a><form><input type=hidden name=token value=77></form>",
        BODY.replace("<script>1", "<script nonce=9>var page = 2"),
        f"{BODY}<script>var a = 1</script><STYLE>p {{}}</STYLE>",
        f"{BODY}<script>var a = 2</script><STYLE>b {{}}</STYLE>",
        f"{BODY}<script src=/x.js></script><!-- <script>2 -->",
    ]
    digests = {digest_of(text, f"https://shop.example/a/{at}") for at, text in enumerate(same)}
    assert len(digests) == 1
    assert min(digests) > 0


@pytest.mark.parametrize(
    "other",
    [
        BODY.replace("Not found", "Not  found!"),
        BODY.replace("nothing", "something"),
        BODY.replace("id=1", "id=2"),
        f"{BODY}<p class=item id=1></p>",
        f"{BODY}<script>1</script>and a text",
    ],
)
def test_a_text_or_a_field_makes_another_page(other: str) -> None:
    assert digest_of(other) != digest_of(BODY)


@pytest.mark.parametrize("kind", ["json", "xml", "csv"])
def test_other_documents_are_compared_as_a_whole(kind: str) -> None:
    context = replace(CONTEXT, rules={"repeats": EACH})

    def read(text: str) -> int:
        return read_part(apply_data_defs(page(text, kind=kind), context, [], 100))  # type: ignore[arg-type]

    assert read("[1]") == read("[1]")
    assert read("[1]") != read("[2]")
