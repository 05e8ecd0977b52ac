"""A crawl with a browser inside a network namespace of its own; prints which guarded servers were reached, and how.

Run by `test_address_namespace` as `unshare … python -m tests.process.isolated_browser FOLDER`.
"""

import json
import subprocess
import sys
from pathlib import Path

from .isolated_crawls import GUARDED, NAMES, Rebinding, ShopSite, isolate
from .project import Project
from .site import Page, html, redirect
from .trap import Trap, notations

ROADS = {
    "img": "<img src='{u}'>",
    "picture": "<picture><source srcset='{u}'><img src='{u}'></picture>",
    "iframe": "<iframe src='{u}'></iframe>",
    "srcdoc": "<iframe srcdoc=\"<img src='{u}'>\"></iframe>",
    "object": "<object data='{u}'></object>",
    "embed": "<embed src='{u}'>",
    "video": "<video src='{u}' autoplay></video>",
    "audio": "<audio src='{u}' preload=auto></audio>",
    "track": "<video><track default src='{u}'></video>",
    "input": "<input type=image src='{u}'>",
    "svg": "<svg><image href='{u}'/><use href='{u}#a'/></svg>",
    "script": "<script src='{u}'></script>",
    "module": "<script type=module>import '{u}'</script>",
    "stylesheet": "<link rel=stylesheet href='{u}'>",
    "import": "<style>@import '{u}';</style>",
    "background": "<style>body {{ background: url({u}) }}</style>",
    "font": "<style>@font-face {{ font-family: a; src: url({u}) }} i {{ font-family: a }}</style><i>a</i>",
    "prefetch": "<link rel=prefetch href='{u}'>",
    "preload": "<link rel=preload as=script href='{u}'>",
    "modulepreload": "<link rel=modulepreload href='{u}'>",
    "preconnect": "<link rel=preconnect href='{u}'>",
    "dns-prefetch": "<link rel=dns-prefetch href='{u}'>",
    "icon": "<link rel=icon href='{u}'>",
    "manifest": "<link rel=manifest href='{u}'>",
    "next": "<link rel=prerender href='{u}'>",
    "speculation": "<script type=speculationrules>{{\"prefetch\": [{{\"urls\": [\"{u}\"], \"eagerness\": "
    "\"immediate\"}}], \"prerender\": [{{\"urls\": [\"{u}\"], \"eagerness\": "
    "\"immediate\"}}]}}</script>",
    "form": "<iframe name=f></iframe><form id=form action='{u}' method=post target=f></form>"
    "<script>form.submit()</script>",
    "ping": "<a id=ping href='#x' ping='{u}'>a</a><script>ping.click()</script>",
    "fetch": "<script>fetch('{u}', {{mode: 'no-cors'}}).catch(() => 0)</script>",
    "keepalive": "<script>addEventListener('pagehide', () => fetch('{u}', {{mode: 'no-cors', keepalive: "
    "true}}))</script>",
    "later": "<script>setInterval(() => fetch('{u}', {{mode: 'no-cors'}}).catch(() => 0), 300)</script>",
    "xhr": "<script>{{ const x = new XMLHttpRequest(); x.open('GET', '{u}'); x.send() }}</script>",
    "beacon": "<script>navigator.sendBeacon('{u}', 'x')</script>",
    "events": "<script>new EventSource('{u}')</script>",
    "socket": "<script>new WebSocket('{w}')</script>",
    "socket-in-frame": "<iframe srcdoc=\"<script>new WebSocket('{w}')</script>\"></iframe>",
    "transport": "<script>try {{ new WebTransport('{s}') }} catch (e) {{}}</script>",
    "window": "<script>window.open('{u}')</script>",
    "worker": "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('{u}', {{mode: 'no-cors'}});"
    "new WebSocket('{w}'); importScripts('{u}')\"])))</script>",
    "shared": "<script>try {{ new SharedWorker(URL.createObjectURL(new Blob([\"fetch('{u}')\"]))) }} "
    "catch (e) {{}}</script>",
    "service": "<script>navigator.serviceWorker && navigator.serviceWorker.register('/service.js')</script>",
    "peer": "<script>{{ const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{h}'}},"
    "{{urls: 'turn:{h}?transport=tcp', username: 'a', credential: 'b'}}]}}); "
    "peer.createDataChannel('a');peer.createOffer().then(offer => "
    "peer.setLocalDescription(offer)) }}</script>",
    "redirected": "<img src='/to{n}'><iframe src='/to{n}'></iframe><script>fetch('/to{n}').catch(() => 0)</script>",
}  # fmt: skip
"""Parts of a page that ask for something elsewhere."""
DOCUMENTS = {
    "location": "<script>location = '{u}'</script>", "replace": "<script>location.replace('{u}')</script>",
    "meta": "<meta http-equiv=refresh content='0; url={u}'>",
    "submit": "<form id=form action='{u}'></form><script>form.submit()</script>",
    "post": "<form id=form method=post action='{u}'></form><script>form.submit()</script>",
    "click": "<a id=a href='{u}'>a</a><script>a.click()</script>",
    "navigate": "<script>navigation.navigate('{u}')</script>", "top": "<iframe srcdoc=\"<script>top.location = '{u}'"
    "</script>\"></iframe>",
}  # fmt: skip
"""Documents that lead elsewhere themselves."""
_SHORT = ("img", "fetch", "socket", "worker", "redirected")
_THOROUGH = 2
"""Targets that every road leads to; the others, spelled in other ways, have short pages."""
DONE = """<script>
setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<p class=item><b>done</b>'), 2500)
</script>"""


def build(site: ShopSite, targets: list[str]) -> list[str]:
    """Fill the site; returns the URLs of the locators."""
    policy = f"default-src * 'unsafe-inline' 'unsafe-eval' data: blob:; img-src 'none'; report-uri {targets[0]}"
    links = ", ".join(f"<{target}>; rel=preload; as=image, <{target}>; rel=preconnect" for target in targets)
    headers = {"Link": links, "Alt-Svc": f'h3="{GUARDED[0]}:443", h2="{GUARDED[0]}:443"'}
    starts = []
    for number, target in enumerate(targets):
        site[f"/to{number}"] = redirect(target)
        host = target.split("/")[2]
        values = {"u": target, "n": number, "h": host, "w": f"ws://{host}/", "s": f"https://{host}/"}
        roads = ROADS if number < _THOROUGH else _SHORT
        parts = "".join(ROADS[name].format(**values) for name in roads)
        site[f"/parts/{number}"] = Page(html(f"{parts}{DONE}"), headers=headers)
        starts.append(f"/parts/{number}")
    site["/reports"] = Page(html(f"<img src=/x>{DONE}"), headers={"Content-Security-Policy": policy})
    site["/service.js"] = Page(f"fetch('{targets[0]}')", headers={"Content-Type": "text/javascript"})
    for name, text in DOCUMENTS.items():
        site[f"/leave/{name}"] = html(text.format(u=targets[0]))
    site["/leave/redirect"] = redirect(targets[0])
    return [site.url(path) for path in (*starts, "/reports", *(f"/leave/{name}" for name in (*DOCUMENTS, "redirect")))]


def add_way_out() -> None:
    """A way to all other addresses, which counts what leaves the machine."""
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    commands = (
        "link add out type veth peer name far", "link set out arp off multicast off up",
        "link set far arp off multicast off up", "addr add 198.18.0.1/24 dev out", "route add default dev out",
    )  # fmt: skip
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True, stdout=subprocess.DEVNULL)


def count_sent() -> int:
    """The packets that have left the machine."""
    shown = subprocess.run(["ip", "-s", "-j", "link", "show", "out"], check=True, capture_output=True)
    return int(json.loads(shown.stdout)[0]["stats64"]["tx"]["packets"])


def main(folder: Path, *arguments: str) -> None:
    trap, site = Trap(*isolate(folder)), ShopSite()
    add_way_out()
    server = Rebinding(folder, trap.port)
    hosts = [*GUARDED, *(name for name in NAMES if name != "shop.example"), "[fd00::1]", "127.0.0.1", "localhost"]
    targets = [f"http://{host}:{trap.port}/x" for host in (*hosts, "rebound.example")]
    targets += [url for url in notations(GUARDED[0], trap.port) if url.isascii() and url.startswith("http://")][::4]
    starts = build(site, targets)
    project = Project(folder)
    locators = ", ".join(f"{{url: '{start}'}}" for start in starts)
    project.write(
        f"locatorGroups: {{shop: {{locators: [{locators}]}}}}\n"
        "taskGroups: {shop: {loader: {browser: {}}, items: {dataDef: item}}}\n".replace("{}", "{wait: .item}")
        + "dataDefs: {item: {query: {block: .item}, fields: {name: {selector: b}}}}\n"
    )
    limits = ("max_attempts=1", "browser_sandbox=false", "deadline=90", "browser_pages=2")
    settings = [word for one in limits for word in ("--set", one)]
    before = count_sent()
    done = project.start(*settings, *arguments, nodes=1).wait(400)
    states = dict(project.query("SELECT url, state FROM jobs WHERE origin = 'locator'"))
    print(json.dumps({
        "code": done.code, "roads": len(ROADS) + len(DOCUMENTS) + 2, "targets": len(targets),
        "connections": sorted(set(trap.connections)), "public": len(server.connections),
        "packets": count_sent() - before, "rows": len(project.rows("item")),
        "states": {start.partition(str(site.port))[2]: states[start] for start in starts},
        "err": done.err[-2000:],
    }))  # fmt: skip
    trap.close()
    site.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
