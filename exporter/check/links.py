"""Links in the tree's web pages: each must lead to something that the tree answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import unescape
from itertools import islice
from urllib.parse import urljoin, urlsplit

from exporter.check.whole import Whole
from exporter.tree.documents import SystemStatus
from exporter.tree.problems import Problem
from exporter.tree.routes import route

MAX_LINKS = 100_000
"""In one page; more are not followed."""

_HERE = "tree.invalid"
"""Stands for the host that the tree is served from."""

_LINK = re.compile(r"""\s(?:href|src)\s*=\s*["']([^"']*)["']""", re.IGNORECASE)


def links_of(key: str, data: bytes) -> tuple[str, ...]:
    """The links of a web page that stay inside the tree, as paths from its root with their query strings."""
    found = dict.fromkeys(islice(_LINK.findall(data.decode("utf-8", "replace")), MAX_LINKS))
    folder = key[: key.rfind("/") + 1]
    inside = (_inside(folder, link) for link in map(unescape, found) if not link.startswith("#"))
    return tuple(dict.fromkeys(link for link in inside if link is not None))


@lru_cache(maxsize=1 << 14)
def _inside(folder: str, link: str) -> str | None:
    """Where a link leads from a page in a folder; None outside the tree. The pages of a folder share most of theirs."""
    try:
        parts = urlsplit(urljoin(f"http://{_HERE}/{folder}", link.strip()))
    except ValueError:
        return link
    if (parts.scheme, parts.netloc) != ("http", _HERE):
        return None
    return parts.path + (f"?{parts.query}" if parts.query else "")


def check_links(whole: Whole, status: SystemStatus) -> None:
    """Follow the links of all web pages, each link once."""
    sizes = sorted(status.page_sizes)
    faults: dict[str, str | None] = {}
    for key, links in whole.links.items():
        for link in links:
            if link not in faults:
                faults[link] = _fault(whole, link, sizes)
            if (fault := faults[link]) is not None:
                whole.faults.add(key, fault)


def _fault(whole: Whole, link: str, sizes: Sequence[int]) -> str | None:
    path, _, query = link.partition("?")
    answer = route(path, query, sizes)
    if isinstance(answer, Problem):
        return f"links to {link}, which is answered with {answer.status}"
    if not any(map(whole.there, answer.keys)):
        return f"links to {link}, but {answer.keys[0]} is not there"
    return None
