"""A contract's balance of a token: an entry of a Stellar asset's contract, or what any other token's code answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.observation import CallResult, Entry
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView


@dataclass(frozen=True, slots=True)
class Balance:
    """``amount`` is in base units, None where it cannot be determined, and ``failure`` then says why.

    ``stored`` is false where a Stellar asset has no entry, which means 0.
    """

    amount: int | None
    failure: str = ""
    stored: bool = True


def balance_key(token: str, holder: str) -> bytes:
    """The ledger key of what a contract has of a Stellar asset."""
    return variant_key(token, "Balance", address(holder))


def balance_call(token: str, holder: str) -> ContractCall:
    """A contract's balance of a token that is not a Stellar asset, whose code decides where balances are."""
    return ContractCall(token, "balance", (address(holder),))


def decode_balance(entry: Entry | None) -> int:
    """A contract's balance of a Stellar asset: 0 without an entry. Raises `DecodeError`."""
    return 0 if entry is None else max(Fields.of(entry.value, "Balance").i128("amount"), 0)


async def read_balances(view: LedgerView, pairs: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Balance]:
    """The balance of each (token, holder). A reader asks for the keys along with others first. Raises `SourceError`."""
    asked = list(dict.fromkeys(pairs))
    entries = await view.read([key for pair in asked for key in (balance_key(*pair), instance_key(pair[0]))])
    called = [pair for pair in asked if not _is_stellar_asset(entries[instance_key(pair[0])])]
    results = dict(zip(called, await view.call([balance_call(*pair) for pair in called]), strict=True))
    return {pair: _balance(pair[0], entries[balance_key(*pair)], results.get(pair)) for pair in asked}


def _is_stellar_asset(instance: Entry | None) -> bool:
    with Barrier():
        return instance is not None and instance_of(instance.contract_data()).executable == scval.STELLAR_ASSET
    return False


def _balance(token: str, entry: Entry | None, called: CallResult | None) -> Balance:
    with Barrier() as barrier:
        if called is not None:
            if called.value is None:
                raise DecodeError(f"balance() of {token} failed: {called.reason}")
            return Balance(max(int(expect(called.value, scval.I128, f"balance() of {token}")), 0))
        return Balance(decode_balance(entry), stored=entry is not None)
    return Balance(None, barrier.failure)
