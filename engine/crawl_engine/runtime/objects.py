"""Reads and writes objects of buckets (S3, Google, Azure), with the credentials of the environment."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from crawl_engine.errors import StorageError
from crawl_engine.late_regex import late_regex
from crawl_engine.runtime.extras import require_extra

REQUEST_SECONDS, CONNECT_SECONDS, RETRY_SECONDS = 60, 5, 10
"""Limits of one request, of a connection, and of the retries that the library makes; further ones are the caller's."""
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}  # fmt: skip
_METADATA_ADDRESS = "169.254.169.254"
"""Where the library asks a cloud's machine for credentials, if the environment has none."""
_ORIGIN = late_regex(r"Error performing [A-Z]+ (https?://[^/\s]+)")
_MAX_REASON = 300


class ObjectStoreFails(StorageError):
    """A store does not answer, or answers with an error: the next call may succeed."""


class Bucket:
    """The bucket of a URL. `path`: what follows its name in the URL. Methods raise StorageError."""

    def __init__(self, url: str, request_seconds: int = REQUEST_SECONDS) -> None:
        require_extra("objectstore", url)
        self._url = url
        self._scheme, _, rest = url.partition("://")
        self._name, _, self.path = rest.partition("/")
        self._limits = request_seconds, min(request_seconds, RETRY_SECONDS)
        self._store: Any = None

    def head(self, key: str) -> Any:
        """What is known of an object; None if it does not exist or must not be read."""
        import obstore  # few runs have it
        from obstore.exceptions import PermissionDeniedError

        try:
            return self._call(obstore.head, key)
        except (FileNotFoundError, PermissionDeniedError):  # a key may be allowed to write alone
            return None

    def put(self, key: str, content: bytes | Path) -> Any:
        """Put an object; returns what is known of it."""
        import obstore

        return self._change(obstore.put, key, content)

    def get(self, key: str) -> bytes | None:
        """The content of an object; None if it does not exist."""
        from obstore.exceptions import PermissionDeniedError

        try:
            content: bytes = self._call(_read, key)
        except FileNotFoundError:
            return None
        except PermissionDeniedError as error:
            raise StorageError(*self._describe(error)) from None
        return content

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""
        import obstore

        self._change(obstore.delete, keys)

    def _change(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        from obstore.exceptions import PermissionDeniedError

        try:
            return self._call(operation, *arguments)
        except FileNotFoundError:
            raise StorageError(f"{self._url}: the bucket does not exist", "Check the store.") from None
        except PermissionDeniedError as error:
            raise StorageError(*self._describe(error)) from None

    def _call(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        from obstore.exceptions import BaseError, PermissionDeniedError
        from obstore.store import from_url

        try:
            if self._store is None:
                self._store = from_url(
                    f"{self._scheme}://{self._name}",
                    client_options={
                        "timeout": f"{self._limits[0]}s", "connect_timeout": f"{CONNECT_SECONDS}s",
                        "allow_http": True,  # only an endpoint that the environment names has http
                    },
                    retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=self._limits[1])},
                )  # fmt: skip
            return operation(self._store, *arguments)
        except (FileNotFoundError, PermissionDeniedError):
            raise
        except (BaseError, OSError, ValueError) as error:
            raise ObjectStoreFails(*self._describe(error)) from None

    def _describe(self, error: Exception) -> tuple[str, str]:
        """Message and remedy."""
        return f"{self._url}: {self._reason(error)}", "Check the store."

    def _reason(self, error: Exception) -> str:
        line = " ".join(str(error).partition("Debug source:")[0].split())
        if _METADATA_ADDRESS in line:
            return f"no credentials; set {_CREDENTIALS[self._scheme]} in the environment"
        origin = _ORIGIN.search(line)
        if "error sending request" in line and origin is not None:
            return f"{origin[1]} does not answer"
        return (line.partition(" - ")[2] or line)[:_MAX_REASON]


def _read(store: Any, key: str) -> bytes:
    import obstore

    return bytes(obstore.get(store, key).bytes())
