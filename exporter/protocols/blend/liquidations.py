"""Decodes the events of Blend's pools about auctions, bad debt and claimed BLND, in the forms of both generations.

| event | topics after the name | value |
|---|---|---|
| new_auction (v2) | kind u32, user | percent u32, AuctionData |
| new_auction (v1) | kind u32 | AuctionData |
| new_liquidation_auction (v1) | user | AuctionData |
| fill_auction (v2) | kind u32, user | filler, percent i128, AuctionData |
| fill_auction (v1) | user, kind u32 | filler, percent i128 |
| delete_auction (v2) | kind u32, user | |
| delete_liquidation_auction (v1) | user | |
| bad_debt (v2) | user, asset | i128 |
| bad_debt (v1) | user | asset, i128 |
| defaulted_debt (v2) | asset | i128 |
| defaulted_debt (precept v0.1.1) | user, asset | i128 |
| debt_setoff (precept v0.1.0) | asset | burned b_tokens i128, repaid d_tokens i128 |
| debt_setoff (precept v0.1.1) | user, asset | burned b_tokens i128, repaid d_tokens i128 |
| claim | user | numbers of emissions, i128 |

AuctionData is {bid: Map<asset, i128>, block: u32, lot: Map<asset, i128>}. Source: docs/provenance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.events import ContractEvent
from exporter.protocols.base import Liquidation

KINDS: Final = ("user_liquidation", "bad_debt", "interest")
"""The kinds of auctions, in the order of their numbers."""

EVENTS: Final = (
    *("new_auction", "fill_auction", "delete_auction", "bad_debt", "defaulted_debt", "debt_setoff"),
    "claim",
)
"""Our names for the events. v1's events about auctions of users have the same names as those about all auctions."""

_NUMBER_OF_ADDRESSES: Final = {"bad_debt": (2,), "claim": (1,), "defaulted_debt": (1, 2), "debt_setoff": (1, 2)}
"""How many addresses an event can have. In defaults and setoffs only precept v0.1.1 has a user before the token."""


def liquidations_in(event: ContractEvent) -> Sequence[Liquidation]:
    """The auctions, bad debt or claims that an event states; empty for other events. Raises `DecodeError`."""
    topic = event.topics[0][1] if event.topics and event.topics[0][0] == scval.SYMBOL else ""
    name = topic.replace("liquidation_auction", "auction")
    if name not in EVENTS:
        return []
    parts = [*event.topics[1:], *(event.value[1] or () if event.value[0] == scval.VEC else [event.value])]
    if "auction" in name:
        return _auction(name, parts, limited_to_users=name != topic)
    return [_amount(name, parts)]


def _amount(name: str, parts: Sequence[ScVal]) -> Liquidation:
    addresses = _of_kind(parts, scval.ADDRESS)
    amounts = _of_kind(parts, scval.I128)
    if len(amounts) != (2 if name == "debt_setoff" else 1) or len(addresses) not in _NUMBER_OF_ADDRESSES[name]:
        raise DecodeError(f"an event {name} of another form than Blend's")
    token = None if name == "claim" else addresses[-1]
    user = addresses[0] if name == "claim" or len(addresses) == 2 else None
    return Liquidation(name, user=user, token_address=token, amount=amounts[-1])


def _auction(name: str, parts: Sequence[ScVal], *, limited_to_users: bool) -> list[Liquidation]:
    numbers, addresses = _of_kind(parts, scval.U32), _of_kind(parts, scval.ADDRESS)
    kind = 0 if limited_to_users else numbers.pop(0) if numbers else len(KINDS)
    if kind >= len(KINDS):
        raise DecodeError(f"an event {name} with the kind of auction {kind}")
    filler = addresses.pop() if name == "fill_auction" and addresses else None
    percent = next(iter([*numbers, *_of_kind(parts, scval.I128)]), None)
    common = Liquidation(name, KINDS[kind], addresses[0] if addresses else None, filler, percent)
    tokens = []
    for data in _of_kind(parts, scval.MAP):
        fields = Fields(data, f"the auction of an event {name}")
        for side in ("bid", "lot"):
            assets = expect(fields.get(side) or (-1, None), scval.MAP, f"the {side} of an event {name}")
            for asset, amount in assets:
                token = expect(asset, scval.ADDRESS, f"an asset of an event {name}")
                units = expect(amount, scval.I128, f"an amount of an event {name}")
                tokens.append(common._replace(side=side, token_address=token, amount=units))
    return tokens or [common]


def _of_kind(parts: Sequence[ScVal], kind: int) -> list[Any]:
    return [payload for each, payload in parts if each == kind]
