"""Any bytes on disk load or raise DefsError."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Definitions

GOOD = (Path(__file__).resolve().parents[2] / "data" / "shop" / "shop.yml").read_bytes()
FRAGMENTS = [
    b": ",
    b"- ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"&a ",
    b"*a",
    b"!!x ",
    b"\t",
    b"\n",
    b"'",
    b'"',
    b"~",
    b"1e9",
    b"\xff",
    b"%{",
]
FRAGMENTS += [
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\x00",
    b"\\",
    b"xpath:",
    b"<<: ",
    b"---\n",
    b"? ",
    b"| ",
    b"#",
    b"true",
    b"-1",
    b"[[]]",
]


def load_or_report(raw: bytes) -> None:
    with TemporaryDirectory() as folder:
        defs = Path(folder, "defs")
        defs.mkdir()
        (defs / "a.yml").write_bytes(raw)
        try:
            definitions = load(defs).definitions
        except DefsError as error:
            assert error.problems
            for problem in error.problems:
                assert problem.file in ("defs/a.yml", "defs")
                assert problem.line >= 1
                assert problem.column >= 1
                assert problem.message.strip()
        else:
            assert Definitions.from_json(definitions.to_json()) == definitions


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf\xef\xbb\xbfa: 1")
@example(b"a: &b {<<: *b}")
@example(b"dataDefs: {d: {fields: {f: {selector: 'jmespath: a', default: {}}}}}")
def test_any_bytes(raw: bytes) -> None:
    load_or_report(raw)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    load_or_report(text.encode("utf-8", "surrogatepass"))


@given(st.integers(0, len(GOOD)))
def test_every_truncation(end: int) -> None:
    load_or_report(GOOD[:end])


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), st.sampled_from(FRAGMENTS)), min_size=1, max_size=4
    )
)
def test_a_valid_file_with_random_insertions(edits: list[tuple[int, int, bytes]]) -> None:
    raw = GOOD
    for at, length, piece in edits:
        raw = raw[:at] + piece + raw[at + length :]
    load_or_report(raw)


GROUP_KEYS = [
    "locatorGroups",
    "taskGroups",
    "hosts",
    "baseUrl",
    "locators",
    "url",
    "urls",
    "form",
    "json",
    "body",
    "live",
]
DATA_KEYS = ["dataDefs", "dataDef", "query", "block", "fields", "selector", "value", "default", "type", "all", "links"]
OTHER_KEYS = ["steps", "appenders", "headers", "linkGroup", "filters", "key", "items", "delay", "a.example"]
KEYS = st.sampled_from([*GROUP_KEYS, *DATA_KEYS, *OTHER_KEYS])
VALUES = st.recursive(
    st.sampled_from(
        ["~", "1", "-1", "1.5", "true", "a", "''", "csv", "'['", "'%{env.A}'", "P1D", "'{1..9}'", "http://a/"]
    ),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(KEYS, inner, max_size=3).map(
            lambda d: "{" + ", ".join(f"{k}: {v}" for k, v in d.items()) + "}"
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_known_keys_with_any_value(parts: dict[str, str]) -> None:
    load_or_report("".join(f"{key}: {value}\n" for key, value in parts.items()).encode())
