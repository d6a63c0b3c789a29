"""The Atom feeds of changes, and how many changes of whom they have."""

from __future__ import annotations

from xml.etree import ElementTree

from exporter.render.feeds import render_feeds
from exporter.tree.families import family_of
from tests.render.compared import A, B, Compared, Y, compared, pool, tables

ATOM = "{http://www.w3.org/2005/Atom}"


def feed_of(run: Compared, key: str) -> ElementTree.Element:
    files = {file.key: file.data for file in render_feeds(run.changes, run.watched, "made", "2026-11-22T00:00:00Z")}
    assert all(family_of(name) is not None for name in files)
    return ElementTree.fromstring(files[key])


def test_each_change_is_in_the_feeds_of_its_markets() -> None:
    """The feed has each change with an id, a time, a title and a link; a market's has its own, and every market one."""
    odd = 'A & <b> "x" \x00\ud7ff'
    before, after = tables(1, [pool(), pool(B)]), tables(2, [pool(), pool(A, Y, symbol=odd), pool(B)])
    document = compared(after, compared(before, None, "made"), "made")
    whole, own, other = (feed_of(document, key) for key in ("feed.atom", f"markets/{A}.atom", f"markets/{B}.atom"))
    entry = own.find(f"{ATOM}entry")

    assert entry is not None
    assert document.data[0].id == entry.findtext(f"{ATOM}id")
    assert f"New pool: {odd} in M{A[-1]}".replace("\x00", "�") == entry.findtext(f"{ATOM}title")
    assert "2026-11-18T11:06:42Z" == entry.findtext(f"{ATOM}updated") == own.findtext(f"{ATOM}updated")
    link = entry.find(f"{ATOM}link")
    assert link is not None
    assert f"../pools/{A}/{Y}.html" == link.get("href")
    assert 1 == len(whole.findall(f"{ATOM}entry"))
    assert [] == other.findall(f"{ATOM}entry")
    assert 3 == len({feed.findtext(f"{ATOM}id") for feed in (whole, own, other)})
    assert "2026-11-22T00:00:00Z" == other.findtext(f"{ATOM}updated")
    came = compared(tables(2, [pool(), pool(B)]), compared(tables(1, [pool()]), None, "made"), "made")
    gone = compared(tables(3, [pool()]), came, "made")  # its changes are kept, and so is its feed
    assert 1 == len(feed_of(gone, f"markets/{B}.atom").findall(f"{ATOM}entry"))
