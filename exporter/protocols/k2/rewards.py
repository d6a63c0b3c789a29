"""K2's rewards, by the reward contract that a reserve's own token names (docs/protocols/k2.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Emission:
    """An amount in base units of a token a second, until the end (unix seconds; 0: no end)."""

    token: str
    per_second: int
    end: int


Emissions = tuple[Emission, ...] | None
"""All that are switched on, of one side; None where they could not be read."""

Reward = tuple[str | None, int | None, int | None, RewardReason]
"""The reward at a time: the token, base units a second, the end, and why there is no such amount."""


async def read_emissions(view: LedgerView, tokens: Mapping[str, tuple[str, Entry | None]]) -> Mapping[str, Emissions]:
    """The rewards of each share token's holders, of tokens with their side and instance. Raises `SourceError`."""
    found: dict[str, Emissions] = dict.fromkeys(tokens, ())
    contracts = {token: _reward_contract_of(instance) for token, (_, instance) in tokens.items()}
    lists = {token: variant_key(contract, "RTL", address(token)) for token, contract in contracts.items() if contract}
    entries = dict(await view.read(lists.values()))
    keys: dict[str, dict[str, bytes]] = {}
    for token, key in lists.items():
        entry, holder, side = entries[key], address(token), u32(SIDES[tokens[token][0]])
        try:
            paid = () if entry is None else addresses(entry.value, "RTL", MAX_TOKENS)
        except DecodeError:
            found[token] = None
            continue
        keys[token] = {each: variant_key(str(contracts[token]), "ARC", holder, address(each), side) for each in paid}
    entries |= await view.read([key for own in keys.values() for key in own.values()])
    for token, own in keys.items():
        try:
            emissions = [_decode(each, entries[key]) for each, key in own.items()]
            found[token] = tuple(emission for emission in emissions if emission is not None)
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


def _decode(token: str, entry: Entry | None) -> Emission | None:
    """What is paid in a token, if it is switched on, also of an archived entry. Raises `DecodeError`."""
    fields = None if entry is None else Fields.of(entry.value, "ARC")
    if fields is None or not fields.boolean("is_active"):
        return None
    return Emission(token, fields.number("emission_per_second", *UNSIGNED), fields.u64("distribution_end"))


def at(emissions: Emissions, time: int) -> Reward:
    """The reward of a side at a time (unix seconds). Several tokens have no sum."""
    if emissions is None:
        return None, None, None, RewardReason.UNREAD
    running = [each for each in emissions if each.per_second and (not each.end or time < each.end)]
    if not running:
        return None, 0, None, RewardReason.EXPIRED if emissions else RewardReason.NO_EMISSIONS
    if len(running) > 1:
        return None, None, None, RewardReason.SEVERAL_TOKENS
    (one,) = running
    return one.token, one.per_second, one.end or None, RewardReason.VALID


def of_reserve(supply: Emissions, borrow: Emissions, time: int) -> dict[str, object]:
    """The reward columns of a reserve at a time: its two sides have one token, or none that can be named."""
    rewards = dict(zip(SIDES, (at(supply, time), at(borrow, time)), strict=True))
    tokens = {token for token, *_ in rewards.values()} - {None}
    row: dict[str, object] = {"reward_token": tokens.pop() if len(tokens) == 1 else None, "reward_decimals": 0}
    for side, (token, per_second, end, reason) in rewards.items():
        if token is not None and row["reward_token"] is None:
            per_second, end, reason = None, None, RewardReason.SEVERAL_TOKENS
        row |= {f"{side}_reward_per_second": per_second, f"{side}_reward_expiration": end}
        row[f"{side}_reward_reason"] = reason
    return row
