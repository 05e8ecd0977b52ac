"""Builds the request for a redirect's target: method, headers, and which credentials go along."""

from engine import urls
from engine.http.errors import FetchFailed
from engine.model.host import SAFE_HEADERS
from engine.model.job import Request
from engine.model.variables import variable_names

_SEE_OTHER = 303
_SAFE_METHODS = frozenset({"GET", "HEAD"})


def build_target_request(request: Request, from_url: str, to_url: str) -> Request:
    """The request to send to the target that a job was put back with: only one that is a GET without body is."""
    return build_redirect_request(request, _SEE_OTHER, from_url, to_url)


def build_redirect_request(request: Request, status: int, from_url: str, to_url: str) -> Request:
    """The request to send to a redirect's target. Both URLs are normalized.

    303, and 301 or 302 on a POST, become a GET without body. When the origin changes, cookies and all but the safe
    headers are dropped.
    Raises `FetchFailed` (not retryable) if the body would carry a `%{…}` variable, a secret, to another origin.
    """
    becomes_get = (status == _SEE_OTHER and request.method not in _SAFE_METHODS) or (
        status in (301, 302) and request.method == "POST"
    )
    leaves_origin = urls.origin(from_url) != urls.origin(to_url)
    if not becomes_get and not leaves_origin:
        return request
    headers, body = request.headers, request.body
    if becomes_get:
        body = None
        headers = tuple(h for h in headers if not h[0].lower().startswith("content-"))
    if leaves_origin:
        headers = tuple(h for h in headers if h[0].lower() in SAFE_HEADERS and not variable_names(h[1]))
        if body is not None and variable_names(body):
            raise FetchFailed(
                f"redirect to {urls.origin(to_url)} would send the body's %{{…}} variables to another site",
                kind="redirect",
                retryable=False,
                remedy="If you trust that site, use the target as the url of the locator.",
            )
    return Request(
        method="GET" if becomes_get else request.method,
        headers=headers,
        cookies=() if leaves_origin else request.cookies,
        userinfo="" if leaves_origin else request.userinfo,
        body=body,
        content_type=None if body is None else request.content_type,
    )
