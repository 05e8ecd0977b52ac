"""A site whose pages are for members: a login form with a hidden token, sessions, and ways to lose them."""

import itertools
import secrets
import threading
from collections.abc import Callable
from urllib.parse import parse_qs

from .project import Project
from .site import Page, Request, Site, html, redirect

USER, PASSWORD = "canary01 user", "canary02&pass=wört"
VARIABLES = {"SHOP_USER": USER, "SHOP_PASSWORD": PASSWORD}

DEFS = """\
locatorGroups: {{members: {{locators: [{{url: "{url}/page/{{1..{pages}}}"}}]}}}}
taskGroups: {{members: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{n: {{selector: b}}, who: {{selector: i}}}}}}}}
hosts:
  "127.0.0.1":
    concurrency: 4
    login: {{url: {login}, form: {{user: "%{{env.SHOP_USER}}", password: "%{{env.SHOP_PASSWORD}}"}}, {check}{more}}}
"""


def write_member_defs(
    project: Project, site: Site, pages: int, *, check: str = 'check: ".logout"', more: str = "", login: str = "/login"
) -> None:
    """Defs for the pages of a site that has a login."""
    url = f"http://127.0.0.1:{site.port}"
    project.write(DEFS.format(url=url, pages=pages, check=check, more=more, login=login))


class MemberSite:
    """Programs a site. Sessions and tokens are secrets, to be looked for in the data dir."""

    def __init__(self, site: Site, *, to_login: bool = False, changes_cookie: bool = False) -> None:
        """`to_login`: who is not logged in is redirected to the login page, else sees a page for visitors."""
        self.site = site
        self.sessions: set[str] = set()
        self.secrets: list[str] = []
        self.logins = 0
        self.accepts: Callable[[int], bool] = lambda number: True
        self.loses: Callable[[int], bool] = lambda number: False
        """Whether the session ends with this answer to a member: their number, from 1."""
        self.delay = 0.0
        self._to_login = to_login
        self._changes_cookie = changes_cookie
        self._members = itertools.count(1)
        self._lock = threading.Lock()
        self._tokens: dict[str, str] = {}
        site["/login"] = self._login_page
        site.fallback = self._answer

    def write_defs(self, project: Project, pages: int = 40, **more: str) -> None:
        write_member_defs(project, self.site, pages, **more)

    def _secret(self, kind: str) -> str:
        self.secrets.append(f"{kind}{secrets.token_hex(12)}")
        return self.secrets[-1]

    def _login_page(self, request: Request) -> Page:
        if request.method == "POST":
            return self._log_in(request)
        return self.login_form()

    def login_form(self) -> Page:
        with self._lock:
            visitor, token = self._secret("visit"), self._secret("token")
            self._tokens[visitor] = token
        search = '<form action="/search"><input name=q></form>'
        form = (
            '<form method=post action="/login?step=2"><input type=hidden name=csrf value="' + token + '">'
            "<input name=user><input name=password type=password><select name=site><option>a<option selected>b</select>"
            "<button name=go value=1>in</button></form>"
        )
        return Page(html(search + form), headers={"Set-Cookie": f"visitor={visitor}; Path=/; HttpOnly"})

    def _log_in(self, request: Request) -> Page:
        fields = parse_qs(request.body.decode(), strict_parsing=True)
        cookies = cookies_of(request)
        token = self._tokens.pop(cookies.get("visitor", ""), None)
        expected = {"csrf": [token], "user": [USER], "password": [PASSWORD], "site": ["b"], "go": ["1"]}
        assert request.headers["referer"].endswith("/login"), request.headers
        self.logins += 1
        if fields != expected or not self.accepts(self.logins):
            return self.login_form()
        with self._lock:
            session = self._secret("sid")
            self.sessions.add(session)
        return Page(
            status=303, headers={"Location": "/home", "Set-Cookie": f"sid={session}; Path=/; HttpOnly; SameSite=Lax"}
        )

    def _answer(self, request: Request) -> Page:
        if request.path.startswith("/login"):
            return self._login_page(request)
        with self._lock:
            session = cookies_of(request).get("sid", "")
            is_member = session in self.sessions
            is_page = request.path.startswith("/page/")
            if is_member and is_page and self.loses(next(self._members)):
                self.sessions.discard(session)
                is_member = False
            headers: dict[str, str] = {}
            if not is_member and is_page:  # as many sites do
                headers["Set-Cookie"] = f"sid={self._secret('anon')}; Path=/; HttpOnly; SameSite=Lax"
            elif self._changes_cookie:
                new = self._secret("sid")
                self.sessions.add(new)
                headers["Set-Cookie"] = f"sid={new}; Path=/; HttpOnly; SameSite=Lax"
        if is_member:
            body = f"<b>{request.path}</b><i>member</i><a class=logout href=/logout>out</a>"
            return Page(html(body), headers=headers, delay=self.delay)
        if self._to_login:
            page = redirect(f"/login?next={request.path}")
            return Page(status=page.status, headers={**page.headers, **headers})
        return Page(html(f"<b>{request.path}</b><i>visitor</i>"), headers=headers)


def cookies_of(request: Request) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in request.headers.get("cookie", "").split("; ") if pair)
    return {name: value for name, _, value in pairs}


def find_in_files(project: Project, texts: list[str]) -> dict[str, list[str]]:
    """Which of these texts stand in a file of the data dir, and where."""
    found: dict[str, list[str]] = {}
    for file in project.data.rglob("*"):
        if file.is_file() and not file.is_symlink():
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                continue
            for text in texts:
                if text.encode() in content:
                    found.setdefault(text, []).append(str(file.relative_to(project.data)))
    return found
