"""No bytes on disk make the loader fail in any way but its own."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.defs.loader import load
from engine.errors import DefsError
from engine.model.definition import Definitions

GOOD = (Path(__file__).resolve().parents[2] / "data" / "shop" / "shop.yml").read_bytes()
ODD = [
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
ODD += [
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


def loads_or_tells(raw: bytes) -> None:
    with TemporaryDirectory() as folder:
        defs = Path(folder, "defs")
        defs.mkdir()
        (defs / "a.yml").write_bytes(raw)
        try:
            made = load(defs).definitions
        except DefsError as error:
            assert error.problems
            for problem in error.problems:
                assert problem.file in ("defs/a.yml", "defs")
                assert problem.line >= 1
                assert problem.column >= 1
                assert problem.message.strip()
        else:
            assert Definitions.from_json(made.to_json()) == made


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf\xef\xbb\xbfa: 1")
@example(b"a: &b {<<: *b}")
@example(b"dataDefs: {d: {fields: {f: {selector: 'jmespath: a', default: {}}}}}")
def test_any_bytes(raw: bytes) -> None:
    loads_or_tells(raw)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    loads_or_tells(text.encode("utf-8", "surrogatepass"))


@given(st.integers(0, len(GOOD)))
def test_every_truncation(end: int) -> None:
    loads_or_tells(GOOD[:end])


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), st.sampled_from(ODD)), min_size=1, max_size=4))
def test_a_good_file_with_odd_pieces_in_it(edits: list[tuple[int, int, bytes]]) -> None:
    raw = GOOD
    for at, length, piece in edits:
        raw = raw[:at] + piece + raw[at + length :]
    loads_or_tells(raw)


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
def test_the_languages_own_keys_in_any_shape(parts: dict[str, str]) -> None:
    loads_or_tells("".join(f"{key}: {value}\n" for key, value in parts.items()).encode())
