"""Walks: from each first page of each filter, in each size, to the end.

Every walk must give the rows of its filter, each once, in order, and in the very bytes in which the walks over all
pools give them. What all pools are is told by those walks themselves: most of them must agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from exporter.check.whole import Page, Whole, contradictions
from exporter.tree.documents import MarketSummary, PoolSnapshot, SystemStatus
from exporter.tree.families import EMPTY_PAGE_KEY, assets_folder, page_key

ALL = assets_folder(None, None)


def find_listing(whole: Whole, expected: Sequence[PoolSnapshot] | None = None) -> bool:
    """Find the listing of all pools, and judge each of its rows. False when no walk gives one.

    ``expected`` are its rows, where they are known otherwise.
    """
    walked = Counter(
        rows for name, page in sorted(whole.heads.get(ALL, {}).items()) if (rows := _collect(whole, page)) is not None
    )
    if not walked:
        whole.faults.add(f"{ALL}/index.json", "no walk over all pools comes to its end")
        return False
    [(listing, _)] = walked.most_common(1)
    whole.group(listing)
    whole.looked.pools = len(listing)
    names = [(row.market, row.pool) for row in whole.rows(ALL)]
    for before, after in pairwise(names):
        if after <= before:
            whole.faults.add(
                f"{ALL}/index.json", f"{' '.join(after)} stands after {' '.join(before)}; pools must ascend, each once"
            )
    for position in listing:
        row = whole.table.snapshots[position]
        for text in contradictions(row):
            whole.faults.add(whole.table.first_keys[position], f"{whole.table.name(position)}: {text}")
    if expected is not None:
        _compare(whole, expected)
    return True


def _compare(whole: Whole, expected: Sequence[PoolSnapshot]) -> None:
    found = whole.rows(ALL)
    if len(found) != len(expected):
        whole.faults.add(f"{ALL}/index.json", f"lists {len(found)} pools, and the tables have {len(expected)}")
    for has, wants in zip(found, expected, strict=False):
        whole.faults.add_all(f"{ALL}/index.json", (f"not as in the tables: {text}" for text in _fields(has, wants)))


def check_walks(whole: Whole, status: SystemStatus) -> None:
    """Walk from every first page, and see that every filter has its first pages, or an index that stands for them."""
    sizes = {f"limit/{size}": size for size in sorted(status.page_sizes)}
    sizes |= {"limit/0": 0, "index": status.default_page_size}
    if EMPTY_PAGE_KEY not in whole.seen and not whole.partial:
        whole.faults.add(EMPTY_PAGE_KEY, "is missing")
    markets = [assets_folder(summary.market, None) for summary in whole.of(MarketSummary).values()]
    folders = dict.fromkeys((ALL, *markets, *whole.by_folder))
    for folder in sorted(whole.heads.keys() - folders.keys()):
        market = folder.removeprefix("v1/assets/market/")
        if whole.partial and f"v1/markets/{market}.json" in whole.listed:
            continue  # a market without pools, whose document is not among the sample
        for name in whole.heads[folder]:
            whole.faults.add(f"{folder}/{name}.json", "no market or pool of the run belongs to this filter")
    for folder in folders:
        heads = whole.heads.get(folder, {})
        if not whole.partial:
            for name in sizes.keys() - heads.keys():
                key = f"{folder}/{name}.json"
                if key not in whole.seen and not _answered(whole, folder, name, sizes):
                    whole.faults.add(key, "is missing, and the listing's index.json has not the rows that belong there")
        for name in heads.keys() - sizes.keys():
            whole.faults.add(f"{folder}/{name}.json", f"is of a size that is not among page_sizes {status.page_sizes}")
        _walk_filter(whole, folder, {name: heads[name] for name in sizes if name in heads}, sizes)


def _answered(whole: Whole, folder: str, name: str, sizes: Mapping[str, int]) -> bool:
    """Whether a first page is left out because the index has the same bytes; or where nobody needs one of no rows."""
    if name == "limit/0" and "/token/" in folder and "/market/" in folder:
        return True
    index = whole.heads.get(folder, {}).get("index")
    if index is None:
        return f"{folder}/index.json" in whole.seen and name != "index"  # which is a fault of its own
    size = sizes[name]
    same_rows = index.rows == whole.by_folder.get(folder, ())[:size]
    return same_rows and (size == sizes["index"] or index.next_cursor is None)


def _walk_filter(whole: Whole, folder: str, heads: Mapping[str, Page], sizes: Mapping[str, int]) -> None:
    """All walks of one filter. A chain that several of them share is followed once."""
    rows = whole.by_folder.get(folder, ())
    default = sizes["index"]
    good: set[tuple[str, int, int]] = set()
    for name, page in heads.items():
        key, size, position = f"{folder}/{name}.json", sizes[name], 0
        follow = list[tuple[str, int, int]]()
        while True:
            expected = rows[position : position + size]
            if page.rows != expected:
                whole.faults.add(key, _difference(whole, page.rows, expected, f"{folder}/{name}.json", position))
                break
            position += len(expected)
            if page.next_cursor is None:
                if position < len(rows):
                    whole.faults.add(
                        key, f"the walk from {folder}/{name}.json ends here after {position} of {len(rows)} rows"
                    )
                else:
                    whole.looked.walks += 1
                    good.update(follow)
                break
            if position >= len(rows):
                whole.faults.add(key, f"next_cursor is {page.next_cursor}, though the last row stands here")
                break
            size = size or default
            step = (page.next_cursor, position, size)
            target = whole.pages.get(page.next_cursor)
            found = whole.there(page_key(page.next_cursor))
            if step in good:
                whole.looked.walks += 1
                good.update(follow)
                break
            if target is None:
                if not found:
                    whole.faults.add(key, f"next_cursor leads to {page_key(page.next_cursor)}, which is not there")
                break
            follow.append(step)
            key, page = page_key(page.next_cursor), target


def _collect(whole: Whole, page: Page) -> tuple[int, ...] | None:
    """The rows of a walk; None when it does not come to its end."""
    rows = list(page.rows)
    for _ in range(len(whole.pages) + 1):
        if page.next_cursor is None:
            return tuple(rows)
        following = whole.pages.get(page.next_cursor)
        if following is None:
            return None
        page = following
        rows += page.rows
    return None


def _difference(whole: Whole, found: tuple[int, ...], expected: tuple[int, ...], head: str, position: int) -> str:
    """How the rows of a page differ from those that should stand there."""
    where = f"in the walk from {head}"
    index = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), None)
    if index is None:
        return f"has {len(found)} rows, but {len(expected)} belong here {where} (from row {position})"
    has, wants = (whole.table.snapshots[rows[index]] for rows in (found, expected))
    if (has.market, has.pool) == (wants.market, wants.pool):
        return f"row {index} {where} differs from the listing of all pools: " + "; ".join(_fields(has, wants))
    twice = " a second time" if found[index] in found[:index] else ""
    return (
        f"row {index} {where} is {has.market} {has.pool}{twice}, where {wants.market} {wants.pool} belongs "
        f"(row {position + index} of the filter)"
    )


def _fields(has: PoolSnapshot, wants: PoolSnapshot) -> Iterator[str]:
    for name in PoolSnapshot.__struct_fields__:
        if getattr(has, name) != getattr(wants, name):
            yield f"{has.market} {has.pool}: {name} is {getattr(has, name)!r}, not {getattr(wants, name)!r}"
