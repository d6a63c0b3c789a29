"""Links in the tree's web pages: each must lead to something that the tree answers."""

from __future__ import annotations

import re
from html import unescape
from itertools import islice
from urllib.parse import urljoin, urlsplit

from exporter.api.documents import SystemStatus
from exporter.api.problems import Problem
from exporter.api.routes import route
from exporter.check.whole import Whole

MAX_LINKS = 100_000
"""In one page; more are not followed."""

_HERE = "tree.invalid"
"""Stands for the host that the tree is served from."""

_LINK = re.compile(r"""\s(?:href|src)\s*=\s*["']([^"']*)["']""", re.IGNORECASE)


def links_of(key: str, data: bytes) -> tuple[str, ...]:
    """The links of a web page that stay inside the tree, as paths from its root with their query strings."""
    found = dict.fromkeys(islice(_LINK.findall(data.decode("utf-8", "replace")), MAX_LINKS))
    inside: dict[str, None] = {}
    for link in map(unescape, found):
        try:
            parts = urlsplit(urljoin(f"http://{_HERE}/{key}", link.strip()))
        except ValueError:
            inside[link] = None
            continue
        if (parts.scheme, parts.netloc) == ("http", _HERE) and not link.startswith("#"):
            inside[parts.path + (f"?{parts.query}" if parts.query else "")] = None
    return tuple(inside)


def check_links(whole: Whole, status: SystemStatus) -> None:
    """Follow the links of all web pages."""
    for key, links in whole.links.items():
        for link in links:
            path, _, query = link.partition("?")
            answer = route(path, query, sorted(status.page_sizes))
            if isinstance(answer, Problem):
                whole.faults.add(key, f"links to {link}, which is answered with {answer.status}")
            elif not any(map(whole.there, answer.keys)):
                whole.faults.add(key, f"links to {link}, but {answer.keys[0]} is not there")
