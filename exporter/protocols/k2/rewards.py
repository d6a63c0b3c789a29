"""K2's rewards, by the reward contract that a reserve's own token names (docs/protocols/k2.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_of, variant_key
from exporter.ledger.codec.fields import Fields, addresses
from exporter.ledger.codec.scval_encode import address, symbol, u32, vec
from exporter.ledger.observation import Entry
from exporter.ledger.view import LedgerView
from exporter.protocols.k2.layout import UNSIGNED
from exporter.tree.values import RewardReason

MAX_TOKENS = 20
"""The contract's own bound of reward tokens for one of a reserve's tokens."""

SIDES = {"supply": 0, "borrow": 1}
"""The sides, and the contract's number for each: what holders of aTokens get, and of debt tokens."""


class Emission(NamedTuple):
    """An amount in base units of a token a second, until the end (unix seconds; 0: no end)."""

    token: str
    per_second: int
    end: int


Emissions = tuple[Emission, ...] | None
"""All that are switched on, of one side; None where they could not be read."""


async def read_emissions(view: LedgerView, tokens: Mapping[str, tuple[str, Entry | None]]) -> Mapping[str, Emissions]:
    """The rewards of each share token's holders, of tokens with their side and instance. Raises `SourceError`."""
    contracts = {token: _reward_contract_of(instance) for token, (_, instance) in tokens.items()}
    lists = {token: variant_key(contract, "RTL", address(token)) for token, contract in contracts.items() if contract}
    entries = dict(await view.read(lists.values()))
    found: dict[str, Emissions] = dict.fromkeys(tokens, ())
    rates: dict[tuple[str, str], bytes] = {}
    for token, key in lists.items():
        entry, side = entries[key], u32(SIDES[tokens[token][0]])
        try:
            for paid in () if entry is None else addresses(entry.value, "RTL", MAX_TOKENS):
                names = address(token), address(paid), side
                rates[token, paid] = variant_key(str(contracts[token]), "ARC", *names)
        except DecodeError:
            found[token] = None
    entries |= await view.read(rates.values())
    for (token, paid), key in rates.items():
        entry, known = entries[key], found[token]
        try:
            fields = None if entry is None else Fields.of(entry.value, "ARC")
            if known is not None and fields is not None and fields.boolean("is_active"):
                rate = fields.number("emission_per_second", *UNSIGNED)
                found[token] = (*known, Emission(paid, rate, fields.u64("distribution_end")))
        except DecodeError:
            found[token] = None
    return found


def _reward_contract_of(token: Entry | None) -> str | None:
    try:
        storage = () if token is None else instance_of(token.contract_data()).storage or ()
    except DecodeError:
        return None  # whoever reads its total says so
    kind, named = dict(storage).get(vec(symbol("IncentivesContract")), (scval.VOID, None))
    return str(named) if kind == scval.ADDRESS and str(named).startswith("C") else None


def of_reserve(supply: Emissions, borrow: Emissions, time: int) -> dict[str, Any]:
    """The reward columns of a reserve at a time (unix seconds): amounts of several tokens are not given."""
    row: dict[str, Any] = {"reward_decimals": 0}
    running = {
        side: [each for each in emissions or () if each.per_second and (not each.end or time < each.end)]
        for side, emissions in zip(SIDES, (supply, borrow), strict=True)
    }
    tokens = {paid[0].token for paid in running.values() if len(paid) == 1}
    row["reward_token"] = next(iter(tokens)) if len(tokens) == 1 else None
    for (side, paid), emissions in zip(running.items(), (supply, borrow), strict=True):
        per_second, end = None, None
        if emissions is None:
            reason = RewardReason.UNREAD
        elif not paid:
            per_second, reason = 0, RewardReason.EXPIRED if emissions else RewardReason.NO_EMISSIONS
        elif len(paid) > 1 or len(tokens) > 1:
            reason = RewardReason.SEVERAL_TOKENS
        else:
            per_second, end, reason = paid[0].per_second, paid[0].end or None, RewardReason.VALID
        row |= {f"{side}_reward_per_second": per_second, f"{side}_reward_expiration": end}
        row[f"{side}_reward_reason"] = reason
    return row
