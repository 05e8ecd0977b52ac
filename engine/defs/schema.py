"""The JSON Schema of the def language, for editors: derived from the models, with rules added by hand.

The schema describes one file. References between files are checked by `crawl-console check`.
"""

from collections.abc import Mapping
from typing import Any

from engine.defs.field_conflicts import MARKED_TYPES, NESTING_EXCLUDES
from engine.defs.language import Defs
from engine.defs.steps import STEP_SETS

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_EXAMPLES: Mapping[str, Mapping[str, list[Any]]] = {
    "SitemapTerm": {
        "url": ["https://shop.example/sitemap.xml"],
        "allow": [["/p/"]],
        "deny": [["/old/"]],
        "links": [[{"allow": ["/p/"], "linkGroup": "detail"}]],
    },
    "SitemapLinkTerm": {"allow": [["/p/"]], "deny": [["/old/"]], "linkGroup": ["detail"], "priority": [0, 10]},
    "LocatorTerm": {
        "name": ["catalogue"],
        "url": ["https://shop.example/", "/catalogue/page-{1..50}.html"],
        "urls": [["/tea", "/coffee"]],
        "from": ["seeds.txt", "-"],
        "sitemap": ["https://shop.example/sitemap.xml"],
        "headers": [{"Authorization": "Bearer %{env.SHOP_TOKEN}"}],
        "cookies": [{"session": "%{env.SHOP_SESSION}"}],
        "form": [{"q": "green tea"}, {"q": "{tea,coffee}", "page": "{1..3}"}],
        "json": [{"page": 1}],
    },
    "TaskGroupTerm": {
        "live": ["P1D", "PT12H", "PT0S"],
        "maxDepth": [5],
        "maxPages": [10000],
        "priority": [0, 10],
    },
    "TaskTerm": {"dataDef": ["book"], "steps": sorted(STEP_SETS)},
    "QueryTerm": {"block": ["li.offer", "xpath: //table//tr[td]", "jmespath: items", "jsonld: Product"]},
    "FieldTerm": {
        "selector": ["h3 a", "xpath: .//a[@rel='author']", "jmespath: price.amount", "jsonld: Product.offers.price"],
        "attribute": ["text", "ownText", "html", "outerHtml", "href", "src", "title"],
        "join": ["|", " "],
        "replace": [[["[€ ]", ""]]],
        "match": ["[0-9.]+"],
        "split": [",", " / "],
        "decimalMark": [","],
        "groupMark": [".", " "],
        "format": ["%d %B %Y", "%Y-%m-%d", "any"],
        "locale": ["de", "en-GB"],
        "value": ["%{document.url}", "%{locator.name}", "%{run.time}"],
        "default": ["", 0, False],
    },
    "FilterTerm": {"pattern": ["", "0\\.00"]},
    "LinkTerm": {
        "selector": ["li.next a", "a[href]"],
        "attribute": ["href", "src"],
        "linkGroup": ["detail"],
        "carry": [["sku"]],
        "url": ["/item/%{field.id}"],
        "form": [{"q": "%{field.sku}"}],
        "allow": [["/catalogue/"]],
        "deny": [["/login", "[?&]sort="]],
        "maxDepth": [3],
        "priority": [0, 10],
    },
    "NextTerm": {"url": ["/api/items?cursor=%{cursor}", "%{next}"]},
    "DataDefTerm": {"key": [["sku"], ["url"]]},
    "HostTerm": {
        "delay": [0.5, 2],
        "concurrency": [2, 8],
        "headers": [{"Accept-Language": "en"}],
        "cookies": [{"consent": "yes"}],
        "drop": [["utm_*", "gclid", "sessionid"]],
        "proxy": ["%{env.PROXY}", ["%{env.PROXY_1}", "%{env.PROXY_2}"]],
    },
    "AuthTerm": {
        "basic": ["user:%{env.PASSWORD}"],
        "bearer": ["%{env.TOKEN}"],
        "digest": ["user:%{env.PASSWORD}"],
    },
    "TlsTerm": {"ca": ["ca.pem"], "client": ["client.pem"]},
    "LoginTerm": {
        "url": ["/login", "https://id.shop.example/login"],
        "form": [{"user": "%{env.SHOP_USER}", "password": "%{env.SHOP_PASSWORD}"}],
        "selector": ["form#login"],
        "check": [".logout", "a[href='/logout']"],
    },
    "BlockSignTerm": {"status": [403], "match": ["verify you are human"]},
    "AppenderTerm": {"dataDefs": [["book"]], "delimiter": [",", ";", "\t"], "path": ["books.csv"]},
    "Defs": {"baseUrl": ["https://shop.example/"]},
}
"""Example values for editors to offer."""


def _any_required(*keys: str) -> dict[str, Any]:
    return {"anyOf": [{"required": [key]} for key in keys]}


def _mutually_exclusive(key: str, *others: str) -> list[dict[str, Any]]:
    return [{"not": {"required": [key, other]}} for other in others]


def _type_required(*types: str) -> dict[str, Any]:
    return {"required": ["type"], "properties": {"type": {"enum": [*types]}}}


_KEY_CONSTRAINTS: Mapping[str, Mapping[str, Any]] = {
    "LocatorTerm": {
        **_any_required("url", "urls", "from", "sitemap"),
        "allOf": [*_mutually_exclusive("body", "form", "json"), *_mutually_exclusive("form", "json")],
    },
    "DataDefTerm": _any_required("fields", "links"),
    "AuthTerm": {"minProperties": 1, "maxProperties": 1},
    "TlsTerm": {"minProperties": 1, "not": {"required": ["verify", "ca"], "properties": {"verify": {"const": False}}}},
    "LinkTerm": {
        **_any_required("selector", "url"),
        "allOf": [*_mutually_exclusive("url", "selector", "attribute"), *_mutually_exclusive("form", "json")],
    },
    "NextTerm": {**_any_required("url", "form", "json"), "allOf": _mutually_exclusive("form", "json")},
    "FieldTerm": {
        "allOf": [
            *_mutually_exclusive("value", "selector", "scope", "attribute", "all"),
            *_mutually_exclusive("fields", *NESTING_EXCLUDES),
        ],
        "if": {"required": ["format"], "properties": {"format": {"const": "any"}}},
        "then": {"required": ["locale"]},
        "dependentRequired": {"fields": ["selector"], "scope": ["selector"]},
        "dependentSchemas": {
            "format": _type_required("date"),
            "locale": {"required": ["format"], "properties": {"format": {"const": "any"}}},
            **{key: _type_required(*kinds) for key, kinds in MARKED_TYPES.items()},
        },
    },
}
"""Keys that require or exclude each other."""

_LISTS_OR_TEXTS = (("LinkTerm", "carry"), ("FieldTerm", "convert"), ("HostTerm", "proxy"))
"""Lists that may be written as their only item."""


def build_json_schema() -> dict[str, Any]:
    """The JSON Schema of one def file (draft 2020-12)."""
    schema = _strip_generated(Defs.model_json_schema())
    terms = {**schema.get("$defs", {}), "Defs": schema}
    for name, examples in _EXAMPLES.items():
        for key, values in examples.items():
            terms[name]["properties"][key]["examples"] = values
    for name, constraints in _KEY_CONSTRAINTS.items():
        terms[name].update(constraints)
    host_keys = terms["HostTerm"]["properties"]
    signs = host_keys["blocked"]
    host_keys["blocked"] = {"description": signs.pop("description"), "anyOf": [signs, {"const": False}]}
    locator_keys = terms["LocatorTerm"]["properties"]
    sitemap = locator_keys["sitemap"]
    url = {"type": ["string", "number"]}
    described = {key: sitemap.pop(key) for key in ("description", "examples")}
    locator_keys["sitemap"] = {**described, "anyOf": [url, sitemap]}
    for term, key in _LISTS_OR_TEXTS:
        of_list = terms[term]["properties"][key]
        described = {name: of_list.pop(name) for name in ("description", "examples") if name in of_list}
        terms[term]["properties"][key] = {**described, "anyOf": [of_list["items"], of_list]}
    return {"$schema": DIALECT, "title": "crawl-console defs", **schema}


def _strip_generated(part: Any) -> Any:
    """Removes pydantic's titles, which repeat the keys, and `default: null`, which is not a valid value."""
    if isinstance(part, list):
        return [_strip_generated(item) for item in part]
    if not isinstance(part, dict):
        return part
    stripped = {}
    for key, value in part.items():
        if key == "properties":  # these keys belong to the language, and one may be `title`
            stripped[key] = {name: _strip_generated(item) for name, item in value.items()}
        elif not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None):
            stripped[key] = _strip_generated(value)
    return stripped
