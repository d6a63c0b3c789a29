"""Runs of the history alone, over a store: record, carry the buckets on, keep what the next run needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import polars as pl
from msgspec.structs import asdict, replace

from exporter.exact import decimal_text
from exporter.history.buckets import observations_of
from exporter.history.manifest import read_history_manifest
from exporter.history.series import Series, catch_up, load_series, save_series
from exporter.stores.store import Store
from exporter.tree.families import totals_key
from exporter.tree.files import FileKind, RenderedFile
from tests.history.bucket_judge import INDEX_DECIMALS, LENGTHS, Observation, buckets_of, iso, pages_of, totals_of
from tests.history.frames import pools_frame, record
from tests.render.rendering import contract

MONDAY = 1_795_392_000  # 2026-11-23T00:00:00Z


def frame_of(observations: Iterable[Observation], ledger: int, time: int) -> pl.DataFrame:
    """The pools frame of one run."""
    rows = [
        asdict(item)
        | {
            "token_address": item.token,
            "market_status": "active" if item.active else "frozen",
            "supply_index": item.supply_index,
            "borrow_index": item.borrow_index,
            "comparable_supply_apy_bps": item.comparable_supply_apy_bps,
            "comparable_borrow_apy_bps": item.comparable_borrow_apy_bps,
            "index_decimals": INDEX_DECIMALS,
            "supply_reward_index": item.reward_index,
            "reward_decimals": 7,
            "reward_token_decimals": 7,
            "oracle_price": None if item.price is None else item.price[0],
            "oracle_decimals": None if item.price is None else item.price[1],
            "oracle_price_usd": None if item.price is None else decimal_text(*item.price),
        }
        for item in sorted(observations, key=lambda item: item.place)
    ]
    return pools_frame(rows, ledger, time)


def observe(random: Random, places: Sequence[tuple[str, str]], ledger: int, time: int) -> list[Observation]:
    """Every pool at a ledger, with numbers of all sizes; some have no price, and oracles change their decimals."""
    return [_observation(random, place, ledger, time) for place in places]


def _observation(random: Random, place: tuple[str, str], ledger: int, time: int) -> Observation:
    market, pool = place
    observation = Observation(
        market=market,
        pool=pool,
        ledger=ledger,
        time=time,
        total_supplied=random.randrange(10 ** random.randint(1, 38)),
        total_borrowed=random.randrange(10 ** random.randint(1, 20)),
        supply_apy_bps=random.randrange(2_000),
        borrow_apy_bps=random.randrange(3_000),
        utilization_bps=random.randrange(10_001),
        tvl_usd_cents=None,
        token=pool,
        protocol=("blend", "slender")[market > contract(1)],
        active=random.random() < 0.9,
        decimals=random.choice([0, 7, 18]),
        price=(random.randrange(1, 10 ** random.randint(1, 30)), random.choice([7, 7, 7, 14])),
        listed=random.choice([True, True, True, False, None]),
    )
    value = observation.worth(observation.total_supplied) + random.randrange(10 ** random.randint(1, 9))
    absurd = max(value, observation.worth(observation.total_borrowed)) >= 10**38
    return (
        replace(observation, price=None)
        if absurd or random.random() < 0.2
        else replace(observation, tvl_usd_cents=value)
    )


def places(markets: int, pools: int) -> list[tuple[str, str]]:
    """Made pools: each market has this many."""
    return [(contract(market + 1), contract(100 + pool)) for market in range(markets) for pool in range(pools)]


@dataclass
class Historian:
    """Makes one run after another, and remembers everything that was observed."""

    store: Store
    observations: list[Observation] = field(default_factory=list)
    now: int = 0

    def carry_on(self, observed: Sequence[Observation], ledger: int, time: int) -> tuple[Series, list[RenderedFile]]:
        """The histories that a run makes. Nothing is written."""
        manifest = read_history_manifest(self.store)
        series = load_series(self.store, manifest, ledger)
        frame = observations_of(frame_of(observed, ledger, time))
        files = [
            *catch_up(self.store, manifest, ledger, series),
            *series.extend(frame, ledger, time),
            *series.newest_documents(),
        ]
        return series, files

    def run(self, observed: Sequence[Observation], ledger: int, time: int, *, keep: bool = True) -> list[RenderedFile]:
        """A whole run, in the order in which it writes; without `keep` it dies before it keeps its state."""
        series, files = self.carry_on(observed, ledger, time)
        for file in files:
            if file.kind is FileKind.PAGE:
                self.store.put_new(file.key, file.data)
        record(self.store, frame_of(observed, ledger, time), ledger, time)
        for file in files:
            if file.kind is FileKind.DOCUMENT:
                self.store.put(file.key, file.data)
        if keep:
            save_series(self.store, series)
        self.observations += observed
        self.now = time
        return files

    def walk(self, place: tuple[str, str], bucket: str) -> Iterator[Mapping[str, Any]]:
        """The pages of a history as a reader finds them, the newest first; of a pool, or of a scope and its id."""
        scope, name = place
        is_total = scope in ("market", "token", "protocol", "network")
        key = totals_key(scope, name) if is_total else f"v1/assets/{scope}/{name}/history/{bucket}.json"
        newest: Mapping[str, Any] = {}
        for _ in range(10_000):
            stored = self.store.get(key)
            assert stored is not None, key
            page = json.loads(stored.data)
            newest = newest or page
            yield page
            if page["next_cursor"] is None:
                return
            key = f"v1/buckets/{'totals/' if is_total else ''}{page['next_cursor']}.json"
            if bucket == "5m" and page is not newest and self.store.get(key) is None:
                return  # more than a day ago
        raise AssertionError("the walk does not end")

    def assert_as_recomputed(self) -> int:
        """Assert that every page is what plain Python computes from all observations; returns the pages."""
        compared = 0
        for bucket, length in LENGTHS.items():
            histories = buckets_of(self.observations, length)
            if bucket == "1d":
                histories |= totals_of(self.observations, length)
            for place, rows in histories.items():
                pages = list(self.walk(place, bucket))
                expected = pages_of(rows, bucket, self.now)
                if bucket == "5m":  # the last day must be there; of what is before it some still is
                    day = sum(page[-1]["end_time"] > iso(self.now - 86_400) for page in expected[1:])
                    assert day < len(pages), (place, bucket)
                    expected = expected[: len(pages)]
                found = [[{name: row[name] for name in rows[0]} for row in page["data"]] for page in pages]
                assert expected == found, (place, bucket)
                ends = [page["data"][-1]["last_ledger"] if page["data"] else rows[0]["first_ledger"] for page in pages]
                assert ends == [page["observed_ledger"] for page in pages], (place, bucket)
                compared += len(pages)
        return compared
