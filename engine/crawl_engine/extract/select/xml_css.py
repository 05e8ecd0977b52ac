"""CSS selectors on XML trees, by local name. Imported only when a CSS selector meets an XML page."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeGuard

from cssselect import GenericTranslator, SelectorError
from cssselect import parse as parse_compound
from cssselect.parser import Attrib, Element
from cssselect.xpath import XPathExpr
from lxml import etree

from crawl_engine.extract.documents.xpath import evaluate
from crawl_engine.extract.select.css import CompoundSelector, LexborError, SelectorList, read_selector

_BEFORE, _AFTER = "preceding-sibling::*[1]", "following-sibling::*[1]"


class XmlCssExpression:
    r"""A CSS selector, compiled for XML: names are case-sensitive, namespaces are ignored.

    A name with a colon (`dc\:creator`) also matches by its prefix, as written in the document. A selector that has no
    meaning for XML (`:hover`, `:has(…)` with a feature that cannot be translated) matches nothing.
    """

    def __init__(self, text: str) -> None:
        self._xpath: etree.XPath | None = None
        with suppress(SelectorError, etree.XPathError, ValueError, LexborError, RecursionError):
            path = " | ".join([f"descendant-or-self::{test}" for test in _tests_of(read_selector(text)[1])])
            self._xpath = etree.XPath(path, regexp=False, smart_strings=False)

    def find(self, root: etree._Element, *, block: bool) -> list[etree._Element]:
        """All matches in document order; for a block, which is the root of its own tree, only its descendants.

        Raises MemoryError.
        """
        if self._xpath is None:
            return []
        result = evaluate(self._xpath, root)
        nodes = result if isinstance(result, list) else []
        return [node for node in nodes if _is_element(node) and not (block and node is root)]


class _LocalNameExpr(XPathExpr):
    def add_name_test(self) -> None:
        if self.element != "*":
            self.add_condition(f"self::{self.element}")
            self.element = "*"


class _LocalNameTranslator(GenericTranslator):
    """Translates type and attribute selectors to tests of the local name."""

    xpathexpr_cls = _LocalNameExpr

    def xpath_first_child_pseudo(self, xpath: XPathExpr) -> XPathExpr:
        return xpath.add_condition(f"not({_BEFORE})")  # the library counts all siblings

    def xpath_last_child_pseudo(self, xpath: XPathExpr) -> XPathExpr:
        return xpath.add_condition(f"not({_AFTER})")

    def xpath_only_child_pseudo(self, xpath: XPathExpr) -> XPathExpr:
        return xpath.add_condition(f"not({_BEFORE}) and not({_AFTER})")

    def xpath_element(self, selector: Element) -> XPathExpr:
        name = selector.element
        # A node test with a predicate: `:nth-of-type` and sibling combinators put it after an axis.
        return self.xpathexpr_cls(element=f"*[{self._name_test(name)}]" if name else "*")

    def xpath_attrib(self, selector: Attrib) -> XPathExpr:
        operator = self.attribute_operator_mapping[selector.operator]
        method = getattr(self, f"xpath_attrib_{operator}")
        attribute = f"@*[{self._name_test(selector.attrib)}]"
        value = None if selector.value is None else selector.value.value
        if selector.flag == "i" and value:
            upper, lower = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
            attribute, value = f"translate({attribute}, '{upper}', '{lower}')", value.lower()
        xpath = method(self.xpath(selector.selector), attribute, value)
        assert isinstance(xpath, XPathExpr)
        return xpath

    def _name_test(self, name: str) -> str:
        function = "name()" if ":" in name else "local-name()"
        return f"{function} = {self.xpath_literal(name)}"


def _tests_of(selector_list: SelectorList) -> list[str]:
    """An XPath step for each alternative.

    The part left of a combinator becomes a test of the element on its right: a path from left to right would take the
    square of the matches. If a combinator may lead to several elements, the nearest is tested: the others have no more
    ancestors or siblings.
    """
    return [
        _test([(_test_of_compound(step), step.combinator) for step in reversed(steps)])
        for steps in selector_list.alternatives
    ]


def _test_of_compound(compound: CompoundSelector) -> str:
    """An XPath step for one compound selector. Raises SelectorError."""
    text = "".join([part for part in compound.parts if isinstance(part, str)])
    test = str(_TRANSLATOR.xpath(parse_compound(text)[0].parsed_tree))
    for part in compound.parts:
        if not isinstance(part, str):
            matches = " or ".join([f"self::{inner}" for inner in _tests_of(part.selector_list)])
            test += f"[not({matches})]" if part.head.lower() == ":not(" else f"[{matches}]"
    return test


_TRANSLATOR = _LocalNameTranslator()

_Steps = Sequence[tuple[str, str]]
"""Compound selectors from right to left, as XPath steps, each with the combinator on its left."""


def _split(steps: _Steps, combinators: str) -> list[_Steps]:
    """The steps in groups that end at these combinators."""
    groups: list[list[tuple[str, str]]] = [[]]
    for test, combinator in steps:
        ends = combinator != "" and combinator in combinators
        groups[-1].append((test, "" if ends else combinator))
        if ends:
            groups.append([])
    return [*groups]


def _path_to_siblings(steps: _Steps) -> str:
    """The path from the element of the first step to its siblings on the left; empty: no siblings needed."""
    path = []
    for number, chain in enumerate(_split(_split(steps, "> ")[0], "~")):
        if number:
            path.append(f"preceding-sibling::{_test(chain)}[1]")
        path += [_BEFORE if number else f"{_BEFORE}/self::{test}" for test, _ in chain[1:]]
    return "/".join(path)


def _path_to_ancestors(steps: _Steps) -> str:
    """The path from the element of the first step to its ancestors on the left; empty: no ancestors needed."""
    path = []
    for number, unit in enumerate(_split(steps, " ")):
        parents = _split(unit, ">")
        if number:
            path.append(f"ancestor::{_test(unit)}[1]")
        path += ["parent::*" if number else f"parent::{_test(level)}" for level in parents[1:]]
    return "/".join(path)


def _test(steps: _Steps) -> str:
    """An XPath step for the element of the first of these steps, with the steps on its left as predicates."""
    paths = (_path_to_siblings(steps), _path_to_ancestors(steps))
    return steps[0][0] + "".join([f"[{path}]" for path in paths if path])


def _is_element(node: object) -> TypeGuard[etree._Element]:
    return isinstance(node, etree._Element) and isinstance(node.tag, str)
