"""Declares the keys of the defs on structs: meaning, written form, values.

A struct is the declaration of its mapping: the name, type and default of a key are those of the field. `defs`
reads, checks and describes the defs by these declarations alone.
"""

from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

from crawl_engine.model import bounds

Delay = Annotated[float, bounds.DELAY]
BatchSize = Annotated[int, bounds.SENDER_BATCH]
NonNegativeInteger = Annotated[int, bounds.DEF_COUNT]
PositiveInteger = Annotated[int, bounds.POSITIVE_DEF_COUNT]
Concurrency = Annotated[int, bounds.CONCURRENCY]
Priority = Annotated[int, bounds.PRIORITY]
Workers = Annotated[int, Meta(ge=1, le=64)]
Attempts = Annotated[int, bounds.ATTEMPTS]
HttpStatus = Annotated[int, Meta(ge=100, le=599)]


class DefKey(Struct, frozen=True):
    """A key of the defs."""

    doc: str
    """A sentence for users."""
    name: str = ""
    """The written name; empty: the field's name in camelCase."""
    examples: tuple[Any, ...] = ()
    """Offered by editors."""


class Shape(Enum):
    """How a field is written if its type does not say so."""

    BY_NAME = "a mapping of names; each item knows its own"
    OTHER_KEYS = "all keys of the mapping that no other field declares"
    INLINE = "the keys of the struct, in the mapping that holds it"
    ITEM_OR_LIST = "a list, or its only item"
    LIST_OR_FALSE = "a list, or false for the empty one"
    MAPPING_OR_URL = "a mapping, or the value of its key `url`"
    MAPPING_OR_FILE = "a mapping, or the value of its key `file`"
    MAPPING_OR_KEY = "a mapping, or its only key, whose value is then an empty mapping"
    MAPPING_OR_FALSE = "a mapping, or false for none"
    MAPPING_OR_MIN = "a mapping, or the value of its key `min`"


class Wrapper(Struct, frozen=True):
    """How Scoopi writes the items of a list: each is a mapping with this key, `key: {…}`."""

    key: str
    example: str
    """Of the mapping under the key, for messages."""


class Kind(Struct, frozen=True):
    """A kind of value; `crawl_engine.defs.language.kinds` has the checks of each name."""

    name: str


AnyText = Annotated[str, Kind("any text")]
Text = Annotated[str, Kind("text")]
TypeOfField = Annotated[str, Kind("type of field")]
Character = Annotated[str, Kind("character")]
Constant = Annotated[str, Kind("constant")]
Constants = Annotated[tuple[Constant, ...], Shape.ITEM_OR_LIST]
Value = Annotated[str, Kind("value")]
RequestText = Annotated[str, Kind("request text")]
FormText = Annotated[str, Kind("form text")]
FormTexts = Annotated[tuple[FormText, ...], Shape.ITEM_OR_LIST]
QueryHeader = Annotated[str, Kind("query header")]
HeaderValue = Annotated[str, Kind("header value")]
LoginText = Annotated[str, Kind("login text")]
LoginUrl = Annotated[str, Kind("login URL")]
LoginCheck = Annotated[str, Kind("login check")]
SelectorText = Annotated[str, Kind("selector")]
ClickTarget = Annotated[str, Kind("click target")]
SelectorOrStep = Annotated[str, Kind("selector or step")]
SourceText = Annotated[str, Kind("text source")]
PatternText = Annotated[str, Kind("pattern")]
Index = Annotated[int, Kind("index")]
FilterPattern = Annotated[str, Kind("filter pattern")]
Replacement = Annotated[tuple[PatternText, AnyText], Kind("replacement")]
Separator = Annotated[str, Kind("separator")]
NumberMark = Annotated[str, Kind("number mark")]
QueryKey = Annotated[str, Kind("query key")]
LocaleName = Annotated[str, Kind("locale")]
Url = Annotated[str, Kind("URL")]
UrlTemplate = Annotated[str, Kind("URL template")]
BaseUrl = Annotated[str, Kind("base URL")]
SenderUrl = Annotated[str, Kind("sender URL")]
ProxyUrl = Annotated[str, Kind("proxy URL")]
OutputPath = Annotated[str, Kind("output path")]
ListPath = Annotated[str, Kind("list path")]
Token = Annotated[str, Kind("token")]
PageAddress = Annotated[str, Kind("page address")]
Moment = Annotated[float, Kind("moment")]
"""Its value is in seconds since 1970."""
UserAndPassword = Annotated[str, Kind("user and password")]
DigestUser = Annotated[str, Kind("digest user")]
StepsOfTask = Annotated[Any, Kind("steps")]
Hours = Annotated[str, Kind("hours")]
Seconds = Annotated[float, Kind("seconds")]
Duration = Annotated[float, Kind("duration")]
Percentage = Annotated[float, Kind("percentage")]
"""Its value is a share of 1."""


class TypeHint(Struct, frozen=True):
    """A type without its marks and without None."""

    base: Any
    marks: tuple[Any, ...] = ()

    def mark(self, kind: type) -> Any:
        """The mark of that class, or None."""
        return next((mark for mark in self.marks if isinstance(mark, kind)), None)


class Declared(Struct, frozen=True):
    """A key as a struct declares it."""

    field: str
    key: DefKey
    hint: TypeHint
    default: Any
    """NODEFAULT: the key is required."""


class Declarations(Struct, frozen=True):
    """The keys of a mapping: those with a name, and the fields that hold other keys."""

    keys: dict[str, Declared]
    inline: tuple[tuple[str, type[Struct]], ...]
    """Fields whose keys stand in the same mapping, with their structs."""
    others: Declared | None


def strip_hint(hint: Any) -> TypeHint:
    """The type of a hint, and its marks from the outside in."""
    marks: list[Any] = []
    while True:
        if get_origin(hint) is Annotated:
            marks += get_args(hint)[1:]
            hint = get_args(hint)[0]
        elif get_origin(hint) in (Union, UnionType):
            hint = next(part for part in get_args(hint) if part is not NoneType)
        else:
            return TypeHint(hint, tuple(marks))


@cache
def declarations_of(struct: type[Struct]) -> Declarations:
    """The keys that a struct declares, in its order."""
    hints = get_type_hints(struct, include_extras=True)
    keys, inline, others = {}, [], None
    for field in fields(struct):
        hint = strip_hint(hints[field.name])
        key, shape = hint.mark(DefKey), hint.mark(Shape)
        default = NODEFAULT if field.required else None if field.default is NODEFAULT else field.default
        if shape is Shape.INLINE:
            inline.append((field.name, hint.base))
        elif shape is Shape.OTHER_KEYS:
            others = Declared(field.name, DefKey(""), hint, default)
        elif key is not None:
            first, *words = field.name.rstrip("_").split("_")
            name = key.name or first + "".join(word.capitalize() for word in words)
            keys[name] = Declared(field.name, key, hint, default)
    return Declarations(keys, tuple(inline), others)
