"""The name by which a robots.txt and a page's `<meta>` address the sender of a User-Agent header."""

import re

_PRODUCT = re.compile(r"[^\s/();,]+")
_COMPATIBLE = re.compile(r"\(compatible;\s*([^\s/();,]+)", re.IGNORECASE)


def product_token(user_agent: str) -> str:
    """The first product in lower case: `acme-prices` of `acme-prices/1.0 (+https://acme.example)`.

    The old form `Mozilla/5.0 (compatible; acmebot/1.0)` names it in its comment.
    """
    match = _COMPATIBLE.search(user_agent)
    if match is not None:
        return match[1].lower()
    product = _PRODUCT.search(user_agent)
    return product[0].lower() if product is not None else ""
