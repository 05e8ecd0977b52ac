"""Selectors that run out of memory: an error, never "no match"."""

import subprocess
import sys

import pytest

SEARCH = """
import resource
from crawl_engine.extract.{module} import {expression}
from crawl_engine.extract.documents.xpath import parse_markup

root = parse_markup(b"<r>" + b"<b>x</b>" * 300_000 + b"<i>needle</i></r>", xml=True)
expression = {expression}({text!r})
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {room}, used + {room}))
try:
    print(len(expression.find(root, block=False)))
except MemoryError:
    print("out of memory")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
@pytest.mark.parametrize(
    ("module", "expression", "text"),
    [
        ("documents.xpath", "XPathExpression", "//i[contains(concat(., //b[last()]), 'needle')]"),
        ("documents.xpath", "XPathExpression", "//b[string-length(.) > 1] | //i"),
        ("select.xml_css", "XmlCssExpression", "b + i, i"),
    ],
)
def test_a_selector_that_lacks_memory_fails(module: str, expression: str, text: str) -> None:
    answers = []
    for room in (1_000_000, 2_000_000, 4_000_000, 200_000_000):
        code = SEARCH.format(module=module, expression=expression, text=text, room=room)
        answers.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert answers[0] == "out of memory\n"
    assert answers[-1] == "1\n"
    assert set(answers) == {"out of memory\n", "1\n"}
