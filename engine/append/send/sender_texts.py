"""Puts secrets and `%{env.NAME}` into the URL and the headers of a sender, just before they are sent."""

import os
from collections.abc import Callable, Mapping
from urllib.parse import quote

from engine.append.loop.turns import OutputFailed
from engine.model.secret import open_placeholders
from engine.model.variables import UnusableVariable, render_environment


class SenderTexts:
    """The URL and the headers of one appender, as the defs keep them."""

    def __init__(self, url: str, headers: Mapping[str, str], secrets: Mapping[str, str]) -> None:
        """`secrets` by id; the supervisor may add some later."""
        self._url = url
        self._headers = headers
        self._secrets = secrets

    def open_url(self) -> str:
        """The URL to send to. Raises OutputFailed."""
        return self._open(self._url, lambda value: quote(value, safe=""))

    def open_headers(self) -> dict[str, str]:
        """The headers to send. Raises OutputFailed."""
        return {name: self._open(value) for name, value in self._headers.items()}

    def _open(self, text: str, encode: Callable[[str], str] | None = None) -> str:
        try:
            rendered = render_environment(text, os.environ, encode)
        except UnusableVariable as error:
            raise OutputFailed(str(error)) from None
        return open_placeholders(rendered, self._lookup_secret)

    def _lookup_secret(self, id_: str) -> str:
        if id_ not in self._secrets:
            raise OutputFailed("a header or password that it needs has not come from the supervisor yet")
        return self._secrets[id_]
