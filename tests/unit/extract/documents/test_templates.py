"""Templates: shadow roots belong to the page for CSS and XPath, the content of others to neither."""

import time

import pytest

from crawl_engine.extract.documents.templates import open_shadow_roots, without_templates
from tests.unit.extract.pages import value

SHADOW = "<x-card><template shadowrootmode=open><b>s</b><template><b>i</b></template></template><i>l</i></x-card>"


@pytest.mark.parametrize(
    ("text", "opened", "bare"),
    [
        ("<template><b>1</b></template>", "<template><b>1</b></template>", "<template></template>"),
        ("<p><TEMPLATE shadowrootmode='closed'>a</TEMPLATE>b", "<p>ab", "<p>ab"),
        ("<template>a<template shadowrootmode=open>b</template></template>c",
         "<template>a<template shadowrootmode=open>b</template></template>c", "<template></template>c"),
        ("<script>'<template>'</script><!-- <template> -->x",) * 3,
        ("</template>a<template>b", "</template>a<template>b", "</template>a<template>"),
        ("<template data-shadowrootmode=open>a</template>", "<template data-shadowrootmode=open>a</template>",
         "<template data-shadowrootmode=open></template>"),
        ("<template shadowrootmode=x>a</template>", "<template shadowrootmode=x>a</template>",
         "<template shadowrootmode=x></template>"),
    ],
)  # fmt: skip
def test_shadow_roots_are_opened_and_other_templates_emptied(text: str, opened: str, bare: str) -> None:
    assert open_shadow_roots(text.encode()).decode() == opened
    assert without_templates(text.encode()).decode() == bare


@pytest.mark.parametrize("selector", ["b", "xpath: //b", "x-card b", "xpath: //x-card//b"])
def test_css_and_xpath_read_the_same(selector: str) -> None:
    assert value(f"{SHADOW}<template><b>t</b></template>", selector=selector, all=True) == ["s"]
    assert value(f"<div>{SHADOW}</div>", block="div", selector=selector, all=True) == ["s"]


@pytest.mark.parametrize(
    "part", ["<template ", "<template>", "<!--", "<script>", "<template shadowrootmode=open>", '<template a="']
)
def test_hostile_markup_takes_linear_time(part: str) -> None:
    started = time.process_time()
    without_templates(part.encode() * 100_000)
    assert time.process_time() - started < 5
