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


class Change(NamedTuple):
    """A change that can be queued: its kind, what it is of, and the entries of the value and of the time."""

    kind: str
    subject: str
    value: str
    time: str | None


_UPGRADE = Change("code", "", "PendingUpgradeHash", "PendingUpgradeEta")
OF_VAULT = (_UPGRADE, Change("admin", "admin", "PendingAdmin", None))
OF_CONTROLLER = (
    *OF_VAULT,
    Change("oracle", "", "PendingOracle", "PendingOracleEta"),
    Change("terms", "close factor", "PendingCloseFactorScaled", "PendingCloseFactorEta"),
    Change("terms", "liquidation incentive", "PendingLiqIncentiveScaled", "PendingLiqIncentiveEta"),
)
OF_VAULT_AT_CONTROLLER = (Change("terms", "collateral factor", "PendingMarketCF", "PendingMarketCFEta"),)


def of_model(model: str) -> tuple[Change, ...]:
    """What can be queued for a rate model."""
    return (_UPGRADE._replace(subject=f"rate model {model}"),)


def keys(contract: str, changes: Iterable[Change], vault: str | None = None) -> Iterator[bytes]:
    """The ledger keys of what a contract has queued, for a vault where one is given."""
    values = () if vault is None else (address(vault),)
    for change in changes:
        yield variant_key(contract, change.value, *values)
        if change.time is not None:
            yield variant_key(contract, change.time, *values)


def take(
    collector: Collector,
    place: tuple[str, str | None],
    contract: str,
    changes: Iterable[Change],
    entries: Entries,
    vault: str | None = None,
) -> None:
    """Note what a contract has queued, of a market and its pool or None (``place``)."""
    for change in changes:
        value, *time = (entries.get(key) for key in keys(contract, (change,), vault))
        if value is not None:
            collector.take_pending(*place, change.kind, partial(_decode, change, value, *time))


def _decode(change: Change, entry: Entry, time: Entry | None = None) -> Queued:
    """The queued value, and from when it holds; without an entry of its time the contract refuses it."""
    if change.kind == "admin":
        return proposed(entry.value, change.subject)
    if change.kind == "terms":
        value = in_words(decode_amount(entry.value, change.value), 6)
    elif change.kind == "oracle":
        value = expect(entry.value, scval.ADDRESS, change.value)
    else:
        code: bytes = expect(entry.value, scval.BYTES, change.value)
        if len(code) != 32:
            raise DecodeError(f"{change.value}: a hash has 32 bytes, not {len(code)}")
        value = code.hex()
    shown = f"{change.subject}: {value}" if change.subject else value
    if time is None:
        return f"{shown}; its time is missing", None
    eta: int = expect(time.value, scval.U64, change.time or "")
    return shown, eta
