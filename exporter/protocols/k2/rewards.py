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


def reward_contract_of(token: Entry | None) -> str | None:
    """The reward contract that an aToken's or debt token's instance names."""
    try:
        storage = () if token is None else instance_of(token.contract_data()).storage or ()
    except DecodeError:
        return None  # whoever reads its total says so
    kind, named = dict(storage).get(vec(symbol("IncentivesContract")), (scval.VOID, None))
    return str(named) if kind == scval.ADDRESS and str(named).startswith("C") else None


def reward_list_key(contract: str, token: str) -> bytes:
    """The ledger key of the list of what a reward contract pays to holders of a token."""
    return variant_key(contract, "RTL", address(token))


async def read_emissions(view: LedgerView, asked: Mapping[tuple[str, str], str | None]) -> Mapping[str, Emissions]:
    """The rewards of each token's holders, of tokens and sides with their reward contracts. Raises `SourceError`."""
    named = {pair: contract for pair, contract in asked.items() if contract is not None}
    lists = {pair: reward_list_key(contract, pair[0]) for pair, contract in named.items()}
    entries = dict(await view.read(lists.values()))
    keys = {pair: _configurations(contract, *pair, entries[lists[pair]]) for pair, contract in named.items()}
    entries |= await view.read([key for each in keys.values() for key in each or ()])
    found: dict[str, Emissions] = {token: () for token, _ in asked}
    return found | {token: _emissions(each, entries) for (token, _), each in keys.items()}


def _emissions(paid: Mapping[bytes, str] | None, entries: Mapping[bytes, Entry | None]) -> Emissions:
    if paid is None:
        return None
    try:
        found = [(token, _decode(entries[key])) for key, token in paid.items()]
    except DecodeError:
        return None
    return tuple(Emission(token, *own) for token, own in found if own)


def _configurations(contract: str, token: str, side: str, listed: Entry | None) -> dict[bytes, str] | None:
    """The keys of what is paid in each token of a reward list; None where the list cannot be decoded."""
    try:
        paid = () if listed is None else addresses(listed.value, "RTL", MAX_TOKENS)
    except DecodeError:
        return None
    holder, number = address(token), u32(SIDES[side])
    return {variant_key(contract, "ARC", holder, address(each), number): each for each in paid}


def _decode(entry: Entry | None) -> tuple[int, int] | None:
    """Base units a second and the end of what is switched on, also of an archived entry. Raises `DecodeError`."""
    if entry is None:
        return None
    fields = Fields.of(entry.value, "ARC")
    if not fields.boolean("is_active"):
        return None
    return fields.number("emission_per_second", *UNSIGNED), fields.u64("distribution_end")


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
