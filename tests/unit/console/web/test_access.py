"""Who may ask what: each request that must not be answered is refused before a route is reached."""

import html
import json
import re

import pytest

pytest.importorskip("prometheus_client", reason="the extra serve is missing")

import httpx

from crawl_console.web.access import MAX_BODY, MAX_LOGIN_BODY, Access
from crawl_console.web.app import create_app
from crawl_console.web.watch import Crawls, Watch

TOKEN = "a-token-of-the-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
OWN = "http://localhost:8787"
PATHS = ["/", "/status.json", "/events", "/nothing", "/status.json/", "//status.json", "/health/x", "/HEALTH"]


@pytest.fixture
def client(tmp_path):
    access = Access(lambda: TOKEN, 8787, {"127.0.0.1", "board.example"})
    app = create_app(Crawls({"data": Watch("data", tmp_path / "data")}), access)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=OWN)


async def log_in(client, **headers):
    return await client.post("/login", data={"token": TOKEN}, headers={"Origin": OWN, **headers})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Bearer "},
        {"Authorization": f"Basic {TOKEN}"}, {"Authorization": b"Bearer \xfc"},
        {"Cookie": f"crawl_console_8787={TOKEN}"},
        {"Cookie": "crawl_console_8787=9999999999.00"}, {"Cookie": "crawl_console_8787=.; ="}, {"Cookie": "[]=;;"},
        {"X-Forwarded-For": "127.0.0.1"},
    ],
)  # fmt: skip
async def test_nothing_without_the_token(client, path, headers):
    answer = await client.get(path, headers=headers)
    assert answer.status_code == 401
    assert "token" in answer.json()["error"]


async def test_health_is_open_and_names_nothing(client, tmp_path):
    answer = await client.get("/health", headers={"Host": "10.1.2.3:8787"})
    assert (answer.status_code, answer.text) == (503, "a data directory cannot be read\n")
    assert str(tmp_path) not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"])
async def test_other_methods_are_refused(client, method):
    assert (await client.request(method, "/status.json", headers=BEARER)).status_code == 405
    assert (await client.request(method, "/status.json")).status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "0.0.0.0", "8787"]
)
async def test_another_name_in_host_is_refused(client, host):
    """A page of evil.example may have its name rebound to 127.0.0.1."""
    answer = await client.get("/status.json", headers={**BEARER, "Host": host})
    assert answer.status_code == 403
    assert (await client.post("/login", data={"token": TOKEN}, headers={"Host": host})).status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8787", "127.8.8.8", "[::1]:8787", "board.example"]
)
async def test_own_names_in_host_are_allowed(client, host):
    assert (await client.get("/", headers={**BEARER, "Host": host})).status_code == 200


async def test_a_browser_logs_in_once(client):
    answer = await log_in(client)
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert (await client.get("/")).status_code == 200


async def test_a_wrong_token_gets_no_cookie(client):
    answer = await client.post("/login", data={"token": "wrong"}, headers={"Origin": OWN})
    assert "set-cookie" not in answer.headers
    page = await client.get(answer.headers["location"])
    assert "not the token" in page.text


async def test_a_browser_without_a_login_is_led_there(client):
    answer = await client.get("/", headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert (await client.get("/login")).status_code == 200


@pytest.mark.parametrize(
    "path", ["/crawl/hosts?data=data&filter=host%3Aa+%22b%22", "/crawl", "/ask/kill?back=%2Fcrawl"]
)
async def test_a_login_leads_to_the_page_that_was_asked_for(client, path):
    login = (await client.get(path, headers={"Accept": "text/html"})).headers["location"]
    assert login.startswith("/login?to=")
    action = html.unescape(re.findall(r'action="([^"]*)"', (await client.get(login)).text)[0])
    wrong = await client.post(action, data={"token": "wrong"}, headers={"Origin": OWN})
    again = html.unescape(re.findall(r'action="([^"]*)"', (await client.get(wrong.headers["location"])).text)[0])
    answer = await client.post(again, data={"token": TOKEN}, headers={"Origin": OWN})
    assert (answer.status_code, answer.headers["location"]) == (303, path)


@pytest.mark.parametrize(
    "to",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "\\\\evil.example", "/\t/evil.example",
     "evil.example", "javascript:alert(1)", "/\r\nX: y", "", "/x\u2215", "/" + "x" * 3_000],
)  # fmt: skip
async def test_a_login_leads_to_no_other_server(client, to):
    answer = await client.post("/login", params={"to": to}, data={"token": TOKEN}, headers={"Origin": OWN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "evil" not in (await client.get("/login", params={"to": to})).text


async def test_without_a_token_nobody_gets_in_and_is_told(tmp_path):
    tokens = [TOKEN]
    app = create_app(Crawls({"data": Watch("data", tmp_path / "data")}), Access(lambda: tokens[0], 8787))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=OWN) as client:
        await log_in(client)
        assert (await client.get("/")).status_code == 200
        tokens[0] = ""
        forged = Access(lambda: "", 8787).new_cookie()
        for headers in ({}, {"Authorization": "Bearer "}, BEARER, {"Cookie": f"crawl_console_8787={forged}"}):
            answer = await client.get("/", headers=headers)
            assert (answer.status_code, "nobody gets in" in answer.json()["error"]) == (503, True), headers
        assert "nobody gets in" in (await client.get("/login")).text
        assert "set-cookie" not in (await client.post("/login", data={"token": ""}, headers={"Origin": OWN})).headers
        tokens[0] = "another-token-of-the-tests"
        assert (await client.get("/")).status_code == 401, "its cookie was made by the token before"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:9999"}, {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site", "Origin": OWN},
    ],
)  # fmt: skip
async def test_another_origin_changes_nothing(client, headers):
    assert (await client.post("/login", data={"token": TOKEN}, headers=headers)).status_code == 403
    await log_in(client)
    assert (await client.post("/status.json", headers=headers)).status_code == 403
    assert (await client.post("/status.json", headers={**headers, **BEARER})).status_code == 403


async def test_a_cookie_alone_changes_nothing(client):
    await log_in(client)
    assert (await client.post("/status.json")).status_code == 403
    assert (await client.post("/status.json", headers={"Origin": OWN})).status_code == 405


@pytest.mark.parametrize("length", [str(MAX_BODY + 1), "100000000", "-1", "x", "9" * 30])
async def test_a_large_body_is_refused_before_it_is_read(client, length):
    def body():
        raise AssertionError("the body was read")
        yield b""

    request = client.build_request("POST", "/login", headers={"Content-Length": length, "Origin": OWN})
    answer = await client.send(request)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"


async def test_a_body_of_unknown_length_ends_where_it_is_too_long(client):
    sent = 0

    async def body():
        nonlocal sent
        for _ in range(1_000):
            sent += 100_000
            yield bytes(100_000)

    answer = await client.post("/login", content=body(), headers={"Origin": OWN})
    assert answer.status_code == 413
    assert sent < 2 * MAX_BODY


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"a=1&" * (MAX_LOGIN_BODY // 4), 400), (b"a=1&" * (MAX_LOGIN_BODY // 4 + 1), 413), (b"token=" * 10_000, 413)],
)
async def test_who_has_no_token_has_little_parsed(client, body, status):
    headers = {"Origin": OWN, "Content-Type": "application/x-www-form-urlencoded"}
    assert (await client.post("/login", content=body, headers=headers)).status_code == status


NUMBERS = [2**63, -(2**63), 2**64, 10**30, -(10**21)]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("scale", {"count": None}),
        ("pause", {"x": {"y": [None]}}),
        ("retry", {"jobs": [1, None]}),
        ("undo", {"number": None}),
    ],
)
async def test_an_integer_that_no_store_holds_is_a_bad_argument(tmp_path, name, arguments, number):
    text = json.dumps(arguments).replace("null", str(number))
    answer = await post_command(tmp_path, name, text)
    assert (answer.status_code, "more than 64 bits" in answer.json()["error"]) == (400, True)


async def test_arguments_that_are_nested_too_deeply_are_bad(tmp_path):
    answer = await post_command(tmp_path, "pause", '{"x":' + "[" * 300 + "]" * 300 + "}")
    assert (answer.status_code, answer.json()["error"]) == (400, "x: nested too deeply")


async def post_command(tmp_path, name, text):
    app = create_app(Crawls({"data": Watch("data", tmp_path)}, control=True), Access(lambda: TOKEN, 8787))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=OWN, headers=BEARER) as client:
        return await client.post(f"/commands/{name}", content=text, headers={"Content-Type": "application/json"})


async def test_every_answer_protects_the_browser(client):
    for path, status in [("/health", 503), ("/login", 200), ("/", 401), ("/static/style.css", 200)]:
        answer = await client.get(path)
        assert answer.status_code == status
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_no_file_beside_the_static_ones_is_given(client):
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/"):
        assert (await client.get(path, headers=BEARER)).status_code == 404
