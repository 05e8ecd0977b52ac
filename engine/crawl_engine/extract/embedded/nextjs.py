"""Reads the data that pages of Next.js carry: `__NEXT_DATA__`, or the flight data of its scripts."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from crawl_engine.extract.documents.json_value import MISSING, parse_json
from crawl_engine.late_regex import late_regex

_PUSH = late_regex(r"__next_f\s*(?:=\s*\[\]\s*\))?\.push\(\s*\[\s*(\d)\s*,\s*(?=\")")
_ROW = late_regex(rb"([0-9a-f]*):([A-Z]|[a-z](?![a-z]))?")
_LENGTH = late_regex(rb"([0-9a-f]{1,8}),")
_WITH_LENGTH = frozenset(b"TAOobUSsLlGgMmV")
"""Tags of rows whose bytes are counted: T is a text, the others are buffers."""
_OTHER_TAGS = frozenset(b"IHDWEPCRrXxN")
"""Tags of rows without data: modules, hints, errors, streams."""
_STRING = json.JSONDecoder(strict=False)


def read_page_data(texts: Sequence[str]) -> tuple[Any, str]:
    """The data of the scripts of a page, and what is wrong with it; `MISSING` if they have none.

    Flight data is one object: the value of each row by its id. Texts that stand in rows of their own are put where
    other rows refer to them.
    """
    chunks = list(_chunks(texts))
    if not chunks:
        data = next((value for text in texts if (value := _whole_data(text)) is not MISSING), MISSING)
        return data, ""
    flight = b"".join(chunks)
    rows, texts_by_id, fault = _read_rows(flight)
    for id_ in rows:
        rows[id_] = _put_texts(rows[id_], texts_by_id)
    return {**rows, **texts_by_id}, fault


def _whole_data(text: str) -> Any:
    value = parse_json(text) if text.lstrip().startswith("{") else MISSING
    return value if isinstance(value, dict) and ("props" in value or "buildId" in value) else MISSING


def _chunks(texts: Sequence[str]) -> Iterator[bytes]:
    """The parts of the flight data, which end anywhere; a body of it alone is its only part."""
    for text in texts:
        for push in _PUSH.finditer(text):
            try:
                part, _ = _STRING.raw_decode(text, push.end())
            except ValueError:  # its script is cut off: the rows show what is missing
                continue
            if push[1] == "1":
                yield part.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
            elif push[1] == "3":
                try:
                    yield base64.b64decode(part)
                except (binascii.Error, ValueError):
                    continue


def _read_rows(flight: bytes) -> tuple[dict[str, Any], dict[str, str], str]:
    """The values of rows by their ids, the texts of others, and the first gap."""
    rows: dict[str, Any] = {}
    texts: dict[str, str] = {}
    fault, at = "", 0
    while at < len(flight):
        start = at
        found = _ROW.match(flight, at)
        tag = found[2] if found is not None else None
        if tag is not None and tag[0] in _WITH_LENGTH:
            counted = _LENGTH.match(flight, found.end()) if found is not None else None
            if counted is not None and found is not None:
                at = counted.end() + int(counted[1], 16)
                if at <= len(flight):
                    if tag == b"T":
                        texts[found[1].decode()] = flight[counted.end() : at].decode("utf-8", "replace")
                    continue
            fault = fault or _describe_gap(start)
            break
        end = flight.find(b"\n", at)
        end = len(flight) if end < 0 else end
        at = end + 1
        if found is None:
            is_blank = not flight[start:end].strip()
            fault = fault or ("" if is_blank else _describe_gap(start))
        elif tag is None or tag[0] not in _OTHER_TAGS:
            value = parse_json(flight[found.start(2) if tag else found.end() : end].decode("utf-8", "replace"))
            if value is MISSING:
                fault = fault or _describe_gap(start)
            else:
                rows[found[1].decode()] = value
    return rows, texts, fault


def _describe_gap(at: int) -> str:
    return f"has a gap: its row at byte {at:,} cannot be read, and a script may be missing"


def _put_texts(value: Any, texts: dict[str, str]) -> Any:
    """The value with texts in place of references to them, and without the marks of the format."""
    holder = [value]
    todo: list[Any] = [holder]
    while todo:
        part = todo.pop()
        for key, item in part.items() if isinstance(part, dict) else enumerate(part):
            if isinstance(item, dict | list):
                todo.append(item)
            elif isinstance(item, str) and item.startswith("$"):
                part[key] = _resolve(item, texts)
    return holder[0]


def _resolve(text: str, texts: dict[str, str]) -> Any:
    if text == "$undefined":
        return None
    if text[1:2] in ("$", "@") and len(text) > 1:
        return text[1:] if text[1] == "$" else text
    if re.fullmatch(r"\$[Dn].+", text):
        return text[2:]  # a date, or a large number
    return texts.get(text[1:], text)
