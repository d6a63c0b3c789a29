"""The sources of the site: templates, the environment that renders them, static files, and snippets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import jinja2

from exporter.errors import pluralize
from exporter.protocols import PROTOCOLS
from exporter.render.site import text
from exporter.render.site.growth import yield_rounding_bps
from exporter.render.template_files import environment_of, template_folder
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.problems import MISSING_PAGE, MISSING_PAGE_ASSETS


def protocol_title(protocol: str) -> str:
    """The title of a protocol for people, or its own name if this version does not know the protocol."""
    adapter = PROTOCOLS.get(protocol)
    return text.words(protocol) if adapter is None else adapter.words.coverage.title


def protocol_beside(protocol: str, market_name: str) -> str:
    """The title of a protocol next to its market's name, or an empty text if the name has the title already.

    What the title has in parentheses is another name, which does not count.
    """
    title = protocol_title(protocol)
    return "" if title.partition(" (")[0].casefold() in market_name.casefold() else title


def reward_price_words(source: str, protocol: str) -> str:
    """How a reward token's price is computed, in the words of the market's protocol."""
    adapter = PROTOCOLS.get(protocol)
    return text.reward_price_source_words(source, {} if adapter is None else adapter.words.reward_price_sources)


class _Environment(jinja2.Environment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """A value of a row by its key. Jinja itself would look for an attribute of the row first, which is slower."""
        if type(obj) is dict and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


@cache
def environment() -> jinja2.Environment:
    """The environment of the web pages. It escapes every value, and a name that is not defined is an error."""
    made = environment_of(_Environment)
    filters = (
        *(
            text.percent,
            text.exact_percent,
            text.dollars,
            text.dollars_at_most,
            text.worth,
            text.worth_at_most,
            text.exact_dollars,
            text.count,
            text.size,
            pluralize,
        ),
        *(
            text.amount,
            text.amount_at_least,
            text.exact_amount,
            text.round_amount,
            text.round_amount_at_most,
            text.price,
            text.small_amount,
            text.insolvency,
            text.is_serious,
            text.fixed_point,
            text.decimal,
            text.moment,
            text.moment_of,
            text.day,
        ),
        *(text.harmless, text.cut, text.words, text.no_price, text.why, text.short_address, text.prose, text.xml),
        *(protocol_title, protocol_beside),
        *(
            text.breakable,
            text.page_url,
            text.with_addresses,
            text.compounded,
            text.yields,
            text.rate_percent,
            yield_rounding_bps,
            text.factor_percent,
            text.first_digits,
            reward_price_words,
        ),
    )
    made.filters |= {function.__name__: function for function in filters}
    made.globals |= {
        "policy": POLICY,
        "name_length": text.NAME_LENGTH,
        "symbol_length": text.SYMBOL_LENGTH,
        "title_length": text.TITLE_LENGTH,
    }
    return made


MISSING_KEY = "404.html"

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)
"""The content security policy of all pages."""

CARD_KEY = "static/card.png"
"""The picture that a shared link shows."""

_UNDER_A_PREFIX = (
    "var d=document,p=location.pathname.split(/[/](?:markets|pools|tokens)[/]/),r=location.origin+(p[1]===undefined?"
    "p[0].slice(0,p[0].lastIndexOf('/')):p[0]);function add(n,o){d.head.append(Object.assign(d.createElement(n),o))}"
    "add('link',{rel:'icon',href:r+'/static/icon.svg'});"
    "add('link',{rel:'stylesheet',href:r+'/static/site.css',blocking:'render'});"
    "add('script',{src:r+'/static/site.js'});d.addEventListener('DOMContentLoaded',function(){d.body.dataset.root=r+'/';"
    "for(var a of d.links)a.href=r+a.getAttribute('href');for(var i of d.images)i.src=r+i.dataset.src})"
)
"""A script that makes the links of a page work that a static host sends for any missing address.

It takes what is before the folder of pages in the address, and puts that before the page's links.
"""


def missing_page(public_url: str | None) -> str:
    """The page that a static host sends for an address without a page. Its links work under any prefix.

    The prefix is that of the public URL. If that is not known, a script of the page finds the prefix; the page's policy
    allows the script by its digest.
    """
    if public_url is not None:
        return MISSING_PAGE.replace("=/", f"={urlsplit(public_url).path}/")
    digest = b64encode(sha256(_UNDER_A_PREFIX.encode()).digest()).decode()
    policy = f'<meta http-equiv=Content-Security-Policy content="{POLICY}">'.replace(
        "script-src 'self'", f"script-src 'self' 'sha256-{digest}'"
    )
    own = f"<script>{_UNDER_A_PREFIX}</script><noscript>{MISSING_PAGE_ASSETS.partition('<script')[0]}</noscript>"
    # An image with an address would be asked for before the script knows the prefix.
    return MISSING_PAGE.replace(MISSING_PAGE_ASSETS, policy + own).replace("<img src=", "<img data-src=")


def static_files(public_url: str | None) -> Iterator[RenderedFile]:
    """The files that all runs of a version share: those that pages load, and the page for missing addresses."""
    yield RenderedFile(MISSING_KEY, missing_page(public_url).encode(), FileKind.DOCUMENT)
    for path in sorted((template_folder() / "static").iterdir()):
        yield RenderedFile(f"static/{path.name}", path.read_bytes(), FileKind.DOCUMENT)


# The snippets of the data page are runnable files with one placeholder: the address of the tree.

PLACEHOLDER = "{{ base_url }}"
"""Placeholder for the tree's root: a URL or the path of a folder, without a slash at its end."""

EXAMPLE_BASE = "https://markets.example.org"
"""The address that a page shows until its script fills in the page's own."""

_TITLES = {
    "duckdb.sql": "DuckDB",
    "polars.py": "Polars",
    "pandas.py": "pandas",
    "pyspark.py": "PySpark",
    "curl.sh": "curl",
    "fetch.mjs": "JavaScript",
}


TOKEN_PLACEHOLDER = "{{ token }}"
"""Placeholder, in the lines of the first plot, for the contract of the token that they plot."""

_FIRST_PLOT = {"duckdb.sql": "DuckDB", "polars.py": "Polars", "pandas.py": "pandas", "r.R": "R"}


@cache
def first_plot() -> dict[str, str]:
    """The lines of the first plot by program, with `PLACEHOLDER` and `TOKEN_PLACEHOLDER`. docs/history.md has them."""
    folder = template_folder() / "first-plot"
    return {title: (folder / f"{name}.j2").read_text("utf-8").rstrip("\n") for name, title in _FIRST_PLOT.items()}


@cache
def snippets() -> dict[str, list[str]]:
    """All snippets by title, in the order of the page. Each is the pieces of its text between the placeholders."""
    folder = template_folder() / "snippets"
    return {
        title: (folder / f"{name}.j2").read_text("utf-8").rstrip("\n").split(PLACEHOLDER)
        for name, title in _TITLES.items()
    }
