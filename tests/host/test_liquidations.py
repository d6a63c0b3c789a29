"""What the deployed code publishes about auctions and bad debt, against the entries that it writes."""

from __future__ import annotations

import random

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.fields import Fields
from exporter.past.lake.close_meta import decode_event
from exporter.protocols.base import Liquidation
from exporter.protocols.blend.liquidations import KINDS, liquidations_in
from tests.host.blend_world import POOL, USERS, World, ruin
from tests.host.machine import Outcome
from tests.recorded_entries import decode_data_key


def said(outcome: Outcome) -> list[Liquidation]:
    """The rows of a transaction's events."""
    events = [decode_event(event, 1) for event in outcome.events]
    return [part for event in events if event.contract == POOL for part in liquidations_in(event)]


def written(outcome: Outcome) -> dict[tuple[str, str], dict[tuple[str, str], int]]:
    """The amounts of each auction that a transaction wrote, by its kind and user, then by side and token."""
    found = {}
    for key, entry in outcome.changes.items():
        if entry is None or key[:4] != b"\0\0\0\x06":
            continue
        kind, parts = decode_data_key(key).key
        if kind == scval.VEC and parts and parts[0] == (scval.SYMBOL, "Auction"):
            of = Fields.of(parts[1], "auction key")
            data = Fields.of(decode_contract_data(entry[4:-4]).value, "AuctionData")
            found[KINDS[of.u32("auct_type")], of.address("user")] = {
                (side, token[1]): amount[1]
                for side in ("bid", "lot")
                for token, amount in (data.get(side) or (0, ()))[1]
            }
    return found


def test_events_are_what_the_contract_writes(world: World) -> None:
    """A new auction has the amounts of its entry, and bad debt those that its user owed before."""
    seen = set[str]()
    for seed in range(3):
        world.restart()
        for step in ruin(world, random.Random(seed)):
            before = {user: world.positions(user)["liabilities"] for user in (*USERS, world.backstop)}
            assets = list(world.assets)
            outcome = world.transact(step)
            if outcome.error is not None:
                continue
            rows = said(outcome)
            seen |= {row.event for row in rows}
            auctions = written(outcome)
            for row in rows:
                if row.event == "new_auction":
                    assert (
                        auctions[row.auction or "", row.user or ""][row.side or "", row.token_address or ""]
                        == row.amount
                    )
                elif row.event == "bad_debt":
                    assert before[row.user or ""][assets.index(row.token_address or "")] == row.amount
                elif row.event == "defaulted_debt":
                    assert before[world.backstop][assets.index(row.token_address or "")] == row.amount

    assert {"new_auction", "fill_auction", "bad_debt", "defaulted_debt"} <= seen
