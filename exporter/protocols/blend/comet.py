"""The pool of Comet whose shares are the backstop's token: what it holds, what a share and one BLND are worth.

Prices are in USDC, and every number is as the contracts compute it (docs/protocols/blend.md, "Price of BLND"): 7
decimals, each step rounded down. No value of a lending pool has any of it in it: the price of a thin pool can be moved
within one ledger.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import variant_key
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.observation import Entry

ONE = 10**7  # 7 decimals
_LP_PER_USDC = 5
"""The backstop takes USDC for a fifth of what the pool holds, whatever its weights say."""


def comet_keys(comet: str) -> tuple[bytes, bytes]:
    """The ledger keys of what the pool holds, by token, and of how many shares there are."""
    return variant_key(comet, "AllRecordData"), variant_key(comet, "TotalShares")


@dataclass(frozen=True, slots=True)
class Comet:
    """Balances and weights of the two tokens, and all shares; each above zero."""

    blnd: int
    blnd_weight: int
    usdc: int
    usdc_weight: int
    shares: int

    @property
    def blnd_in_usdc(self) -> int:
        """The price of one BLND in USDC without the fee: fl(fl(usdc / its weight) / fl(blnd / its weight))."""
        return self.usdc * ONE // self.usdc_weight * ONE // (self.blnd * ONE // self.blnd_weight)

    @property
    def blnd_per_share(self) -> int:
        return self.blnd * ONE // self.shares

    @property
    def usdc_per_share(self) -> int:
        return self.usdc * ONE // self.shares

    @property
    def share_in_usdc(self) -> int:
        """The value of one share in USDC."""
        return self.usdc_per_share * _LP_PER_USDC


def decode_comet(records: Entry | None, shares: Entry | None, blnd: str, usdc: str) -> Comet:
    """Raises `DecodeError` where an entry is missing or archived, or anything in them is not above zero."""
    if records is None or shares is None or records.archived or shares.archived:
        raise DecodeError("Comet: its records or shares are missing or archived")
    found: dict[str, int] = {}
    for key, value in expect(records.value, scval.MAP, "Comet: AllRecordData"):
        for name, token in (("blnd", blnd), ("usdc", usdc)):
            if key == (scval.ADDRESS, token):
                record = Fields.of(value, f"Comet: record of {token}")
                found |= {name: record.i128("balance"), f"{name}_weight": record.i128("weight")}
    if len(found) < 4:
        raise DecodeError("Comet: it does not hold both tokens of the backstop")
    comet = Comet(**found, shares=expect(shares.value, scval.I128, "Comet: TotalShares"))
    if min(found.values()) <= 0 or comet.shares <= 0 or comet.blnd * ONE < comet.blnd_weight:
        raise DecodeError("Comet: a balance, a weight or the number of shares is not above zero")
    return comet
