"""PDF documents made by hand, good and bad ones."""

import zlib
from collections.abc import Sequence

FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
ENCRYPTION = b"<</Filter/Standard/V 1/R 2/P -44/O (%s)/U (%s)>>" % (b"o" * 32, b"u" * 32)
"""The parameters of an encryption that the empty password does not open."""


def stream(content: bytes, *, entries: bytes = b"", compress: bool = False) -> bytes:
    if compress:
        content, entries = zlib.compress(content, 9), entries + b"/Filter/FlateDecode"
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(content), content)


def pdf_file(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A file of these objects, which are numbered from 1; the first is the catalog."""
    body, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    return b"%sxref\n0 %d\n0000000000 65535 f \n%strailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (
        body, size, table, size, trailer, len(body)
    )  # fmt: skip


def text_of(lines: Sequence[str]) -> bytes:
    """The content of a page that shows these lines."""
    shown = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").encode("cp1252") for line in lines]
    return b"BT /F 12 Tf 14 TL 72 720 Td " + b"".join(b"(%s) Tj T* " % line for line in shown) + b"ET"


def pdf_of_contents(
    contents: Sequence[bytes],
    *,
    links: Sequence[str] = (),
    info: bytes = b"",
    encrypt: bytes = b"",
    compress: bool = False,
) -> bytes:
    """A document with a page for each content; each page has all links. `encrypt`: the dictionary."""
    uris = [link.replace("(", r"\(").replace(")", r"\)").encode() for link in links]
    annotations = b"".join(b"<</Subtype/Link/Rect[0 0 9 9]/A<</S/URI/URI(%s)>>>>" % uri for uri in uris)
    numbers = [4 + 2 * index for index in range(len(contents))]
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>>>"
        % (len(contents), kids),
        FONT,
    ]
    for number, content in zip(numbers, contents, strict=True):
        objects.append(b"<</Type/Page/Parent 2 0 R/Contents %d 0 R/Annots[%s]>>" % (number + 1, annotations))
        objects.append(stream(content, compress=compress))
    trailer = b""
    if info:
        objects.append(b"<<%s>>" % info)
        trailer += b"/Info %d 0 R" % len(objects)
    if encrypt:
        trailer += b"/Encrypt %s/ID[(0123456789abcdef)(0123456789abcdef)]" % encrypt
    return pdf_file(objects, trailer)


def pdf(*pages: Sequence[str], links: Sequence[str] = (), info: bytes = b"", encrypt: bytes = b"") -> bytes:
    """A document with these lines on its pages."""
    return pdf_of_contents([text_of(lines) for lines in pages], links=links, info=info, encrypt=encrypt)


def encrypted_pdf() -> bytes:
    return pdf(["secret"], encrypt=ENCRYPTION)


def scanned_pdf() -> bytes:
    """A page with an image, and without text."""
    pixels = b"q 600 0 0 700 0 0 cm BI /W 2 /H 2 /CS /G /BPC 8 ID \x00\x40\x80\xff EI Q"
    return pdf_of_contents([pixels])


def memory_pdf(megabytes: int) -> bytes:
    """A small file of text that takes many times so many megabytes."""
    line = text_of(["a line of text on top of another"]) + b"\n"
    return pdf_of_contents([line * (megabytes * 1_000_000 // len(line))], compress=True)


def repeated_page_pdf(count: int) -> bytes:
    """A document that has one page with much text so many times."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
    return pdf_file(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count %d/Kids[%s]>>" % (count, b"3 0 R " * count),
            page,
            stream(text_of(["a line of text that is rather long"] * 50)),
            FONT,
        ]
    )
