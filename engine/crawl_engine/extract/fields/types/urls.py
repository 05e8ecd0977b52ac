"""Reads the types `url` and `file`: absolute URLs; the file of one is a job of its own."""

from crawl_engine import urls
from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import Converter, TypeReader
from crawl_engine.model.definition import Field
from crawl_engine.model.file import MAX_FILES


class UrlReader(TypeReader):
    """Reads URLs, relative to the page."""

    uses_base = True

    def converter(self, _field: Field) -> Converter:
        """Joins it to the base of the page."""
        return _url


class FileReader(UrlReader):
    """Reads URLs of files."""

    max_items = MAX_FILES

    def converter(self, _field: Field) -> Converter:
        """Credentials of a site are neither stored nor sent."""
        return lambda text, base: urls.without_credentials(_url(text, base))


def _url(text: str, base: str) -> str:
    joined = urls.join(base, text, keep_fragment=True)
    if joined is None:
        raise ValueError(f"{quote_text(urls.without_credentials(text))} is not a URL")
    return joined


URL, FILE = UrlReader(), FileReader()
