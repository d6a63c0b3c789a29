"""Reads histories of time buckets for answers: from the newest document through the pages of older buckets."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from exporter.serve.assistant.dates import Period, is_in
from exporter.serve.assistant.form import Json, place_in
from exporter.serve.assistant.tree_reader import TreeReader
from exporter.tree.families import BUCKET_PAGE, HISTORY, TOTALS_PAGE, Family, totals_key

MOST_PAGES = 60
"""The most pages of older buckets that are read for one answer."""

SHORT_BUCKET = (
    *("start_time", "comparable_supply_apy_bps", "realized_supply_apy_bps"),
    *("comparable_borrow_apy_bps", "realized_borrow_apy_bps", "utilization_bps"),
    *("mean_comparable_supply_apy_bps", "mean_comparable_borrow_apy_bps"),
    *("best_comparable_supply_apy_bps", "best_comparable_borrow_apy_bps"),
    *("tvl_usd_cents", "supplied_usd_cents", "borrowed_usd_cents", "observation_count"),
)
"""The fields of a bucket in short histories. Yields are compounded alike, because an answer may compare protocols."""


class History(NamedTuple):
    """A published history of time buckets.

    Attributes:
        key: the key of the document with the newest buckets.
        pages: the family of the pages with older buckets.
        facts: what the history is of, as an answer says it.
    """

    key: str
    pages: Family
    facts: Json


class Buckets(NamedTuple):
    """Some buckets of a history, ascending, at the ledger of a run. ``goes_on`` says whether there are older ones.

    ``begins`` is when the oldest bucket of the whole history begins, if all of it was looked at and it has one.
    """

    ledger: int
    buckets: list[Json]
    goes_on: bool
    begins: str | None

    def facts(self, times: Period | None) -> Json:
        """What an answer says of all buckets of a period, and of a time for which there are none."""
        facts: Json = {}
        if not self.goes_on and self.begins is None:
            facts["history_begins"] = "no bucket has closed yet"
        elif self.begins is not None and times is not None and times.start < datetime.fromisoformat(self.begins):
            facts["history_begins"] = self.begins
        return facts | (
            {} if times is None or self.goes_on or not self.buckets else {"over_all": _over_all(self.buckets)}
        )


def history_of_pool(market: str, pool: str, bucket: str) -> History:
    """The history of a pool, by its market's address and its id."""
    key = HISTORY.key(market=market, pool=pool, bucket=bucket)
    return History(key, BUCKET_PAGE, {"market": market, "pool": pool, "bucket": bucket})


def history_of_totals(scope: str, name: str) -> History:
    """The history of the totals of a market, a token, a protocol or the network, in buckets of a day."""
    return History(totals_key(scope, name), TOTALS_PAGE, {"scope": scope, "id": name, "bucket": "1d"})


async def read_buckets(
    tree: TreeReader, history: History, times: Period | None, count: int, cursor: str | None
) -> Buckets:
    """Read the newest buckets that begin in a period, at least ``count`` after the cursor if there are so many.

    Raises `ConfigError` for a cursor of another run's list, and `SourceError` if a document cannot be read.
    """
    page = await tree.document(history.key)
    ledger = page["observed_ledger"]
    needed = place_in(cursor, ledger) + count
    buckets = _begin_in(times, page["data"])
    for _ in range(MOST_PAGES):
        if len(buckets) >= needed or not _goes_on(page, times):
            break
        page = await tree.document(history.pages.key(cursor=page["next_cursor"]))
        buckets = [*_begin_in(times, page["data"]), *buckets]
    is_oldest = page["next_cursor"] is None and page["data"]
    begins = page["data"][0]["start_time"] if is_oldest else None
    return Buckets(ledger, buckets, _goes_on(page, times), begins)


def short_bucket(bucket: Json) -> Json:
    """A bucket with the fields of short histories."""
    return {name: bucket[name] for name in SHORT_BUCKET if bucket.get(name) is not None}


def _over_all(buckets: list[Json]) -> Json:
    """How many buckets there are, and the mean, lowest and highest of their yields: what was paid, where it is known.

    The mean counts each bucket alike and is rounded down.
    """
    facts: Json = {"bucket_count": len(buckets), "first": buckets[0]["start_time"], "last": buckets[-1]["start_time"]}
    for side in ("supply", "borrow"):
        for name in (f"realized_{side}_apy_bps", f"comparable_{side}_apy_bps", f"mean_comparable_{side}_apy_bps"):
            values = [bucket[name] for bucket in buckets if bucket.get(name) is not None]
            if values:
                numbers = {
                    "mean_bps": sum(values) // len(values),
                    "lowest_bps": min(values),
                    "highest_bps": max(values),
                }
                facts[name.removesuffix("_bps")] = numbers | {"bucket_count": len(values)}
                break
    return facts


def _begin_in(times: Period | None, buckets: list[Json]) -> list[Json]:
    return [bucket for bucket in buckets if is_in(times, bucket["start_time"])]


def _goes_on(page: Json, times: Period | None) -> bool:
    """Whether there is a page before this one, and it may have buckets in the period."""
    buckets = page["data"]
    begins_before = times is not None and buckets and datetime.fromisoformat(buckets[0]["start_time"]) < times.start
    return page["next_cursor"] is not None and not begins_before
