"""Changes that Peridot's contracts can queue: their entries, and what these say in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from exporter.errors import DecodeError
from exporter.exact import short_decimal_text
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import variant_key
from exporter.ledger.codec.fields import expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.observation import Entry
from exporter.protocols.collector import Queued, proposed
from exporter.protocols.peridot.layout import decode_amount


class QueueableChange(NamedTuple):
    """A change that a contract can queue."""

    kind: str
    """The kind of `exporter.protocols.base.Pending`."""
    subject: str
    """What changes, in words; empty if the kind says it."""
    value: str
    """The name of the entry that has the queued value."""
    time: str | None
    """The name of the entry that has the time; None if the change has none."""


ADMIN = "Admin"
UPGRADE = QueueableChange("code", "", "PendingUpgradeHash", "PendingUpgradeEta")
OF_VAULT = (UPGRADE, QueueableChange("admin", "admin", "PendingAdmin", None))
OF_CONTROLLER = (
    *OF_VAULT,
    QueueableChange("oracle", "", "PendingOracle", "PendingOracleEta"),
    QueueableChange("terms", "close factor", "PendingCloseFactorScaled", "PendingCloseFactorEta"),
    QueueableChange("terms", "liquidation incentive", "PendingLiqIncentiveScaled", "PendingLiqIncentiveEta"),
)
OF_VAULT_AT_CONTROLLER = (QueueableChange("terms", "collateral factor", "PendingMarketCF", "PendingMarketCFEta"),)


def queued_keys(contract: str, changes: Iterable[QueueableChange], *values: ScVal) -> Iterator[bytes]:
    """The ledger keys of the changes that a contract may have queued.

    ``values`` is the vault, if the contract is a controller and the changes concern one of its vaults.
    """
    for change in changes:
        yield variant_key(contract, change.value, *values)
        if change.time is not None:
            yield variant_key(contract, change.time, *values)


def decode_queued(change: QueueableChange, entry: Entry, time: Entry | None = None) -> Queued:
    """A queued change in words, and the time from which it can be put into effect. Raises `DecodeError`.

    The contract refuses a change whose time has no entry, so the words then say that the time is missing.
    """
    if change.kind == "admin":
        return proposed(entry.value, change.subject)
    if change.kind == "terms":
        value = short_decimal_text(decode_amount(entry.value, change.value), 6)
    elif change.kind == "oracle":
        value = expect(entry.value, scval.ADDRESS, change.value)
    else:
        code: bytes = expect(entry.value, scval.BYTES, change.value)
        if len(code) != 32:
            raise DecodeError(f"{change.value}: a hash has 32 bytes, not {len(code)}")
        value = code.hex()
    words = f"{change.subject}: {value}" if change.subject else value
    if time is None:
        return f"{words}; its time is missing", None
    return words, expect(time.value, scval.U64, change.time or "")
