"""Finds the links of a web page that stay inside the tree."""

from __future__ import annotations

import re
from functools import lru_cache
from html import unescape
from itertools import islice
from posixpath import join, normpath

MAX_LINKS = 100_000
"""Largest number of links of one web page that are followed."""

_OUTSIDE_LINK = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
"""The beginning of a link that leaves the tree: a scheme or a host."""

_LINK = re.compile(r"""\s(?:href|src)\s*=\s*["']([^"']*)["']""", re.IGNORECASE)


def links_of(key: str, data: bytes) -> tuple[str, ...]:
    """The links of a web page that stay inside the tree, as paths from its root with their query strings."""
    links = dict.fromkeys(islice(_LINK.findall(data.decode("utf-8", "replace")), MAX_LINKS))
    folder = "".join(f"{name}/" for name in key.split("/")[:-1])
    paths = (_path_inside(folder, unescape(link)) for link in links)
    return tuple(dict.fromkeys(path for path in paths if path is not None))


@lru_cache(maxsize=1 << 12)
def _path_inside(folder: str, link: str) -> str | None:
    """The path that a link on a page of this folder leads to; None if it leaves the tree."""
    target = link.strip().partition("#")[0]
    if not target or _OUTSIDE_LINK.match(target):
        return None
    path, mark, query = target.partition("?")
    joined = normpath(join("/", folder, path))
    is_folder = path[-1:] in ("", "/") and joined != "/"  # normpath removes the slash at the end
    return joined + ("/" if is_folder else "") + mark + query
