"""CSS selectors on XML trees, by local name. Imported only when a CSS selector meets an XML page."""

from typing import TypeGuard

from cssselect import GenericTranslator, SelectorError
from cssselect.parser import Attrib, CombinedSelector, Element, Relation
from cssselect.xpath import XPathExpr
from lxml import etree

from engine.extract.xpath import evaluate

_LEFT_OF = {
    " ": "ancestor::{}",
    ">": "parent::{}",
    "+": "preceding-sibling::*[1][self::{}]",
    "~": "preceding-sibling::{}",
}
"""What an element has that is right of a combinator: how it leads to the one on the left."""


class XmlCssExpression:
    r"""A CSS selector, compiled for XML: names are case-sensitive, namespaces are ignored.

    A name with a colon (`dc\:creator`) also matches by its prefix, as written in the document. A selector that has no
    meaning for XML (`:hover`, `:has(…)` with a feature that cannot be translated) matches nothing.
    """

    def __init__(self, text: str) -> None:
        self._xpath: etree.XPath | None = None
        try:
            self._xpath = etree.XPath(_LocalNameTranslator().css_to_xpath(text), regexp=False, smart_strings=False)
        except (SelectorError, etree.XPathError, ValueError, RecursionError):
            pass

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
    """Translates type and attribute selectors to tests of the local name.

    What stands left of a combinator becomes a test of the element on its right: XPath would collect the matches below
    each element on the left, and compare them with all that it has, in the square of their number.
    """

    xpathexpr_cls = _LocalNameExpr

    def __init__(self) -> None:
        super().__init__()
        self._is_relative = False
        """Inside of `:has()`, where a combinator leads on from the element that has it."""

    def xpath_relation(self, relation: Relation) -> XPathExpr:
        self._is_relative = True
        try:
            return super().xpath_relation(relation)
        finally:
            self._is_relative = False

    def xpath_combinedselector(self, combined: CombinedSelector) -> XPathExpr:
        if self._is_relative:
            return super().xpath_combinedselector(combined)
        left, right = self.xpath(combined.selector), self.xpath(combined.subselector)
        return right.add_condition(_LEFT_OF[combined.combinator].format(left))

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


def _is_element(node: object) -> TypeGuard[etree._Element]:
    return isinstance(node, etree._Element) and isinstance(node.tag, str)
