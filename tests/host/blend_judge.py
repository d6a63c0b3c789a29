"""Our Blend math against what the deployed code answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from msgspec.structs import replace

from exporter.errors import ExactError
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.blend import math
from exporter.protocols.blend.layout import (
    Reserve,
    ReserveData,
    decode_reserve,
    reserve_config_key,
    reserve_data_key,
)

_DATA = ("b_rate", "d_rate", "ir_mod", "backstop_credit", "b_supply", "d_supply")
_CONFIG = ("decimals", "util", "r_base", "r_one", "r_two", "r_three", "reactivity")


@dataclass(frozen=True)
class Sample:
    """What the deployed code says about one reserve at one time, and the stored entries from which we compute it.

    ``answer`` is what ``get_reserve`` gave, or None with the host's ``error``.
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


@dataclass(frozen=True)
class Difference:
    """A field in which we and the deployed code disagree; None means no result."""

    where: str
    field: str
    ours: int | bool | str | None
    contract: int | bool | str | None


@dataclass(frozen=True)
class Accrued:
    """A reserve's state at a close time, with its totals in base units."""

    data: ReserveData
    total_supplied: int
    total_borrowed: int


def accrued(reserve: Reserve, close_time: int, by: ModuleType = math) -> Accrued:
    """A reserve at its close time. Raises `ExactError`."""
    data: ReserveData = by.accrue(reserve, by.rates_of(reserve), close_time)
    now = by.rates_of(replace(reserve, data=data))
    return Accrued(data, now.supplied, now.borrowed)


def compare(samples: Sequence[Sample], by: ModuleType = math) -> list[Difference]:
    """The fields that differ, by our math or by a mutant of it."""
    differences: list[Difference] = []
    for sample in samples:
        reserve, ours, reason = _reserve(sample), None, "a result"
        try:
            ours = accrued(reserve, sample.time, by)
        except ExactError as error:
            reason = str(error)
        if ours is None or sample.answer is None:
            if sample.answer is not None and _totals_overflow(sample.answer):
                continue  # we have to say what the totals are; the contract need not, where nothing accrues
            if (ours is None) != (sample.answer is None):
                differences.append(Difference(sample.where, "whether there is a result", reason, sample.error or "one"))
            continue
        view = Fields.of(sample.answer, "get_reserve")
        data, config = view.struct("data"), view.struct("config")
        pairs: dict[str, tuple[int | bool | str | None, int | bool | str | None]] = {
            "asset": (sample.asset, view.address("asset")),
            "scalar": (10**reserve.config.decimals, view.i128("scalar")),
            "last_time": (sample.time, data.u64("last_time")),
            **{name: (getattr(ours.data, name), data.i128(name)) for name in _DATA},
            **{name: (getattr(reserve.config, name), config.u32(name)) for name in _CONFIG},
            "enabled": (reserve.config.enabled, config.boolean("enabled")),
            "total_supplied": (ours.total_supplied, data.i128("b_supply") * data.i128("b_rate") // 10**12),
            "total_borrowed": (ours.total_borrowed, -(-data.i128("d_supply") * data.i128("d_rate") // 10**12)),
        }
        differences += [
            Difference(sample.where, field, our, contract)
            for field, (our, contract) in pairs.items()
            if our != contract
        ]
    return differences


def _totals_overflow(answer: ScVal) -> bool:
    data = Fields.of(answer, "get_reserve").struct("data")
    largest = max(data.i128("b_supply") * data.i128("b_rate"), data.i128("d_supply") * data.i128("d_rate"))
    return largest > (2**127 - 1) * 10**12


def _reserve(sample: Sample) -> Reserve:
    config = Entry(reserve_config_key(sample.market, sample.asset), sample.config)
    data = Entry(reserve_data_key(sample.market, sample.asset), sample.data)
    return decode_reserve(config, data, sample.backstop_rate)
