"""The views of Peridot's vaults: what entries alone answer, and what is compared with our numbers.

None of them accrues, so they are held against the state as it was read, not against what is projected from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import symbol, vec
from exporter.ledger.observation import Entry
from exporter.ledger.source import ContractCall
from exporter.ledger.storage_rules.host import Call, Contract, NotFromStorageError, StorageHost, unknown_function
from exporter.protocols.base import NoView, ProtocolReading, ProtocolViews, Row, ViewCall
from exporter.protocols.peridot.layout import SCALE, decode_amount, decode_vault, vault_keys

FUNCTIONS = ("get_available_liquidity", "get_total_borrowed", "get_total_reserves", "get_exchange_rate")
_MARKS = ("UnderlyingToken", "BorrowIndex", "TotalBorrowed", "LastUpdateTime")


class PeridotViews(ProtocolViews):
    """The view functions of Peridot."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        for pool in reading.pools:
            for function in FUNCTIONS:
                yield ViewCall(pool["market"], (pool["pool"],), ContractCall(pool["pool"], function))

    def fields(self, asked: ViewCall, value: ScVal, row: Row, time: int) -> Mapping[str, tuple[object, object]]:  # noqa: ARG002
        function, raw = asked.call.function, row["raw"]
        owned, supply = max(raw["net_cash"] + raw["total_borrowed"], 0), raw["receipt_supply"]
        ours = {
            "get_available_liquidity": max(owned - raw["total_borrowed"], 0),
            "get_total_borrowed": raw["total_borrowed"],
            "get_total_reserves": raw["total_reserves"],
            "get_exchange_rate": owned * SCALE // supply if owned and supply else raw["initial_exchange_rate"],
        }[function]
        return {function: (ours, decode_amount(value, f"{function}()"))}


class VaultRule:
    """What a vault answers from its entries, where no cash is boosted: only who has that knows what it is worth."""

    def recognises(self, host: StorageHost, contract: Contract) -> bool:
        """Whether a contract has the entries of every vault, and its instance nothing but a receipt token's."""
        if contract.storage and not any(vec(symbol(name)) in contract.storage for name in ("Meta", "TotalSupply")):
            return False
        return all(host.data(contract.address, vec(symbol(name))) is not None for name in _MARKS)

    def answer(self, host: StorageHost, contract: Contract, call: Call) -> ScVal:
        found = {key: raw for key in vault_keys(contract.address) if (raw := host.entry(key))}
        entries = {
            key: Entry(key, replace(raw, live_until=None)) for key, raw in found.items()
        }  # an archived one counts
        vault = decode_vault(contract.address, entries)
        borrowed = vault.numbers["total_borrowed"]
        match call:
            case ["get_total_ptokens"] if vault.numbers["receipt_supply"] is not None:
                return (scval.U128, vault.numbers["receipt_supply"])
            case ["get_total_borrowed"]:
                return (scval.U128, borrowed)
            case ["get_total_underlying" | "get_available_liquidity"]:
                if not vault.cash_is_stored:
                    raise NotFromStorageError("the vault's entries do not show what cash it counts")
                owned = max(vault.implied_cash + borrowed - vault.set_aside, 0)
                return (scval.U128, owned if call[0] == "get_total_underlying" else max(owned - borrowed, 0))
        raise unknown_function(call)
