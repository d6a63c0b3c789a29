"""Reads how much of a token a contract has: from an entry if the token is a Stellar asset, else by calling its code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.observation import CallResult, Entry
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView


class Balance(Struct, frozen=True):
    """A contract's balance of a token.

    ``amount`` is in base units. If it cannot be determined it is None, and ``failure`` says why. ``stored`` is False if
    a Stellar asset has no entry for the contract, which means a balance of 0.
    """

    amount: int | None
    failure: str = ""
    stored: bool = True


class Holding(NamedTuple):
    """What identifies a balance: the addresses of the token and of the contract that has it."""

    token: str
    holder: str


def balance_key(token: str, holder: str) -> bytes:
    """The ledger key of a contract's balance of a Stellar asset."""
    return variant_key(token, "Balance", address(holder))


def balance_call(token: str, holder: str) -> ContractCall:
    """The call that asks a token that is no Stellar asset for a contract's balance. Its code decides where that is."""
    return ContractCall(token, "balance", (address(holder),))


def decode_balance(entry: Entry | None) -> int:
    """A contract's balance of a Stellar asset, in base units; 0 without an entry. Raises `DecodeError`."""
    return 0 if entry is None else max(Fields.of(entry.value, "Balance").i128("amount"), 0)


async def read_balances(view: LedgerView, holdings: Iterable[Holding]) -> Mapping[Holding, Balance]:
    """The balance of each holding. Raises `SourceError`.

    A reader saves a request if it has read the `balance_key` of each holding and the token's instance before.
    """
    holdings = list(dict.fromkeys(holdings))
    keys = [key for holding in holdings for key in (balance_key(*holding), instance_key(holding.token))]
    entries = await view.read(keys)
    called = [holding for holding in holdings if not _is_stellar_asset(entries[instance_key(holding.token)])]
    answers = await view.call([balance_call(*holding) for holding in called])
    results = dict(zip(called, answers, strict=True))
    return {
        holding: _balance(holding.token, entries[balance_key(*holding)], results.get(holding)) for holding in holdings
    }


def _is_stellar_asset(instance: Entry | None) -> bool:
    with Barrier():
        return instance is not None and instance_of(instance.contract_data()).executable == scval.STELLAR_ASSET
    return False


def _balance(token: str, entry: Entry | None, result: CallResult | None) -> Balance:
    with Barrier() as barrier:
        if result is not None:
            if result.value is None:
                raise DecodeError(f"balance() of {token} failed: {result.reason}")
            return Balance(max(int(expect(result.value, scval.I128, f"balance() of {token}")), 0))
        return Balance(decode_balance(entry), stored=entry is not None)
    return Balance(None, barrier.failure)
