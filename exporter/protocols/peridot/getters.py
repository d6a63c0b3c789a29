"""Compares our numbers with Peridot's own getters of a vault: its liquidity, its debt, its reserves, its exchange rate.

No getter accrues, so they are compared with the state as it was read, and not with the numbers projected from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec.scval import ScVal
from exporter.ledger.source import ContractCall
from exporter.protocols.base import ComputedPool, ProtocolReading
from exporter.protocols.peridot.layout import SCALE, VaultState, decode_amount
from exporter.protocols.protocol import GetterCall, Getters, NoGetter, Pairs

FUNCTIONS = ("get_available_liquidity", "get_total_borrowed", "get_total_reserves", "get_exchange_rate")


def calls(reading: ProtocolReading) -> Iterator[GetterCall | NoGetter]:
    """The calls to make for all vaults."""
    for pool in reading.pools:
        for function in FUNCTIONS:
            yield GetterCall(pool.market.address, pool.pool, ContractCall(pool.pool, function))


def fields(asked: GetterCall, value: ScVal, computed: ComputedPool, time: int) -> Pairs:  # noqa: ARG001
    """The field in a getter's result, next to our own. Raises `DecodeError`."""
    function = asked.call.function
    vault: VaultState = computed.pool.state
    numbers, supply = vault.books.numbers, vault.receipt_supply
    owned = max(vault.books.cash.net_cash + numbers.total_borrowed, 0)
    ours = {
        "get_available_liquidity": max(owned - numbers.total_borrowed, 0),
        "get_total_borrowed": numbers.total_borrowed,
        "get_total_reserves": numbers.total_reserves,
        "get_exchange_rate": owned * SCALE // supply if owned and supply else numbers.initial_exchange_rate,
    }[function]
    return {function: (ours, decode_amount(value, f"{function}()"))}


GETTERS = Getters(calls=calls, fields=fields)
