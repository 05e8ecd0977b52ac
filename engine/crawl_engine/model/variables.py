"""Finds and substitutes `%{name}` variables in texts of the defs. `%%{` is a literal `%{`."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from crawl_engine.late_regex import late_regex

_TOKEN = late_regex(r"%%\{|%\{([^{}]*)\}")

DOCUMENT_VARIABLES = frozenset(
    {
        "document.url",
        "document.fetchedAt",
        "document.status",
        "locator.name",
        "locator.group",
        "locator.url",
        "depth",
        "run.id",
        "run.time",
    }
)
"""Variables of a field's `value`; those of secrets are only for requests."""
SECRET_PREFIXES = ("env.", "file.")
"""Prefixes of variables with a secret: an environment variable, or the text of a file."""
SECRET_STARTS = ("%{env.", "%{file.")
_ENCODED_SECRET = late_regex(r"%(?:%7B|\{)((?:env|file)\.[^{}?#\\]*?)(?:%7D|\})", re.IGNORECASE)
_FILE_NAME = late_regex(r"file\.[^{}%?#\\\x00-\x1f]+")
_SECRET_NAME = late_regex(rf"env\.[A-Za-z_][A-Za-z0-9_]*|{_FILE_NAME.pattern}")
_AUTHORITY = late_regex(r"(\s*(?:https?:)?[/\\]{2,})((?:[^/\\?#%]|%\{[^{}]*\}|%(?!\{[^{}]*\}))*)", re.IGNORECASE)
_HOST = late_regex(r"\s*(?:https?:)?[/\\]{2,}[^/\\?#]*", re.IGNORECASE)
_NO_HOST = late_regex(r"[/\\?#@\s]")
_SECRETS = late_regex(r"%\{(?:env|file)\.[^{}]*\}|\b(?:basic|bearer|digest|token)(?=\s)", re.IGNORECASE)
SEED = "seed."
"""Prefix of variables with values of the line of a CSV file from which a job was made."""
FILE = "download."
"""Prefix of variables of a downloaded file, in the names of the output type `files`."""
SITEMAP = "sitemap."
"""Prefix of variables with what a sitemap or feed says of the page that its entry names."""
NUMBER_SEED = f"number {SEED}"
"""Of a variable in a JSON body that stands outside of quotation marks."""
FIELD = "field."
"""Prefix of variables with values of the record."""
CARRIED = "carried."
"""Prefix of variables with values that the linking page carries to this one."""


HEADER = "document.header."
"""Prefix of variables with the headers of the answer."""
_HEADER_NAME = late_regex(rf"{re.escape(HEADER)}[A-Za-z0-9_-]+")


def is_page_variable(name: str) -> bool:
    """Whether a page, or the way to it, gives the variable."""
    return name in DOCUMENT_VARIABLES or name.startswith((CARRIED, SEED, SITEMAP)) or bool(_HEADER_NAME.fullmatch(name))


def secret_name_problem(name: str) -> str | None:
    """Why a request cannot hold a variable of this name; None if it can."""
    if name.startswith(SEED):
        return None  # where it can stand is checked with its locators
    if name.startswith("file.") and not _FILE_NAME.fullmatch(name):
        return f"`%{{{name}}}`: the path of a secret file may not hold the characters %{{}}?#\\"
    if _SECRET_NAME.fullmatch(name):
        return None
    return f"`%{{{name}}}` is not available here; requests support only `%{{env.NAME}}` and `%{{file.PATH}}`"


def fill(
    text: str, token: re.Pattern[str], look_up: Callable[[str], str], encode: Callable[[str], str] | None = None
) -> str:
    """The text with each match of `token` that has a group replaced by the value of that name.

    `encode`: how a value is written; else it is written so that it is not searched for variables.
    """

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        value = look_up(match[1])
        return value.replace("%{", "%%{") if encode is None else encode(value)

    return token.sub(replace, text)


def fill_url(url: str, token: re.Pattern[str], look_up: Callable[[str], str], safe: str) -> str:
    """As `fill`, with values percent-encoded but for `safe`; in the host, at the start and alone they are not."""
    if token.fullmatch(url.strip()):
        return fill(url, token, look_up)
    host = _HOST.match(token.sub(lambda match: "_" * len(match[0]), url))
    end = host.end() if host is not None else url.find("}") + 1 if url.lstrip().startswith("%{") else 0
    return fill(url[:end], token, look_up) + fill(url[end:], token, look_up, lambda value: quote(value, safe=safe))


class UnusableVariable(LookupError):
    """The secret that a variable names cannot be read."""


def variable_names(text: str) -> tuple[str, ...]:
    """The names of the variables in a text, in order."""
    return tuple(m.group(1) for m in _TOKEN.finditer(text) if m.group(1) is not None)


def render(text: str, lookup: Callable[[str], str | None]) -> str:
    """The text with each variable replaced; a variable for which `lookup` returns None stays as written."""
    if "%{" not in text:
        return text

    def substitute(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "%{"
        value = lookup(name)
        return match.group(0) if value is None else value

    return _TOKEN.sub(substitute, text)


def require_secrets(text: str, environment: Mapping[str, str]) -> None:
    """Raise UnusableVariable for the first secret of the text that cannot be read."""
    for name in variable_names(text):
        if name.startswith(SECRET_PREFIXES):
            read_secret(name, environment)


def render_authority(url: str, environment: Mapping[str, str]) -> str:
    """A URL as written, with the secrets of its host and port resolved. Raises UnusableVariable.

    Other secrets stay variables. The value must be only a part of the host, since it will be stored.
    """
    match = _AUTHORITY.match(url)
    if match is None or "%{" not in match[2]:
        return url
    host = render_secrets(match[2], environment)
    if _NO_HOST.search(host):
        raise UnusableVariable(f"the value of {match[2]} is not a host")
    return f"{match[1]}{host}{url[match.end() :]}"


def has_secrets(text: str) -> bool:
    """Whether a text has a variable with a secret."""
    return "%{" in text and any(name.startswith(SECRET_PREFIXES) for name in variable_names(text))


def holds_literal(text: str) -> bool:
    """Whether the value of a header or a password holds more than variables, and so may itself be a secret."""
    return bool(_SECRETS.sub("", text).strip())


def decode_variables(url_part: str) -> str:
    """A part of a normalized URL with its secret variables as written: normalization encodes their braces."""
    if "%%7" not in url_part and "%{" not in url_part:
        return url_part
    return _ENCODED_SECRET.sub(lambda match: f"%{{{unquote(match[1])}}}", url_part)


def read_secret(name: str, environment: Mapping[str, str]) -> str:
    """The value of `env.NAME`, or the trimmed text of the file of `file.PATH`. Raises UnusableVariable."""
    kind, _, rest = name.partition(".")
    if kind == "file":
        path = Path(rest)
        try:
            if not path.exists() or path.is_file() or path.is_dir():
                return path.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UnusableVariable(f"%{{{name}}}: the file cannot be read: {reason}") from None
        raise UnusableVariable(f"%{{{name}}}: this is not a regular file")  # reading it might never end
    if rest not in environment:
        raise UnusableVariable(f"environment variable {rest} is not set")
    value = environment[rest]
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise UnusableVariable(f"environment variable {rest} is not UTF-8")
    return value


def render_secrets(text: str, environment: Mapping[str, str], encode: Callable[[str], str] | None = None) -> str:
    """The text with each secret in the place of its variable, encoded for that place. Raises UnusableVariable."""

    def look_up(name: str) -> str | None:
        if not name.startswith(SECRET_PREFIXES):
            return None
        value = read_secret(name, environment)
        return value if encode is None else encode(value)

    return render(text, look_up)
