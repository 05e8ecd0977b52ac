"""Pages whose rows do not stand in one block: what they show, and the rows that their recipes give."""

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from tests.process.site import Site, html
from tests.recipes.recipes import Recipe, Row
from tests.recipes.shop import Shop


class Story(NamedTuple):
    id: int
    title: str
    path: str
    points: int | None
    """None: an advertisement, without points, author and comments."""
    by: str = ""
    comments: int = 0


class Comment(NamedTuple):
    id: str
    author: str
    text: str
    answers: "tuple[Comment, ...]" = ()


STORIES = (
    Story(101, "Ask: Which kettle & why?", "/item/101", 57, "anna", 12),
    Story(102, "A field guide to <tea>", "https://tea.example/guide", 140, "bert", 1),
    Story(103, "Miller & Sons is hiring", "/item/103", None),
    Story(104, "Water, measured", "https://water.example/", 3, "cleo"),
    Story(105, "Cups of the north", "https://cups.example/", 88, "dora", 240),
)
FACTS = {
    "Darjeeling Gold": {"Weight": ["100 g", "250 g"], "Origin": ["India"]},
    "Ceylon N° 5": {"Weight": ["1 kg"], "Origin": ["Sri Lanka"], "Harvest": ["spring", "autumn"]},
}
SHOPS = {"Berlin": ["Mitte", "Wedding"], "Hamburg": ["Altona"], "Wien": ["Neubau", "Wieden", "Josefstadt"]}
COMMENTS = (
    Comment("c1", "anna", "First!", (Comment("c2", "bert", "No.", (Comment("c4", "anna", "Yes."),)),)),
    Comment("c3", "cleo", "Which water?", (Comment("c5", "dora", "Soft."), Comment("c6", "emil", "Hard."))),
)
PRICES = {
    ("Tea", "Darjeeling Gold"): ("1.116,90", "1.120,00", "1.150,50", "–"),
    ("Tea", "Ceylon N° 5"): ("842,83", "842,83", "850,00", "861,10"),
    ("Coffee", "Yirgacheffe"): ("2.229,90", "2.300,00", "2.310,00", "2.400,00"),
}
_PER_PAGE = 3


def serve_shapes(site: Site) -> None:
    """Put the pages on a site of the tests."""
    site["/front"], site["/front?p=2"] = (html(_front(at)) for at in (0, _PER_PAGE))
    site["/facts"] = html("".join(map(_facts_of, FACTS)))
    site["/shops"] = html("<h1>Our shops</h1>" + "".join(map(_shops_of, SHOPS)))
    site["/talk"] = html(f"<h1>Talk</h1><ul>{''.join(map(_comment, COMMENTS))}</ul>")
    site["/price-list"] = html(_price_list())


def _front(start: int) -> str:
    rows = ""
    for rank, story in enumerate(STORIES[start : start + _PER_PAGE], start + 1):
        below = f"<span class=age>{rank} hours ago</span>"
        if story.points is not None:
            talk = f"{story.comments}&nbsp;comments" if story.comments else "discuss"
            below = f"<span class=score>{story.points} points</span> by <a class=user>{story.by}</a> {below}"
            below += f" | <a href='/item/{story.id}'>{talk}</a>"
        rows += f"<tr class=story id={story.id}><td>{rank}.<td><a href='{story.path}'>{escape(story.title)}</a>"
        rows += f"<tr><td><td>{below}<tr class=space><td>"
    more = "" if start else "<tr><td><td><a class=more href='/front?p=2'>More</a>"
    return f"<table><tr><td><b>News</b></table><table>{rows}{more}</table>"


def _facts_of(product: str) -> str:
    facts = "".join(f"<dt>{name}{''.join(f'<dd>{v}' for v in values)}" for name, values in FACTS[product].items())
    return f"<h2>{product}</h2><p>Facts</p><dl>{facts}</dl>"


def _shops_of(town: str) -> str:
    return f"<h2>{town}</h2><ul>{''.join(f'<li>{shop}' for shop in SHOPS[town])}</ul>"


def _comment(one: Comment) -> str:
    answers = f"<ul>{''.join(map(_comment, one.answers))}</ul>" if one.answers else ""
    return f"<li class=comment id={one.id}><b>{one.author}</b><div class=text>{one.text}</div>{answers}</li>"


def _price_list() -> str:
    head = "<tr><th rowspan=2>Kind<th rowspan=2>Product<th colspan=2>2023<th colspan=2>2024"
    head += "<tr><th>H1<th>H2<th>H1<th>H2"
    body, before = "", ""
    for (kind, product), prices in PRICES.items():
        rows = sum(name == kind for name, _ in PRICES)
        body += f"<tr>{'' if kind == before else f'<td rowspan={rows}>{kind}'}"
        body += f"<td><a href='/p/{product[:4].lower()}'>{product}</a>{''.join(f'<td>{price}' for price in prices)}"
        before = kind
    return f"<table class=prices><thead>{head}</thead>{body}</table>"


def _stories(shop: Shop) -> Iterable[Row]:
    for story in STORIES:
        talked = story.comments or None
        url = story.path if "://" in story.path else shop.origin + story.path
        yield {
            "id": story.id,
            "title": story.title,
            "url": url,
            "points": story.points,
            "by": story.by,
            "comments": talked,
        }


def _facts(_shop: Shop) -> Iterable[Row]:
    for product, facts in FACTS.items():
        for name, values in facts.items():
            for value in values:
                yield {"product": product, "name": name, "value": value}


def _shops(_shop: Shop) -> Iterable[Row]:
    for town, shops in SHOPS.items():
        for place, shop in enumerate(shops, 1):
            yield {"town": town, "shop": shop, "place": place}


def _comments(_shop: Shop) -> Iterable[Row]:
    def walk(comments: Iterable[Comment], parent: str, depth: int) -> Iterable[Row]:
        for one in comments:
            yield {"id": one.id, "parent": parent, "depth": depth, "author": one.author, "text": one.text}
            yield from walk(one.answers, one.id, depth + 1)

    yield from walk(COMMENTS, "", 0)


def _prices(shop: Shop) -> Iterable[Row]:
    def number(text: str) -> str:
        return text.replace(".", "").replace(",", ".").replace("–", "")

    for (kind, product), prices in PRICES.items():
        first, *_, last = map(number, prices)
        url = f"{shop.origin}/p/{product[:4].lower()}"
        yield {"kind": kind, "product": product, "url": url, "first": first, "last": last}


SHAPE_RECIPES = (
    Recipe("pairs", "Rows in pairs", "story", _stories),
    Recipe("terms", "Terms and definitions", "fact", _facts),
    Recipe("headings", "Headings above lists", "shop", _shops),
    Recipe("tree", "A tree of comments", "comment", _comments),
    Recipe("price_list", "A price list with two heading rows", "price", _prices),
)
