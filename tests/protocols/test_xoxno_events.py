"""The events that name hub markets: what is asked for, and what becomes of each."""

from __future__ import annotations

import pytest

from exporter.deployments import deployments_of
from exporter.deployments.made_addresses import XOXNO, made_address
from exporter.errors import DecodeError
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.localnet.xoxno import HubMarket, created_event, parameters_event, state_event
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.xoxno import Xoxno
from exporter.protocols.xoxno.events import MAX_POOLS_IN_EVENT
from tests.protocols.made_ledger import account, contract

CONTROLLER, POOL = XOXNO.markets[0], XOXNO.addresses("pool")[0]
KNOWN = HubMarket(1, made_address("localnet token 1"), 7)
NEW = HubMarket(9, made_address("localnet token 1"), 7)
OTHER = HubMarket(1, contract("new token"), 18)


def found(market: HubMarket) -> Candidate:
    """What an event that names a hub market gives."""
    return Candidate("xoxno", CONTROLLER, Origin.EVENT, f"{market.hub}-{market.token}")


def event(contract_id: str, name: str, value: ScVal, *more: ScVal) -> ContractEvent:
    """An event of the market family."""
    return ContractEvent(contract_id, 7, (symbol("market"), symbol(name), *more), value)


def test_filters() -> None:
    """Creations are asked of the controllers, updates of the pool contracts, for all deployments in three filters."""
    (mainnet,) = (item for item in deployments_of("mainnet") if item.protocol == "xoxno")
    controllers, pools = (mainnet.markets[0], CONTROLLER), (mainnet.addresses("pool")[0], POOL)

    assert (
        EventFilter(controllers, ("market", "create")),
        EventFilter(pools, ("market", "batch_params_update")),
        EventFilter(pools, ("market", "batch_state_update")),
    ) == Xoxno().event_filters([mainnet, XOXNO])
    assert () == Xoxno().event_filters([])


def test_a_creation() -> None:
    """The controller's event names the hub and the token."""
    assert [found(NEW)] == Xoxno().candidates_in(created_event(CONTROLLER, POOL, NEW, 7))


def test_updates() -> None:
    """The pool contract's events name many, each once; the market is the controller that owns it."""
    for made in (state_event, parameters_event):
        assert [found(OTHER), found(NEW)] == Xoxno().candidates_in(made(POOL, [OTHER, NEW, OTHER], 7))


def test_what_a_list_has_is_not_named() -> None:
    """A pool of the package's lists is not a news, also on mainnet."""
    (mainnet,) = (item for item in deployments_of("mainnet") if item.protocol == "xoxno")
    xlm = HubMarket(1, mainnet.pools[0].token, 7)

    assert [] == Xoxno().candidates_in(state_event(POOL, [KNOWN], 7))
    assert [] == Xoxno().candidates_in(state_event(mainnet.addresses("pool")[0], [xlm], 7))
    assert [found(xlm)] == Xoxno().candidates_in(state_event(POOL, [xlm], 7))


def test_further_topics_and_fields() -> None:
    """More topics, values behind the nine, and further fields do not matter."""
    values = (u32(9), address(NEW.token), u64(1), *[i128(1)] * 6, symbol("later"))

    assert [found(NEW)] == Xoxno().candidates_in(event(POOL, "batch_state_update", vec(vec(*values)), symbol("x")))


NINE = (u32(9), address(NEW.token), u64(1), *[i128(1)] * 6)


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
        (event(POOL, "batch_state_update", vec(vec(*NINE[:8]))), "8 values, fewer than 9"),
        (event(POOL, "batch_state_update", vec(vec(*NINE[::-1]))), "hub_id: expected"),
        (event(POOL, "batch_params_update", vec(struct_map({"hub_id": u32(1)}))), "field asset is missing"),
        (
            event(POOL, "batch_state_update", vec(*[vec(*NINE)] * (MAX_POOLS_IN_EVENT + 1))),
            "257 pools, more than 256",
        ),
        (event(contract("stranger"), "batch_state_update", vec(vec(*NINE))), "not a known pool contract"),
        (event(POOL, "other", vec()), "none that name"),
        (ContractEvent(POOL, 7, (), vec()), "none that name"),
        (ContractEvent(POOL, 7, (u32(1), symbol("create")), vec()), "none that name"),
    ],
)
def test_events_that_are_none(broken: ContractEvent, message: str) -> None:
    """An event of another form is refused with what is wrong, so that it can be reported and costs nothing."""
    with pytest.raises(DecodeError, match=message):
        Xoxno().candidates_in(broken)
