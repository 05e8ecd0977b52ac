"""The controls of a form: which of them are sent, and with which values, as HTML says."""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

from crawl_engine.extract.links.form_encoding import FormField
from crawl_engine.late_regex import late_regex

if TYPE_CHECKING:
    from lxml.etree import _Element

CONTROL_TAGS = ("input", "select", "textarea", "button")
_SUBMITS = frozenset(("submit", "image"))
_BLANKS = "\t\n\f\r "
_NUMBER = late_regex(r"-?(?:\d+|\d*\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_DATE = r"\d{4,}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,3})?)?"
_VALID: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "number": _NUMBER,
        "color": late_regex("#[0-9a-fA-F]{6}"),
        "date": late_regex(_DATE, re.ASCII),
        "month": late_regex(r"\d{4,}-(?:0[1-9]|1[0-2])", re.ASCII),
        "week": late_regex(r"\d{4,}-W(?:0[1-9]|[1-4]\d|5[0-3])", re.ASCII),
        "time": late_regex(_TIME, re.ASCII),
        "datetime-local": late_regex(rf"{_DATE}[T ]{_TIME}", re.ASCII),
    }
)
"""Values of inputs of these types; others are sent as an empty text, or a black colour."""
_WITH_DIRECTION = frozenset(("hidden", "text", "search", "tel", "url", "email", "password", "submit", "textarea"))
_INPUT_TYPES = _WITH_DIRECTION - {"textarea"} | {"range", "checkbox", "radio", "file", "image", "reset", "button"}


def kind_of(control: "_Element") -> str:
    """The type of a control: that of an input or button, else its tag."""
    tag = str(control.tag)
    written = (control.get("type") or "").lower()
    if tag == "input":
        return written if written in _INPUT_TYPES or written in _VALID else "text"
    if tag == "button":
        return written if written in ("button", "reset") else "submit"
    return tag


def is_submit(control: "_Element") -> bool:
    return kind_of(control) in _SUBMITS


def is_disabled(control: "_Element") -> bool:
    """Whether it, or a fieldset around it, is disabled; the first legend of such a fieldset is not."""
    if control.get("disabled") is not None:
        return True
    child = control
    for parent in control.iterancestors():
        if parent.tag == "fieldset" and parent.get("disabled") is not None and parent.find("legend") is not child:
            return True
        child = parent
    return False


def read_fields(control: "_Element", charset: str) -> Iterator[FormField]:
    """What a control that is enabled, and if a radio button or checkbox is checked, sends."""
    kind, name = kind_of(control), control.get("name") or ""
    if kind == "image":
        prefix = f"{name}." if name else ""
        yield from (FormField(f"{prefix}x", "0"), FormField(f"{prefix}y", "0"))
        return
    if not name or kind in ("button", "reset"):
        return
    if kind == "select":
        yield from (FormField(name, value) for value in _selected_values(control))
        return
    if kind == "hidden" and name.lower() == "_charset_":
        value = charset
    elif kind == "textarea":
        text = "".join(str(text) for text in control.itertext())
        value = re.sub("\r\n?", "\n", text).removeprefix("\n")
    elif kind == "file":
        value = ""
    else:
        value = _read_value(control, kind)
    yield FormField(name, value, is_file=kind == "file")
    direction = control.get("dirname")
    if direction and kind in _WITH_DIRECTION:
        yield FormField(direction, _direction_of(control, value))


def _read_value(control: "_Element", kind: str) -> str:
    written = control.get("value")
    if written is None and kind in ("checkbox", "radio"):
        return "on"
    value = written or ""
    if kind == "range":
        return _in_range(control, value)
    if kind in _VALID:
        if _VALID[kind].fullmatch(value):
            return value.lower() if kind == "color" else value
        return "#000000" if kind == "color" else ""
    if control.tag == "input" and kind in ("text", "search", "tel", "password", "url", "email"):
        value = re.sub("[\r\n]", "", value)
    return value.strip(_BLANKS) if kind in ("url", "email") else value


def _in_range(control: "_Element", value: str) -> str:
    """The value of a slider: within its bounds, at one of its steps; by default the middle."""

    def read(text: str | None, default: Decimal) -> Decimal:
        if text is None or not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
            return default
        return Decimal(repr(float(text)))

    low = read(control.get("min"), Decimal(0))
    high = max(low, read(control.get("max"), Decimal(100)))
    number = min(max(read(value, (low + high) / 2), low), high)
    step = read(control.get("step"), Decimal(1))
    if (control.get("step") or "").lower() != "any" and step > 0:
        base = low if control.get("min") is not None else read(control.get("value"), Decimal(0))
        number = base + ((number - base) / step).to_integral_value(ROUND_HALF_UP) * step
        if number > high:
            number -= step
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _selected_values(select: "_Element") -> list[str]:
    options = [*select.iter("option")]
    chosen = [option for option in options if option.get("selected") is not None]
    if select.get("multiple") is None:
        if not chosen and _display_size(select) == 1:
            chosen = [option for option in options if not _is_option_disabled(option)][:1]
        chosen = chosen[-1:]
    return [_option_value(option) for option in chosen if not _is_option_disabled(option)]


def _display_size(select: "_Element") -> int:
    match = re.match(r"[\t\n\f\r ]*\+?(\d{1,9})", select.get("size") or "", re.ASCII)
    return int(match[1]) or 1 if match else 1


def _is_option_disabled(option: "_Element") -> bool:
    if option.get("disabled") is not None:
        return True
    group = next(option.iterancestors("optgroup"), None)
    return group is not None and group.get("disabled") is not None


def _option_value(option: "_Element") -> str:
    value = option.get("value")
    if value is not None:
        return value
    return re.sub(f"[{_BLANKS}]+", " ", "".join(map(str, option.itertext()))).strip(" ")


def _direction_of(control: "_Element", value: str) -> str:
    """The direction of writing that `dirname` sends."""
    for element in (control, *control.iterancestors()):
        written = (element.get("dir") or "").lower()
        if written in ("ltr", "rtl"):
            return written
        if written == "auto" and element is control:
            strong = next((d for d in map(unicodedata.bidirectional, value) if d in ("L", "R", "AL")), "L")
            return "ltr" if strong == "L" else "rtl"
    return "ltr"
