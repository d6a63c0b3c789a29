"""What Peridot's admins have queued (docs/protocols/peridot.md, "Keys"): a value in one entry, its time in another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import variant_key
from exporter.ledger.codec.fields import expect
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.observation import Entry
from exporter.protocols.collector import Collector, Queued, in_words, proposed
from exporter.protocols.peridot.layout import Entries, decode_amount

ADMIN = "Admin"

_FACTOR_DECIMALS = 6


class _Change(NamedTuple):
    """A change that can be queued: its kind, what it is of, and the entries of the value and of the time."""

    kind: str
    subject: str
    value: str
    time: str | None


_UPGRADE = _Change("code", "", "PendingUpgradeHash", "PendingUpgradeEta")
_ADMIN = _Change("admin", "admin", "PendingAdmin", None)
_OF_CONTROLLER = (
    _UPGRADE,
    _ADMIN,
    _Change("oracle", "", "PendingOracle", "PendingOracleEta"),
    _Change("terms", "close factor", "PendingCloseFactorScaled", "PendingCloseFactorEta"),
    _Change("terms", "liquidation incentive", "PendingLiqIncentiveScaled", "PendingLiqIncentiveEta"),
)
_OF_VAULT = (_UPGRADE, _ADMIN)
_FACTOR = _Change("terms", "collateral factor", "PendingMarketCF", "PendingMarketCFEta")


def _keys(contract: str, changes: Iterable[_Change], vault: str | None = None) -> Iterator[bytes]:
    values = () if vault is None else (address(vault),)
    for change in changes:
        yield variant_key(contract, change.value, *values)
        if change.time is not None:
            yield variant_key(contract, change.time, *values)


def controller_keys(controller: str) -> list[bytes]:
    """The ledger keys of a controller's admin, and of what is queued for all of its vaults."""
    return [variant_key(controller, ADMIN), *_keys(controller, _OF_CONTROLLER)]


def vault_keys(controller: str, vault: str) -> list[bytes]:
    """The ledger keys of a vault's admin, and of what is queued for it, also by its controller."""
    return [variant_key(vault, ADMIN), *_keys(vault, _OF_VAULT), *_keys(controller, (_FACTOR,), vault)]


def model_keys(model: str) -> list[bytes]:
    """The ledger keys of what is queued for a rate model."""
    return list(_keys(model, (_UPGRADE,)))


def take_controller(collector: Collector, controller: str, entries: Entries) -> None:
    """Note who decides over a controller, and what is queued for all of its vaults."""
    collector.take_admin(controller, "admin", entries.get(variant_key(controller, ADMIN)))
    _take(collector, controller, None, controller, _OF_CONTROLLER, entries)


def take_vault(collector: Collector, controller: str, vault: str, entries: Entries) -> None:
    """Note who decides over a vault, and what is queued for it."""
    collector.take_admin(controller, f"admin of vault {vault}", entries.get(variant_key(vault, ADMIN)))
    _take(collector, controller, vault, vault, _OF_VAULT, entries)
    _take(collector, controller, vault, controller, (_FACTOR,), entries, vault)


def take_model(collector: Collector, controller: str, vault: str, model: str, entries: Entries) -> None:
    """Note what is queued for the rate model of a vault."""
    _take(collector, controller, vault, model, (_UPGRADE._replace(subject=f"rate model {model}"),), entries)


def _take(
    collector: Collector,
    market: str,
    pool: str | None,
    contract: str,
    changes: Iterable[_Change],
    entries: Entries,
    vault: str | None = None,
) -> None:
    for change in changes:
        value, *time = (entries.get(key) for key in _keys(contract, (change,), vault))
        if value is not None:
            collector.take_pending(market, pool, change.kind, partial(_decode, change, value, *time))


def _decode(change: _Change, entry: Entry, time: Entry | None = None) -> Queued:
    """The queued value, and from when it holds; without an entry of its time the contract refuses it. Raises
    `DecodeError`.
    """
    if change.kind == "admin":
        return proposed(entry.value, change.subject)
    value = _shown(change, entry)
    shown = f"{change.subject}: {value}" if change.subject else value
    if time is None:
        return f"{shown}; its time is missing", None
    eta: int = expect(time.value, scval.U64, change.time or "")
    return shown, eta


def _shown(change: _Change, entry: Entry) -> str:
    if change.kind == "terms":
        return in_words(decode_amount(entry.value, change.value), _FACTOR_DECIMALS)
    if change.kind == "oracle":
        oracle: str = expect(entry.value, scval.ADDRESS, change.value)
        return oracle
    code: bytes = expect(entry.value, scval.BYTES, change.value)
    if len(code) != 32:
        raise DecodeError(f"{change.value}: a hash has 32 bytes, not {len(code)}")
    return code.hex()
