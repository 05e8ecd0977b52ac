"""URLs follow the WHATWG rules, and the fast string functions agree with the parser."""

import time

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawl_engine import urls

_HOSTS = st.one_of(
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9-]{0,8}[A-Za-z0-9])?(\.[A-Za-z]{2,6}){0,2}", fullmatch=True),
    st.sampled_from(["[::1]", "[2001:DB8::1]", "127.0.0.1", "0x7f.1", "münchen.example", "例え.テスト", "2852039166"]),
)
_WRITTEN = st.builds(
    "{}{}://{}{}{}{}".format,
    st.sampled_from(["", " ", "\t"]),
    st.sampled_from(["http", "https", "HTTP", "hTTps"]),
    st.sampled_from(["", "user@", "u:p@", "a%40b:c@", "x@y@", ":@"]),
    _HOSTS,
    st.sampled_from(["", ":80", ":443", ":8080", ":0", ":"]),
    st.one_of(st.just(""), st.text(max_size=30).map("/".__add__), st.text(max_size=10).map("?".__add__)),
)


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("HTTP://Shop.Example:80/a/../b?x=1#top", "http://shop.example/b?x=1"),
        ("  https://shop.example  ", "https://shop.example/"),
        ("https://shop.example/#", "https://shop.example/"),
        ("https://shop.example/a b?c d", "https://shop.example/a%20b?c%20d"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("http://2852039166/", "http://169.254.169.254/"),
        ("http://[0:0::1]:80/", "http://[::1]/"),
        ("https:shop.example", "https://shop.example/"),
        ("https://shop.example/%7Ea|b?u=http%3A%2F%2Fx", "https://shop.example/%7Ea|b?u=http%3A%2F%2Fx"),
        ("https://shop.example/?q=%{env.KEY}", "https://shop.example/?q=%{env.KEY}"),
    ],
)
def test_normalize_as_browsers_do(written: str, normal: str) -> None:
    assert urls.normalize(written) == normal


@pytest.mark.parametrize(
    "written",
    [
        *("", "shop.example/a", "/a", "mailto:a@b.example", "ftp://a/", "javascript:void(0)", "data:text/html,x"),
        *("http://", "http://a b/", "http://a:99999/", "http://[::1/", "http://\ud800/", "http://a%00b/", "file:///a"),
    ],
)
def test_any_other_text_is_none(written: str) -> None:
    assert urls.normalize(written) is None


@given(st.one_of(_WRITTEN, st.text(max_size=40)))
def test_normalizing_twice_changes_nothing(written: str) -> None:
    once = urls.normalize(written)
    if once is not None:
        assert urls.normalize(once) == once
        assert "#" not in once
        assert urls.is_http_url(once)


@given(_WRITTEN)
def test_host_names_agree_with_the_parser(written: str) -> None:
    url = urls.normalize(written)
    if url is None:
        return
    parsed = ada_url.URL(url)
    port = parsed.port or {"http:": "80", "https:": "443"}[parsed.protocol]
    assert urls.host_of(url) == parsed.hostname
    assert urls.host_key(url) == f"{parsed.hostname.removesuffix('.')}:{port}"
    assert urls.origin(url) == parsed.origin
    userinfo = parsed.username + (f":{parsed.password}" if parsed.password else "")
    assert urls.userinfo_of(url) == userinfo


@given(_WRITTEN)
def test_logs_never_show_credentials(written: str) -> None:
    url = urls.normalize(written)
    if url is None:
        return
    shown = urls.without_credentials(url)
    parsed, clean = ada_url.URL(url), ada_url.URL(shown)
    assert (clean.username, clean.password) == ("", "")
    assert (clean.host, clean.pathname, clean.search) == (parsed.host, parsed.pathname, parsed.search)


@pytest.mark.parametrize("invalid", ["http://u:secret@:99999/", "http://a b:sec@ret@h/", "https://u:secret@[::1/"])
def test_an_invalid_url_shows_no_password_either(invalid: str) -> None:
    assert "sec" not in urls.without_credentials(invalid)


def test_text_without_credentials_is_unchanged() -> None:
    for text in (
        "https://h/?mail=a@b.example", "https://h/@user", "mailto:a@b.example", "no url",
        "mailto:info@shop.example?body=https://shop.example/x", "magnet:?tr=http://t.example/a&dn=me@x",
        "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><text>@2x</text></svg>",
        "javascript:window.open('//x.example/@me')", "intent:#Intent;S.url=http://x/@a;end", "sip:a@b;x=http://c",
        "urn:x:a@b//c", "https:host/a@b//c",
    ):  # fmt: skip
        assert urls.without_credentials(text) == text


def test_a_long_text_of_colons_costs_little() -> None:
    began = time.process_time()
    for end in ("//x@y", "x@y", "http://u:p@y"):
        urls.without_credentials("a:" * 30_000 + end)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("scheme", ["feed", "url", "view-source"])
def test_a_url_behind_another_scheme_shows_no_password(scheme: str) -> None:
    assert urls.without_credentials(f"{scheme}:https://u:secret@h/a") == f"{scheme}:https://h/a"
    assert "secret" not in urls.without_credentials(f"{scheme}://u:secret@h/a")


@pytest.mark.parametrize("before", ["url: ", "- ", "<", "'", "h", "see http for "])
def test_a_url_behind_other_text_shows_no_password(before: str) -> None:
    assert urls.without_credentials(f"{before}http://u:secret@h/a") == f"{before}http://h/a"


@pytest.mark.parametrize(
    ("base", "href", "joined"),
    [
        ("https://h/a/b.html", "c.html", "https://h/a/c.html"),
        ("https://h/a/b.html", "../c.html#part", "https://h/c.html"),
        ("https://h/a/b.html?x=1", "#top", "https://h/a/b.html?x=1"),
        ("https://h/a/b.html?x=1", "", "https://h/a/b.html?x=1"),
        ("https://h/a", "//other.example/b", "https://other.example/b"),
        ("https://h/a", "\n/b\t c ", "https://h/b%20c"),
        ("https://h/a", "\\b\\c", "https://h/b/c"),
        ("https://h/a", "mailto:a@b.example", None),
        ("https://h/a", "javascript:void(0)", None),
        ("https://h/a", "http://[", None),
        ("not a base", "b", None),
    ],
)
def test_join_follows_links(base: str, href: str, joined: str | None) -> None:
    assert urls.join(base, href) == joined


@pytest.mark.parametrize(
    ("written", "route"),
    [("#/tea/1", "#/tea/1"), ("#!tea", "#!tea"), ("#!/a b", "#!/a%20b"), ("#//", "#//"), ("?q#/?page=2", "#/?page=2")]
    + [(other, "") for other in ("#/", "#!", "#!/", "#", "#top", "#tea/1", "#:~:text=/", "")],
)
def test_a_route_is_a_fragment_that_scripts_choose_a_page_by(written: str, route: str) -> None:
    url = urls.normalize(f"https://h/app{written}", keeps_route=True)
    assert url is not None
    assert urls.route_of(url) == route
    assert url == (urls.normalize(f"https://h/app{written}") or "") + route
    assert urls.normalize(url, keeps_route=True) == urls.join(url, written or "#", keeps_route=True) == url
    assert urls.resolve(url, None) == urls.resolve(url, "https://h/") == url.removesuffix(route)


def test_join_keeps_fragment_and_scheme_when_asked() -> None:
    assert urls.join("https://h/a", "b#part", keep_fragment=True) == "https://h/b#part"
    assert urls.join("https://h/a", "mailto:a@b.example", keep_fragment=True) == "mailto:a@b.example"
    assert urls.join("https://h/a", "http://[", keep_fragment=True) is None


def test_is_http_url_checks_the_scheme() -> None:
    assert urls.is_http_url("HTTPS://x") and urls.is_http_url("http://x")
    assert not urls.is_http_url("ftp://x") and not urls.is_http_url("/http://x") and not urls.is_http_url("")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("bob:secret@shop.example", "shop.example"),
        ("bob:secret@shop.example/a?b@c", "shop.example/a?b@c"),
        ("mailto:a@b.example", "mailto:a@b.example"),
        ("bob:se@cret@shop.example", "shop.example"),
    ],
)
def test_a_login_without_a_scheme_is_never_shown(written: str, shown: str) -> None:
    assert urls.without_credentials(written) == shown


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("a.html", "file:///site/a.html"),
        ("/sub/a.html#x", "file:///site/sub/a.html"),
        ("sub/../a.html", "file:///site/a.html"),
        *[
            (path, None)
            for path in ("../a.html", "%2e%2e/a.html", "file:///etc/passwd", "..%2fa.html", "sub%2F..%2F..%2Fa")
        ],
        *[(path, None) for path in (".%2e%2fa.html", "%2ftmp/a", "a.html%00.x", "..%5Ca.html")],
    ],
)
def test_a_path_stays_below_its_folder_however_it_is_written(path: str, url: str | None) -> None:
    assert urls.resolve_below("file:///site/", path) == url


def test_a_url_of_a_list_that_is_not_utf_8_is_none() -> None:
    written = "http://h/größe".encode("cp1252").decode("utf-8", "replace")
    assert urls.resolve(written, None) is None
    assert urls.resolve("http://h/größe", None) == "http://h/gr%C3%B6%C3%9Fe"


@pytest.mark.parametrize("port", ["", ":8080"])
@pytest.mark.parametrize(
    ("spelling", "name"),
    [("shop.test.", "shop.test"), ("shop.test...", "shop.test"), ("[::ffff:2d21:209d]", "45.33.32.157")],
)
def test_another_spelling_of_a_name_makes_no_other_host(spelling: str, name: str, port: str) -> None:
    dotted, plain = f"http://{spelling}{port}/a.:b", f"http://{name}{port}/a.:b"
    assert urls.host_without_www(dotted) == urls.host_without_www(plain)
    assert urls.host_key(dotted) == urls.host_key(plain)
    assert urls.origin(dotted) != urls.origin(plain), "credentials are sent to the name as written"


@given(
    st.from_regex(
        r"\Ahttps?://[a-z0-9.-]{1,12}(\.[a-z0-9-]{1,5}){0,2}(:[0-9]{1,5})?(/[A-Za-z0-9_~!$&()*+,;=:@.%'-]{0,8}){0,3}"
        r"(\?[A-Za-z0-9_~!$&()*+,;=:@.%'/-]{0,8})?(#[a-z]{0,3})?\Z"
    )
)
@example("http://a.xn--a/")
@example("http://127.0.0.1:8765/")
@example("http://203.0.255.250/a")
@example("http://1.2.3.256/")
@example("http://1.2.3/")
@example("http://01.2.3.4/")
@example("http://1.2.3.4./")
@example("http://a.b.c0/")
@example("http://a.bc:8080/x/../y")
@example("http://a.bc:8080/x/..?y")
@example("http://a.bc/.x")
@example("http://a.bc?x")
@example("http://10.0.255.249:8080/x")
@example("http://10.00.2.3/")
@example("http://1.2.3.256/")
@example("http://1.2.3/")
def test_a_url_taken_as_normal_is_what_the_parser_makes_of_it(url: str) -> None:
    try:
        parsed = ada_url.normalize_url(url).partition("#")[0]
    except ValueError:
        parsed = None
    assert urls.normalize(url) == parsed


@pytest.mark.parametrize(
    "name", ["password", "sslpassword", "%70assword", "PassWord", "scram_client_key", "oauth_client_secret"]
)
def test_no_password_in_the_query_of_a_database_is_shown(name: str) -> None:
    shown = urls.without_passwords(f"postgresql://u:canary@h/db?host=x&{name}=canary&port=1")
    assert shown == f"postgresql://h/db?host=x&{name}=…&port=1"


@pytest.mark.parametrize(
    ("name", "keys", "meant"),
    [
        ("localhots", ["localhost:9001"], "localhost"),
        ("shp.example", ["shop.example:443", "other.example:443"], "shop.example"),
        ("localhost:9002", ["localhost:9001"], "localhost:9001"),
        ("[::1]:9", ["[::1]:8"], "[::1]:8"),
        ("shop2.example", ["shop1.example:443"], None),
        ("www.shop.example", ["shop.example:443"], None),
        ("images.example", ["shop.example:443"], None),
        ("x", [], None),
    ],
)
def test_the_host_that_was_probably_meant(name: str, keys: list[str], meant: str | None) -> None:
    assert urls.similar_host(name, keys) == meant
