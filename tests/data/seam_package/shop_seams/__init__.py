"""An output type with tabs between values, a document type of cards, a type of phone numbers, a command."""

import json

import click

from crawl_engine.append.formats.file_writer import FileFormat
from crawl_engine.append.formats.writer import RowEncoder
from crawl_engine.extract.documents.document_types import DocumentType, DocumentUnreadable
from crawl_engine.model.field_type import FieldType
from crawl_engine.model.output_type import OutputType


class TsvEncoder(RowEncoder):
    def __init__(self, columns):
        self._columns = columns

    def header(self):
        return self._line(self._columns)

    def rows(self, rows):
        return b"".join(self._line([json.loads(row)[name] for name in self._columns]) for row in rows)

    def _line(self, values):
        return ("\t".join(map(str, values)) + "\n").encode()


def read_card(body):
    name, _, price = body.removeprefix(b"\0CARD ").decode().partition("=")
    if not price:
        raise DocumentUnreadable("has no price")
    return f"<h1>{name}</h1><b>{price}</b>".encode(), ()


@click.command()
@click.argument("name")
def greet(name):
    """Greet a shop."""
    click.echo(f"hello {name}")


TSV_FORMAT = FileFormat(lambda settings: TsvEncoder(settings["columns"]))
TSV = OutputType(name="tsv", suffixes=("tsv",), summary="Tabs between values.", format="shop_seams:TSV_FORMAT")
CARD = DocumentType(
    content_types=("application/vnd.shop-card",), starts=(b"\0CARD ",), suffix="card", reader="shop_seams:read_card"
)
PHONE = FieldType(name="phone", reader="shop_seams.phone:READER")
