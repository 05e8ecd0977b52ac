"""A shop whose crawl a version before stopped in the middle: its pages, its defs, and where the dump of it is."""

from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from .site import Page, Request, Site, html

FOLDER = Path(__file__).parents[1] / "data" / "format_29"
"""The data dir that format 29 left, and the defs of the crawl, which all later versions read the same."""
LATE = frozenset({"/store/3", "/n/3", "/s/3", "/m/2", "/d/3", "/api 2", "/t/2", "/k/3"})
"""What the first crawl did not get."""
XML = {"Content-Type": "application/xml"}
SECRETS = {"SHOP_PASSWORD": "hunter2", "SHOP_KEY": "k-42"}


def environment(site: Site) -> dict[str, str]:
    """The site is the proxy of all its hosts: neither a key nor the defs depend on its port."""
    return SECRETS | {"SHOP_PROXY": f"http://127.0.0.1:{site.port}"}


def name_of(request: Request) -> str:
    """The page of a request: its path, and what its body asks for."""
    path = urlsplit(request.path).path
    if request.body and path != "/login":
        values = parse_qs(request.body.decode())
        return f"{path} {next(iter(values.values()))[0]}" if values else f"{path} {request.body.decode()[-3]}"
    return path


def answer(request: Request) -> Page:
    """Any page: who asked for it, and what it leads to."""
    name = name_of(request)
    kind, _, number = name.lstrip("/").replace(" ", "/").partition("/")
    sent = [request.headers.get(header, "") for header in ("x-store", "x-key", "cookie", "authorization")]
    shown = f"<h1>{'; '.join(filter(None, sent))}</h1><p class=p><b>{name}</b></p>"
    match kind:
        case "map.xml":
            entries = "".join(f"<url><loc>http://shop.example/{path}</loc></url>" for path in ("m/1", "m/2", "x/1"))
            return Page(f"<urlset>{entries}</urlset>", headers=XML)
        case "s" if int(number) > 4:
            return Page(html("nothing"))
        case "n" | "store" if int(number) < 4:
            return Page(html(f"{shown}<a class=next href=/{kind}/{int(number) + 1}>next</a>"))
        case "list":
            items = "".join(f"<li data-sku={n}><a href=/d/{n}>{n}</a></li>" for n in range(1, 5))
            return Page(html(f"{shown}<ul>{items}</ul>"))
        case "t":
            more = "<a href=/t/2>more</a>" if number == "1" else ""
            cells = f"<tr><td>x</td><td>2024</td></tr><tr><td>sales</td><td>{number}7</td></tr>"
            return Page(html(f"{more}<table>{cells}</table>"))
        case "login":
            if request.method == "POST":
                return Page(html("<p class=in>in</p>"), headers={"Set-Cookie": "session=1; Path=/"})
            return Page(html("<form method=post action=/login><input name=user><input name=password></form>"))
        case "k":
            has_session = "session=1" in request.headers.get("cookie", "")
            more = f"<a href=/k/{int(number) + 1}>next</a>" if int(number) < 3 else ""
            return Page(html(f"{shown}<p class=in>in</p>{more}" if has_session else "<p>log in</p>"))
    return Page(html(shown))


def names_of(site: Site) -> Counter[str]:
    """How often each page was asked for."""
    return Counter(name_of(exchange.request) for exchange in site.exchanges)
