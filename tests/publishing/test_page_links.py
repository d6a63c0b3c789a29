"""The links of web pages."""

from __future__ import annotations

from exporter.publishing.page_links import links_of


def test_links_that_stay_inside() -> None:
    """Links are paths from the root, with their queries; those with a scheme or a host lead elsewhere."""
    links = ("../x.html#y", "?a=1&amp;b", "/v1/", "#top", "//host/z", "https://host/z", "mailto:z")
    page = "".join(f'<a href="{link}">' for link in links).encode()

    assert ("/pools/x.html", "/pools/M/?a=1&b", "/v1/") == links_of("pools/M/p.html", page)
