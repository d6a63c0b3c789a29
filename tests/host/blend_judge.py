"""Our Blend math against what the deployed code answers, for any number of states at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from exporter import exact_columns as exact
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.blend import math
from exporter.protocols.blend.layout import decode_reserve, reserve_config_key, reserve_data_key

Project = Callable[[pl.DataFrame], pl.DataFrame]

_ACCRUED = ("b_rate", "d_rate", "ir_mod", "backstop_credit")
_CONFIG = ("decimals", "util", "r_base", "r_one", "r_two", "r_three", "reactivity")


@dataclass(frozen=True)
class Sample:
    """What the deployed code says of one reserve at one time, and the stored entries that we compute it from.

    ``answer`` is what ``get_reserve`` gave, or None with the host's ``error``. ``free`` is the reserve's total supply
    less its total liabilities as the contract computes them, where it was asked for: ``gulp`` gives what the pool
    holds less that.
    """

    where: str
    market: str
    asset: str
    time: int
    config: RawEntry
    data: RawEntry
    backstop_rate: int
    answer: ScVal | None
    error: str | None
    free: int | None = None


@dataclass(frozen=True)
class Difference:
    """A field in which we and the deployed code disagree; None means no result."""

    where: str
    field: str
    ours: int | bool | str | None
    contract: int | bool | str | None


def compare(samples: Sequence[Sample], project: Project = math.project) -> list[Difference]:
    """The fields that differ; all samples go through the math in one frame, each with its own close time."""
    differences: list[Difference] = []
    rows = [_row(sample) for sample in samples]
    projected, failures = exact.set_aside_failures(frame_of(rows), project)
    computed = iter(projected.iter_rows(named=True))
    for at, sample in enumerate(samples):
        ours = None if at in failures else next(computed)
        if ours is None or sample.answer is None:
            if sample.answer is not None and _totals_overflow(sample.answer):
                continue  # we have to say what the totals are; the contract need not, where nothing accrues
            if (ours is None) != (sample.answer is None):
                reason = str(failures.get(at)) if ours is None else "a result"
                differences.append(Difference(sample.where, "whether there is a result", reason, sample.error or "one"))
            continue
        reserve = Fields.of(sample.answer, "get_reserve")
        data, config = reserve.struct("data"), reserve.struct("config")
        row = rows[at]
        pairs: dict[str, tuple[int | bool | str | None, int | bool | str | None]] = {
            "asset": (sample.asset, reserve.address("asset")),
            "scalar": (10 ** row["decimals"], reserve.i128("scalar")),
            "last_time": (sample.time, data.u64("last_time")),
            **{name: (ours[f"accrued_{name}"], data.i128(name)) for name in _ACCRUED},
            **{name: (row[name], data.i128(name)) for name in ("b_supply", "d_supply")},
            **{name: (row[name], config.u32(name)) for name in _CONFIG},
            "enabled": (row["enabled"], config.boolean("enabled")),
            "total_supplied": (ours["total_supplied"], data.i128("b_supply") * data.i128("b_rate") // 10**12),
            "total_borrowed": (ours["total_borrowed"], -(-data.i128("d_supply") * data.i128("d_rate") // 10**12)),
        }
        if sample.free is not None:
            pairs["total_supplied - total_borrowed"] = (ours["total_supplied"] - ours["total_borrowed"], sample.free)
        differences += [
            Difference(sample.where, field, our, contract)
            for field, (our, contract) in pairs.items()
            if our != contract
        ]
    return differences


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The raw columns of reserves."""
    schema = {**dict.fromkeys((*math.RESERVE_COLUMNS, "close_time"), pl.Int128()), "generation": pl.String()}
    return exact.frame({name: [row[name] for row in rows] for name in schema}, schema)


def _totals_overflow(answer: ScVal) -> bool:
    data = Fields.of(answer, "get_reserve").struct("data")
    largest = max(data.i128("b_supply") * data.i128("b_rate"), data.i128("d_supply") * data.i128("d_rate"))
    return largest > (2**127 - 1) * 10**12


def _row(sample: Sample) -> dict[str, Any]:
    config = Entry(reserve_config_key(sample.market, sample.asset), sample.config)
    data = Entry(reserve_data_key(sample.market, sample.asset), sample.data)
    row = decode_reserve(config, data)
    return {**row, "close_time": sample.time, "bstop_rate": sample.backstop_rate}
