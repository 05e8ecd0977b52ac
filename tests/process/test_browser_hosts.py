"""What the rules of hosts do for pages that a browser loads: proxies, credentials, cookies, bad answers."""

import pytest

from .proxy import serve_proxy
from .shop_front import NEEDS_BROWSER, Front, assert_nothing_left
from .site import html
from .socks_proxy import serve_socks

pytestmark = NEEDS_BROWSER
SECRET = "canary4711"
VARIABLE = "%{env.A_PASSWORD}"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", SECRET)


def write(front: Front, rule: str, *, host: str = "shop.test", loader: str = "{browser: {wait: '#ready'}}") -> None:
    """The shop under a name, with a rule for it."""
    front.write(loader)
    text = (front.project.defs / "crawl.yml").read_text().replace("127.0.0.1:", f"{host}:")
    front.project.write(f"{text}hosts: {{{host}: {rule}}}\n")


@pytest.mark.parametrize("kind", ["http", "socks5h"])
def test_traffic_of_a_host_goes_through_its_proxy(front: Front, kind: str) -> None:
    """The name is known to the proxy alone: nothing goes around it."""
    front.pages = 2
    opened = serve_proxy(f"us:{SECRET}") if kind == "http" else serve_socks(f"us:{SECRET}")
    with opened as proxy:
        proxy.names["shop.test"] = "127.0.0.1"
        write(front, f'{{proxy: "{kind}://us:{VARIABLE}@127.0.0.1:{proxy.port}"}}')
        assert front.crawl() == front.rows
        asked = [one.replace("http://", "").partition(" ")[2] or one for one in proxy.asked]
        assert len([one for one in asked if "shop.test" in one]) >= 4
        assert not any("127.0.0.1" in one for one in asked)
    assert SECRET not in front.project.logs()
    assert_nothing_left(front.project)


def test_a_proxy_that_refuses_fails_the_page_and_is_named(front: Front) -> None:
    front.pages = 1
    with serve_proxy("other:word") as proxy:
        write(front, f'{{proxy: "http://us:{VARIABLE}@127.0.0.1:{proxy.port}", robots: false}}')
        front.crawl("--set", "max_attempts=1", code=1)
        reason = front.project.job(f"http://shop.test:{front.site.port}/p/1")["reason"]
        assert f"proxy http://127.0.0.1:{proxy.port}: HTTP 407, it refuses the credentials" in reason
        assert SECRET not in reason
    assert front.site.paths == []


def test_a_proxy_that_rests_is_replaced_by_the_next(front: Front) -> None:
    front.pages = 2
    with serve_proxy() as bad, serve_proxy() as good:
        good.names["shop.test"] = "127.0.0.1"
        bad.credentials = "some:thing"
        write(front, f'{{proxy: ["http://127.0.0.1:1", "http://127.0.0.1:{good.port}"]}}')
        assert front.crawl() == front.rows


def test_names_behind_a_proxy_that_no_locator_has_are_refused(front: Front) -> None:
    """A page may not ask for any name through a proxy, which would resolve it beyond our guard."""
    front.pages = 1
    port = front.site.port
    script = f"fetch('http://inner.test:{port}/secret', {{mode: 'no-cors'}}).catch(() => 0)"
    front.site["/p/1"] = html(f"<script>{script}.finally(() => document.body.insertAdjacentHTML('beforeend',"
                              " '<p id=ready class=item><b>done</b>'))</script>")  # fmt: skip
    with serve_proxy() as proxy:
        proxy.names.update({"shop.test": "127.0.0.1", "inner.test": "127.0.0.1"})
        url = f'"http://127.0.0.1:{proxy.port}"'
        write(front, f"{{proxy: {url}}}")
        text = (front.project.defs / "crawl.yml").read_text()
        front.project.write(text.replace("hosts: {", f"hosts: {{inner.test: {{proxy: {url}}}, "))
        assert [row["name"] for row in front.crawl()] == ["done"]
        assert not any("inner.test" in one for one in proxy.asked)
    assert "/secret" not in front.site.paths


def test_a_host_that_cannot_be_reached_is_told_as_for_plain_pages(front: Front) -> None:
    front.pages = 1
    write(front, "{robots: false}", host="nowhere.invalid")
    front.crawl("--set", "max_attempts=1", code=1)
    assert "cannot resolve host nowhere.invalid" in front.project.job(
        f"http://nowhere.invalid:{front.site.port}/p/1"
    )["reason"]  # fmt: skip
