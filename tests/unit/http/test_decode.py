"""Decoding of bodies: encodings and document kinds."""

import codecs
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.http.decode import DecodedBody, content_type_at, decode, find_first_element, needs_detection

HTML = "text/html"


@pytest.mark.parametrize(
    ("body", "content_type", "text", "encoding"),
    [
        (b"plain", HTML, "plain", "utf-8"),
        ("Köln €".encode(), HTML, "Köln €", "utf-8"),
        ("Köln €".encode("cp1252"), HTML, "Köln €", "cp1252"),
        ("Köln €".encode("cp1252"), f"{HTML}; charset=ISO-8859-1", "Köln €", "cp1252"),
        ("Привет".encode("koi8-r"), f'{HTML}; charset="KOI8-R"', "Привет", "koi8-r"),
        ("日本".encode("cp932"), f"{HTML};charset=Shift_JIS", "日本", "cp932"),
        ("日本".encode("iso2022_jp"), f"{HTML};charset=iso-2022-jp", "日本", "iso2022_jp"),
        ("中文".encode("gb18030"), f"{HTML}; charset=gb2312", "中文", "gb18030"),
        ("Ü".encode("utf-16-le"), f"{HTML}; charset=utf-16le", "Ü", "utf-16-le"),
        (b"<meta charset=windows-1251>" + "мир".encode("cp1251"), HTML, "<meta charset=windows-1251>мир", "cp1251"),
        (b"<meta charset=utf-16>" + "é".encode(), HTML, "<meta charset=utf-16>é", "utf-8"),
        (b"<meta charset=iso-2022-jp>" + "日".encode("iso2022_jp"), HTML, "<meta charset=iso-2022-jp>日", "iso2022_jp"),
        (b"<meta charset=utf-7>+ADw-b+AD4-", HTML, "<meta charset=utf-7>+ADw-b+AD4-", "utf-8"),
        ("é".encode(), f"{HTML}; charset=unicode_escape", "é", "utf-8"),
        ("é".encode(), f"{HTML}; charset=no-such", "é", "utf-8"),
        (codecs.BOM_UTF8 + "é".encode(), f"{HTML}; charset=koi8-r", "é", "utf-8"),
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "", "é", "utf-16-le"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "text/plain", "é", "utf-16-be"),
        ('<?xml version="1.0" encoding="iso-8859-2"?><a>ł</a>'.encode("iso8859-2"), "application/xml",
         '<?xml version="1.0" encoding="iso-8859-2"?><a>ł</a>', "iso8859-2"),
        ('{"a": "é"}'.encode(), "application/json", '{"a": "é"}', "utf-8"),
        (b"", HTML, "", "utf-8"),
    ],
)  # fmt: skip
def test_the_encoding_is_detected(body: bytes, content_type: str, text: str, encoding: str) -> None:
    document = decode(body, content_type)
    assert (document.text, document.encoding, document.damaged) == (text, encoding, 0)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("text", "content_type", "kind"),
    [
        ("<p>Zażółć</p>", HTML, "html"),
        ('<?xml version="1.0" encoding="UTF-16"?><a>ż</a>', "application/xml", "xml"),
        ('{"a": "ż"}', "application/json", "json"),
        ('["ż"]', "application/json", "json"),
    ],
)
def test_utf_16_needs_no_byte_order_mark(text: str, content_type: str, kind: str, codec: str) -> None:
    document = decode(text.encode(codec), content_type)
    assert (document.text, document.encoding, document.kind, document.damaged) == (text, codec, kind, 0)
    assert not needs_detection(text.encode(codec), content_type)


def test_invalid_bytes_are_replaced_and_counted() -> None:
    assert decode(b"a\xffb", "text/html; charset=utf-8") == DecodedBody("a\ufffdb".encode(), "utf-8", "html", 1)
    assert decode(b'{"a":"\xff"}', "application/json") == DecodedBody('{"a":"\ufffd"}'.encode(), "utf-8", "json", 1)
    assert decode(b"a\x81b", HTML) == DecodedBody("a\ufffdb".encode(), "cp1252", "html", 1)
    # a sequence cut short is one character of replacement, for its three bytes
    assert decode(b"a\xff\xfe\xf0\x9f\x98b", "text/html; charset=utf-8").damaged == 5
    assert decode("한국".encode("cp949") + b"\xff", "text/html; charset=euc-kr").damaged == 1


@pytest.mark.parametrize("text", ["naïve", "price: € 100", "“one quotation”", "café"])
def test_a_few_characters_are_windows_1252(text: str) -> None:
    assert decode(text.encode("cp1252"), HTML).text == text


def test_utf_8_with_a_few_faults_stays_utf_8() -> None:
    document = decode("Grüße, Öl, süß, Äpfel ".encode() * 9 + b"\xff", HTML)
    assert (document.encoding, document.damaged) == ("utf-8", 1)
    assert document.text.startswith("Grüße")


@pytest.mark.parametrize(
    "text",
    [
        "Udstillingen åbner på lørdag klokken ti. Børn under tolv år går gratis ind, og voksne kan købe billetter.",
        "La città riaprirà il museo già da sabato. È stata una lunga attesa, però ne è valsa la pena.",
    ],
)
@pytest.mark.parametrize("invalid", [b"\xff", b"\xff \xfe", b"caf\xe9 \xff \xe9"])
def test_a_paragraph_of_utf_8_survives_three_invalid_bytes(text: str, invalid: bytes) -> None:
    document = decode(f"<p>{text}</p>".encode() + invalid, HTML)
    assert document.text.startswith(f"<p>{text}</p>")


@pytest.mark.parametrize("length", [1, 8])
def test_a_latin_language_is_not_taken_for_another_script(length: int) -> None:
    text = "La città riaprirà il museo già da sabato. È stata una lunga attesa, però ne è valsa la pena. " * length
    document = decode(f"<title>La città è più</title><p>{text}".encode("cp1252"), HTML)
    assert (document.encoding, document.text) == ("cp1252", f"<title>La città è più</title><p>{text}")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "más fresco por la noche. ¿Cuánto cuesta? ¡Atención! El niño comió"),
        ("cp1250", "Příliš žluťoučký kůň úpěl"),
        ("cp1257", "Šiandien bus saulėta, vietomis lietus, vakare vėsiau."),
    ],
)
def test_a_short_text_of_a_latin_language_is_detected(encoding: str, text: str) -> None:
    document = decode(f"<h1>{text}</h1><p>{text}</p>".encode(encoding), HTML)
    assert (document.encoding, document.text) == (encoding, f"<h1>{text}</h1><p>{text}</p>")


def test_the_text_that_tells_the_encoding_may_stand_anywhere() -> None:
    text = f"<p>© 2020</p>{'<br>' * 50_000}<p>Сегодня в Москве прошёл дождь, и движение было затруднено.</p>"
    document = decode(text.encode("cp1251"), HTML)
    assert (document.encoding, document.text) == ("cp1251", text)


@pytest.mark.parametrize("declared", ["iso-8859-1", "windows-1251", "koi8-r", "ibm866"])
def test_utf_8_is_utf_8_whatever_single_byte_encoding_is_declared(declared: str) -> None:
    body = "Grüße aus Köln".encode()
    assert decode(body, f"{HTML}; charset={declared}").text == "Grüße aus Köln"
    assert decode(f"<meta charset={declared}>".encode() + body, HTML).encoding == "utf-8"


GERMAN = "Größe, Maße, Tür für Straßen: 5 € „günstig“ "
"""10 characters beyond ASCII."""


@pytest.mark.parametrize(
    ("start", "content_type"),
    [
        ("<h1>", f"{HTML}; charset=iso-8859-1"),
        ("<meta charset=windows-1252><h1>", HTML),
        ("<?xml version='1.0' encoding='iso-8859-1'?><a>", "application/xml"),
        ("<?xml version='1.0' encoding='windows-1251'?><rss>", "text/html"),
        ("a;b\n1;", "text/csv; charset=windows-1252"),
        ('{"a": "', "application/json; charset=iso-8859-1"),
        ('{"a": "', "application/x-ndjson; charset=iso-8859-15"),
        ("<meta charset=shift_jis><h1>", HTML),
        ("<h1>", f"{HTML}; charset=euc-kr"),
    ],
)
def test_utf_8_with_a_damaged_byte_stays_utf_8_whatever_is_declared(start: str, content_type: str) -> None:
    whole, cut = (start + GERMAN * 2).encode(), (start + GERMAN + GERMAN.replace("ö", "o")).encode()
    for bad in (b"\xc3 cut", b"\xff"):
        document = decode(whole + bad, content_type)
        assert document.text == start + GERMAN * 2 + "\ufffd" + bad[1:].decode()
        assert (document.encoding, document.damaged) == ("utf-8", 1)
        assert document.declared not in ("", "utf-8")
    label = decode(cut + b"\xc3 cut", content_type)
    assert label.encoding != "utf-8" and not label.declared, "19 sequences say too little"
    assert decode(whole + b"\xff \xff", content_type).encoding != "utf-8"


@pytest.mark.parametrize("text", ["é", "Größe und Maße der Tür " * 20, "«é» Ã© "])
def test_the_label_of_other_text_holds(text: str) -> None:
    document = decode(text.encode("cp1252"), f"{HTML}; charset=iso-8859-1")
    assert (document.text, document.encoding, document.declared) == (text, "cp1252", "")


def test_a_declared_multi_byte_encoding_holds_while_the_body_fits_it() -> None:
    body = "茅".encode("gb18030")  # by chance valid as UTF-8
    assert body.decode() == "é"
    assert decode(body, f"{HTML}; charset=gbk").text == "茅"
    assert decode("今天北京下了雨。".encode() + b"<p>", f"{HTML}; charset=euc-jp").text == "今天北京下了雨。<p>"


UNDECLARED = [
    ("cp1251", "Сегодня в Москве прошёл дождь, и движение на многих улицах было затруднено."),
    ("koi8_r", "Сегодня в Москве прошёл дождь, и движение на многих улицах было затруднено."),
    ("koi8_u", "Сьогодні в Києві йшов дощ, і рух на багатьох вулицях був ускладнений."),
    ("cp1253", "Σήμερα στην Αθήνα έβρεξε και η κυκλοφορία σε πολλούς δρόμους ήταν δύσκολη."),
    ("cp1255", "היום ירד גשם בירושלים והתנועה ברחובות רבים הייתה קשה."),
    ("cp1256", "هطل المطر اليوم في المدينة وكانت الحركة صعبة في كثير من الشوارع."),
    ("cp932", "今日は東京で雨が降り、多くの道路で渋滞が発生しました。"),
    ("euc_jp", "今日は東京で雨が降り、多くの道路で渋滞が発生しました。"),
    ("gb18030", "今天北京下了雨，许多街道交通困难。市民们匆忙赶去上班。"),
    ("big5hkscs", "今天台北下了雨，許多街道交通困難。市民們匆忙趕去上班。"),
    ("cp949", "오늘 서울에 비가 내려 많은 도로에서 교통이 어려웠습니다."),
    ("cp1250", "Dziś w Warszawie padał deszcz i ruch na wielu ulicach był utrudniony; później może znów padać śnieg."),
    ("cp1254", "Bugün İstanbul'da yağmur yağdı ve birçok sokakta trafik zorlaştı."),
    ("cp1252", "Schöne Grüße aus München – „Straßen“ und Bürger für morgen"),
    ("cp874", "วันนี้ฝนตกในกรุงเทพฯ และการจราจรบนถนนหลายสายติดขัด"),
]


@pytest.mark.parametrize(("encoding", "text"), UNDECLARED, ids=[encoding for encoding, _ in UNDECLARED])
@pytest.mark.parametrize("content_type", [HTML, "application/rss+xml", "text/plain"])
def test_an_undeclared_encoding_is_detected(encoding: str, text: str, content_type: str) -> None:
    body = f"<div class=page><p>{text}</p></div>".encode(encoding)
    assert needs_detection(body, content_type)
    document = decode(body, content_type)
    assert document.text == f"<div class=page><p>{text}</p></div>"
    assert document.damaged == 0


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"plain", HTML),
        ("é".encode(), HTML),
        ("é".encode("cp1252"), f"{HTML}; charset=latin1"),
        ("<meta charset=windows-1252>é".encode("cp1252"), HTML),
        ('<?xml version="1.0" encoding="iso-8859-1"?><a>é</a>'.encode("cp1252"), "text/xml"),
        (b"\xff\xfe\xe9\0", HTML),
        (b'{"a": "\xe9"}', "application/json"),
        (b"\xe9", "image/png"),
    ],
)
def test_what_is_declared_or_utf_8_needs_no_detection(
    body: bytes, content_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "chardet", None)  # an import of it would fail
    assert not needs_detection(body, content_type)
    decode(body, content_type)


def test_the_header_overrides_the_page() -> None:
    assert decode(b"<meta charset=koi8-r>" + "é".encode(), "text/html; charset=utf-8").text.endswith("é")


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html", b"%PDF-1.7", "html"),
        ("TEXT/HTML; charset=utf-8", b"x", "html"),
        ("application/xhtml+xml", b"<?xml?>", "html"),
        ("application/json", b"[1]", "json"),
        ("application/ld+json; charset=utf-8", b"{}", "json"),
        ("application/rss+xml", b"<rss/>", "xml"),
        ("application/rss+xml", b"<!DOCTYPE html><html><body>Error", "html"),
        ("application/x-ndjson", b'{"a": 1}', "ndjson"),
        ("application/jsonl; charset=utf-8", b"<p>", "ndjson"),
        ("text/csv; header=present", b"a,b", "csv"),
        ("text/csv", b"a,b\0", "csv"),
        ("text/tab-separated-values", b"", "csv"),
        ("text/csv", b"\n<!DOCTYPE html>\n<html>", "html"),
        ("text/csv", b"PK\x03\x04\x14\x00", "binary"),
        ("text/xml", b"<urlset/>", "xml"),
        ("image/svg+xml", b"<svg/>", "xml"),
        ("application/xml", b'<?xml version="1.0"?>\n<!-- a --><!DOCTYPE html PUBLIC "x"><html xmlns="x">', "html"),
        ("text/xml", b"<rss><![CDATA[<html>]]></rss>", "xml"),
        ("application/pdf", b"x", "binary"),
        ("image/png", b"x", "binary"),
        ("video/mp4", b"", "binary"),
        ("font/woff2", b"x", "binary"),
        ("application/zip", b"x", "binary"),
        ("application/vnd.ms-excel", b"x", "binary"),
        ("", b"<p>x", "html"),
        ("", b' \n{"a": 1}', "json"),
        ("", b"[1]", "json"),
        ("application/octet-stream", b'{"a": 1}', "json"),
        ("text/plain", b'{"a": 1}', "html"),
        ("", b'<?xml version="1.0"?><rss/>', "xml"),
        ("", b'<?xml version="1.0"?><!DOCTYPE html><html/>', "html"),
        ("application/octet-stream", b"<html>", "html"),
        ("application/x-httpd-php", b"<html>", "html"),
        ("text/plain", b"words", "html"),
        ("text/plain", b"a\0b", "binary"),
        ("", b"%PDF-1.4 text", "binary"),
        ("", b"\x89PNG\r\n\x1a\n", "binary"),
        ("", b"GIF89a", "binary"),
        ("application/octet-stream", b"\xff\xd8\xff\xe0", "binary"),
        ("", b"PK\x03\x04", "binary"),
        ("nonsense", b"<p>", "html"),
        ("", "é".encode(), "html"),
        ("", b"\x1b[0m", "html"),
    ],
)
def test_the_kind_is_detected(content_type: str, body: bytes, kind: str) -> None:
    document = decode(body, content_type)
    assert document.kind == kind
    if kind == "binary":
        assert (document.text, document.encoding) == ("", "")


@given(
    st.binary(max_size=200),
    st.one_of(st.text(max_size=40), st.sampled_from([HTML, "", "text/xml", "application/json"])),
)
def test_any_bytes_are_decoded(body: bytes, content_type: str) -> None:
    document = decode(body, content_type)
    assert not document.damaged or "\ufffd" in document.text


@given(st.text(max_size=100))
def test_utf_8_round_trips(text: str) -> None:
    document = decode(text.encode(), "text/html; charset=utf-8")
    assert document.text == text.removeprefix("\ufeff")
    assert not document.damaged


@pytest.mark.parametrize(
    ("content_type", "url", "expected"),
    [
        ("", "http://h/a.jsonl", "application/x-ndjson"),
        ("text/plain; charset=koi8-r", "http://h/a.NDJSON?x=.html", "application/x-ndjson; charset=koi8-r"),
        ("application/octet-stream", "file:///tmp/a.csv", "text/csv"),
        ("Text/Plain", "http://h/a.tsv#x", "text/tab-separated-values"),
        ("text/html", "http://h/a.csv", "text/html"),
        ("application/json", "http://h/a.jsonl", "application/json"),
        ("text/markdown", "http://h/a.csv", "text/markdown"),
        ("text/plain", "http://h/csv?a.csv", "text/plain"),
        ("", "", ""),
    ],
)
def test_an_extension_counts_where_the_type_is_general(content_type: str, url: str, expected: str) -> None:
    assert content_type_at(content_type, url) == expected


@pytest.mark.parametrize(
    "piece", [b"<!--", b"<!-- -->", b"<!--'", b"<![", b"<?", b"<!a[", b"<!a[<!-- -->", b"'\"", b"<!a[]>", b"<!a []"]
)
@pytest.mark.parametrize("start", [b"", b"<!a [", b"<!a "])
def test_what_stands_before_the_first_element_costs_little(start: bytes, piece: bytes) -> None:
    began = time.process_time()
    assert find_first_element(start + piece * (70_000 // len(piece))) == b""
    assert time.process_time() - began < 1, "each byte is looked at a few times"


@pytest.mark.parametrize("comment", [b"<!-- ]> ' -->", b"<!---->"])
def test_a_list_of_entities_may_have_comments(comment: bytes) -> None:
    text = b"<!DOCTYPE a [" + comment + b'<!ENTITY b "]>">]><Html>'
    assert find_first_element(text) == b"html"
