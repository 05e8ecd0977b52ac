"""Validated scalar types of the def language: texts, selectors, URLs, durations."""

import re
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from engine.defs import url_patterns
from engine.defs.yaml_node import WrittenFloat, WrittenInt
from engine.errors import UsageError, suggest
from engine.extract.human_dates import locale_problem
from engine.extract.selector_syntax import pattern_problem, selector_problem, template_problem
from engine.model import bounds, variables
from engine.settings.values import duration_seconds, parse_share
from engine.urls import is_file_url, join, resolve, split_userinfo, without_credentials


class Term(BaseModel):
    """A mapping of the language: no type conversion, no unknown keys."""

    model_config = ConfigDict(defer_build=True, extra="forbid", strict=True, alias_generator=to_camel)


def optional(description: str, default: Any = None, **limits: Any) -> Any:
    """An optional key, None when omitted. A written null is an error."""
    return Field(default, description=description, **limits)


def none_if_false(value: Any) -> Any:
    """A list that `false` makes empty."""
    return [] if value is False else value


def list_if_text(value: Any) -> Any:
    """A list that may be written as its only item."""
    return [value] if isinstance(value, str) else value


def sitemap_if_text(value: Any) -> Any:
    """A sitemap that may be written as its URL."""
    return value if value is None or isinstance(value, dict | list) else {"url": value}


def custom_error(code: str, message: str) -> PydanticCustomError:
    """A validation error with its code. `message` may contain braces."""
    return PydanticCustomError(code, "{message}", {"message": message})


def _source_text(value: Any) -> Any:
    return value.written if isinstance(value, WrittenInt | WrittenFloat) else value


def _constant_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else _source_text(value)


def _require_text(text: str) -> str:
    if not text.strip():
        raise custom_error("empty-text", "must not be empty")
    return text


def validated_by(code: str, problem: Callable[[str], str | None]) -> AfterValidator:
    """A validator that reports what `problem` finds in a text, with its code."""

    def check(text: str) -> str:
        message = problem(text)
        if message is not None:
            raise custom_error(code, message)
        return text

    return AfterValidator(check)


def _require_separator(text: str) -> str:
    if not text:
        raise custom_error("empty-text", "must not be empty; write the text between two parts, such as a comma")
    return text


def _tuple_of_pair(value: Any) -> Any:
    """A pair of the list `replace`; strict validation of a tuple takes no list."""
    if not isinstance(value, list) or len(value) != 2:
        raise custom_error("wrong-type", "must be a list of pairs of a regular expression and a text: `[['€', '']]`")
    return tuple(value)


def _check_template(pair: tuple[str, str]) -> tuple[str, str]:
    problem = template_problem(*pair)
    if problem is not None:
        raise custom_error("bad-pattern", problem)
    return pair


def _mark_problem(text: str) -> str | None:
    if len(text) == 1 and not text.isalnum() and text not in "+-":
        return None
    return "must be one character that is no digit, letter or sign, such as a comma"


def _value_problem(text: str) -> str | None:
    for name in variables.variable_names(text):
        if name.startswith(variables.SECRET_PREFIXES):
            return f"`%{{{name}}}` is available only in requests, so that secrets never reach the rows"
        if name not in variables.DOCUMENT_VARIABLES and not name.startswith(variables.CARRIED):
            names = [*sorted(variables.DOCUMENT_VARIABLES), f"{variables.CARRIED}NAME"]
            return f"unknown variable `%{{{name}}}`{suggest(name, names)}; write `%%{{` for a literal `%{{`"
    return None


def _request_text_problem(text: str) -> str | None:
    return next(filter(None, map(variables.secret_name_problem, variables.variable_names(text))), None)


def _query_key_problem(text: str) -> str | None:
    if "=" in text or "&" in text:
        return "must be the name of one query key, without `=` and `&`, such as utm_*"
    decoded = unquote(text)
    return None if decoded == text else f"is percent-encoded, and keys are compared decoded; write '{decoded}'"


def has_control_characters(text: str) -> bool:
    """Whether a text contains a line break or a control character other than a tab."""
    return re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text) is not None


def _header_problem(text: str) -> str | None:
    """Why a text cannot be the value of a header; None if it can."""
    return "contains a line break or control character, which headers cannot" if has_control_characters(text) else None


def _brace_problem(text: str) -> str | None:
    try:
        url_patterns.count_alternatives(text)
    except UsageError as error:
        return f"{error.message} {error.remedy}"
    return None


def _url_pattern_problem(text: str) -> str | None:
    try:
        number = url_patterns.count(text)
        if number > url_patterns.MAX_URLS:
            return f"expands to {number:,} URLs; at most {url_patterns.MAX_URLS:,} are allowed"
        first = next(url_patterns.expand(text))
    except UsageError as error:
        return f"{error.message} {error.remedy}"
    if first.startswith("%{"):
        return None
    return url_problem(variables.render(first, lambda _: "1"))


def url_problem(url: str) -> str | None:
    """Why a URL, absolute or relative, cannot be fetched; None if it can."""
    bare = url.strip()
    shown = without_credentials(bare)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", bare)
    if is_file_url(bare):
        return None if resolve(bare, None) is not None else f"'{shown}' is not a URL"
    if scheme and scheme.group(1).lower() not in ("http", "https"):
        if re.match(r"[^:/]+:[0-9]+(/|$)", bare):
            return f"'{shown}' has no scheme; write `http://{shown}`"
        return f"'{scheme.group(1)}:' URLs are not supported; use http: or https:"
    if not bare or join("http://base.example/", bare) is None:
        return f"'{shown}' is not a URL"
    return None


def _url_template_problem(text: str) -> str | None:
    return "cannot have `user:password@`; write `auth` for its host, in `hosts`" if split_userinfo(text)[1] else None


def _list_path_problem(text: str) -> str | None:
    if re.match(r"\s*https?:", text, re.IGNORECASE):
        return "reads a file, and this is a URL; save the list to a file, or name a `sitemap`"
    return None


def _login_url_problem(text: str) -> str | None:
    if "%{" in text:
        return "cannot have variables; write the path or URL of the login page"
    if without_credentials(text) != text:
        return "cannot have `user:password@`; write them into `form`"
    return "must be an http or https URL, or a path of the host" if is_file_url(text.strip()) else url_problem(text)


def _login_check_problem(text: str) -> str | None:
    if text.strip().startswith("jmespath:"):
        return "judges HTML pages, which `jmespath:` does not read; use a CSS selector or `xpath:`"
    return selector_problem(text)


def _line_break_problem(text: str) -> str | None:
    if has_control_characters(text):
        return "contains a line break or control character, which no field of a login form has"
    return None


def _base_url_problem(text: str) -> str | None:
    if not re.match(r"https?://|file:", text, re.IGNORECASE) or "%{" in text:
        return "must be an absolute http:// or https:// URL, without variables"
    return url_problem(text)


def _sender_url_problem(text: str) -> str | None:
    if text.startswith(variables.SECRET_STARTS):
        return None
    if not re.match(r"https?://", text, re.IGNORECASE):
        return "must be an absolute http:// or https:// URL"
    return url_problem(variables.render(text, lambda _: "1"))


def _parse_duration(text: str) -> float:
    try:
        return duration_seconds(text)
    except UsageError as error:
        raise custom_error("bad-duration", f"{error.message}; {error.remedy[:1].lower()}{error.remedy[1:]}") from error


def _parse_percentage(text: str) -> float:
    try:
        return parse_share(text)
    except ValueError:
        raise custom_error("bad-percentage", f"'{text}' is not a percentage; write for example 98%") from None


_TEXT_SCHEMA = WithJsonSchema({"type": ["string", "number"]})
_CONSTANT_SCHEMA = WithJsonSchema({"type": ["string", "number", "boolean"]})

AnyText = Annotated[str, BeforeValidator(_source_text), _TEXT_SCHEMA]
Text = Annotated[AnyText, AfterValidator(_require_text)]
Constant = Annotated[str, BeforeValidator(_constant_text), _CONSTANT_SCHEMA]
Value = Annotated[Constant, validated_by("unknown-variable", _value_problem)]
RequestText = Annotated[Constant, validated_by("unknown-variable", _request_text_problem)]
ConstantList = Annotated[
    list[Constant],
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    WithJsonSchema({"type": ["string", "number", "boolean", "array"]}),
]
FormText = Annotated[RequestText, validated_by("bad-range", _brace_problem)]
FormTextList = Annotated[
    list[FormText],
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    WithJsonSchema({"type": ["string", "number", "boolean", "array"]}),
]
HeaderValue = Annotated[RequestText, validated_by("bad-header", _header_problem)]
LoginText = Annotated[RequestText, validated_by("bad-form", _line_break_problem)]
LoginUrl = Annotated[Text, validated_by("bad-url", _login_url_problem)]
LoginCheck = Annotated[Text, validated_by("bad-selector", _login_check_problem)]
SelectorText = Annotated[Text, validated_by("bad-selector", selector_problem)]
PatternText = Annotated[Text, validated_by("bad-pattern", pattern_problem)]
Separator = Annotated[
    AnyText, AfterValidator(_require_separator), WithJsonSchema({"type": ["string", "number"], "minLength": 1})
]
Replacement = Annotated[tuple[PatternText, AnyText], BeforeValidator(_tuple_of_pair), AfterValidator(_check_template)]
NumberMark = Annotated[
    AnyText,
    validated_by("bad-mark", _mark_problem),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 1, "pattern": r"^[^0-9A-Za-z+-]$"}),
]
QueryKey = Annotated[Text, validated_by("bad-key", _query_key_problem)]
LocaleName = Annotated[Text, validated_by("unknown-locale", locale_problem)]
FilterPattern = Annotated[AnyText, validated_by("bad-pattern", pattern_problem)]
Url = Annotated[
    Text, validated_by("unknown-variable", _request_text_problem), validated_by("bad-url", _url_pattern_problem)
]
ListPath = Annotated[Text, validated_by("bad-path", _list_path_problem)]
UrlTemplate = Annotated[Text, validated_by("bad-url", _url_template_problem)]
BaseUrl = Annotated[Text, validated_by("bad-url", _base_url_problem)]
SenderUrl = Annotated[
    Text, validated_by("unknown-variable", _request_text_problem), validated_by("bad-url", _sender_url_problem)
]
BatchSize = Annotated[int, Field(ge=bounds.SENDER_BATCH.ge, le=bounds.SENDER_BATCH.le)]
Percentage = Annotated[Text, AfterValidator(_parse_percentage)]
"""Its validated value is a share of 1."""
Duration = Annotated[Text, AfterValidator(_parse_duration)]
NonNegativeInteger = Annotated[int, Field(ge=bounds.DEF_COUNT.ge, le=bounds.DEF_COUNT.le)]
PositiveInteger = Annotated[int, Field(ge=bounds.POSITIVE_DEF_COUNT.ge, le=bounds.POSITIVE_DEF_COUNT.le)]
Concurrency = Annotated[int, Field(ge=bounds.CONCURRENCY.ge, le=bounds.CONCURRENCY.le)]
Priority = Annotated[int, Field(ge=bounds.PRIORITY.ge, le=bounds.PRIORITY.le)]
HttpStatus = Annotated[int, Field(ge=100, le=599)]
Delay = Annotated[float, Field(ge=bounds.DELAY.ge, le=bounds.DELAY.le, allow_inf_nan=False)]
