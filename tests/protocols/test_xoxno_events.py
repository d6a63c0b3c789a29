"""The events that name hub markets: which are asked for, and what happens to each."""

from __future__ import annotations

import pytest

from exporter.deployments import deployments_of
from exporter.errors import DecodeError
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.xoxno.layout import HubAsset, hub_asset
from exporter.protocols.xoxno.reader import MAX_POOLS_IN_EVENT, candidates_in, event_filters
from tests.protocols.made_ledger import account, contract
from tests.recorded_entries import recorded

(XOXNO,) = (item for item in deployments_of("local") if item.protocol == "xoxno")
CONTROLLER, POOL = XOXNO.markets[0], XOXNO.addresses("pool")[0]
KNOWN = hub_asset(XOXNO.pools[0].pool)
NEW, OTHER = HubAsset(9, KNOWN.token), HubAsset(1, contract("new token"))


def candidate_of(market: HubAsset) -> Candidate:
    """What an event that names a hub market gives."""
    return Candidate("xoxno", CONTROLLER, Origin.EVENT, market.pool)


def event(contract_id: str, name: str, value: ScVal, *more: ScVal) -> ContractEvent:
    """An event of the market family."""
    return ContractEvent(contract_id, 7, (symbol("market"), symbol(name), *more), value)


def nine(market: HubAsset) -> tuple[ScVal, ...]:
    """The state of a hub market in an event."""
    return u32(market.hub), address(market.token), u64(1), *[i128(1)] * 6


def state_event(pool: str, *markets: HubAsset) -> ContractEvent:
    """What the pool contract publishes after each change of hub markets: their whole state."""
    return event(pool, "batch_state_update", vec(*(vec(*nine(item)) for item in markets)))


def names(market: HubAsset, asset: str = "asset") -> ScVal:
    """A struct that names a hub market, and has more."""
    return struct_map({asset: address(market.token), "hub_id": u32(market.hub), "params": recorded("Params")})


def test_three_filters_cover_all_deployments() -> None:
    """Creations are asked of the controllers, updates of the pool contracts, for all deployments in three filters."""
    (mainnet,) = (item for item in deployments_of("mainnet") if item.protocol == "xoxno")
    controllers, pools = (mainnet.markets[0], CONTROLLER), (mainnet.addresses("pool")[0], POOL)

    assert (
        EventFilter(controllers, ("market", "create")),
        EventFilter(pools, ("market", "batch_params_update")),
        EventFilter(pools, ("market", "batch_state_update")),
    ) == event_filters([mainnet, XOXNO])
    assert () == event_filters([])


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        (event(CONTROLLER, "create", names(NEW, "base_asset")), [NEW]),
        (event(POOL, "batch_params_update", vec(names(OTHER), names(NEW), names(OTHER))), [OTHER, NEW]),
        (state_event(POOL, OTHER, NEW, OTHER), [OTHER, NEW]),
        # More topics, and values behind the nine.
        (event(POOL, "batch_state_update", vec(vec(*nine(NEW), symbol("later"))), symbol("x")), [NEW]),
    ],
)
def test_what_events_name(published: ContractEvent, expected: list[HubAsset]) -> None:
    """Each hub market once, of the controller that owns it."""
    assert [candidate_of(market) for market in expected] == candidates_in(published)


def test_what_a_list_has_is_not_named() -> None:
    """A pool of the package's lists is not a news, also on mainnet."""
    (mainnet,) = (item for item in deployments_of("mainnet") if item.protocol == "xoxno")
    xlm = HubAsset(1, mainnet.pools[0].token)

    assert [] == candidates_in(state_event(POOL, KNOWN))
    assert [] == candidates_in(state_event(mainnet.addresses("pool")[0], xlm))
    assert [candidate_of(xlm)] == candidates_in(state_event(POOL, xlm))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (event(CONTROLLER, "create", VOID), "create: expected"),
        (event(CONTROLLER, "create", struct_map({"hub_id": u32(1)})), "field base_asset is missing"),
        (
            event(CONTROLLER, "create", struct_map({"hub_id": u32(1), "base_asset": address(account("a"))})),
            "is not a contract",
        ),
        (event(POOL, "batch_state_update", VOID), "batch_state_update: expected"),
        (event(POOL, "batch_state_update", vec(VOID)), "batch_state_update: expected"),
        (event(POOL, "batch_state_update", vec(vec(*nine(NEW)[:8]))), "8 values, fewer than 9"),
        (event(POOL, "batch_state_update", vec(vec(*nine(NEW)[::-1]))), "hub_id: expected"),
        (event(POOL, "batch_params_update", vec(struct_map({"hub_id": u32(1)}))), "field asset is missing"),
        (
            event(POOL, "batch_state_update", vec(*[vec(*nine(NEW))] * (MAX_POOLS_IN_EVENT + 1))),
            "257 pools, more than 256",
        ),
        (event(contract("stranger"), "batch_state_update", vec(vec(*nine(NEW)))), "not a known controller or its pool"),
        (event(POOL, "other", vec()), "do not name a hub market"),
        (ContractEvent(POOL, 7, (), vec()), "do not name a hub market"),
        (ContractEvent(POOL, 7, (u32(1), symbol("create")), vec()), "do not name a hub market"),
    ],
)
def test_an_invalid_event_is_refused_with_what_is_wrong(broken: ContractEvent, message: str) -> None:
    """An event of another form is refused with what is wrong, so that it can be reported and costs nothing."""
    with pytest.raises(DecodeError, match=message):
        candidates_in(broken)
