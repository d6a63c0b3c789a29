"""The events of XOXNO's contracts that name hub markets (docs/protocols/xoxno.md, "Discovery")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from exporter.deployments import Deployment, deployments_of
from exporter.errors import DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.xoxno.layout import HubAsset
from exporter.protocols.xoxno.reader import POOL, PROTOCOL

CREATED = ("market", "create")
PARAMETERS_SET = ("market", "batch_params_update")
STATE_CHANGED = ("market", "batch_state_update")

MAX_POOLS_IN_EVENT = 256
_STATE_VALUES = 9


def event_filters(deployments: Sequence[Deployment]) -> tuple[EventFilter, ...]:
    """The wanted events: the creations of all controllers, and the updates of all pool contracts."""
    controllers = tuple(address for deployment in deployments for address in deployment.markets)
    pools = tuple(address for deployment in deployments for address in deployment.addresses(POOL))
    created = (EventFilter(controllers, CREATED),) if controllers else ()
    updated = (EventFilter(pools, PARAMETERS_SET), EventFilter(pools, STATE_CHANGED)) if pools else ()
    return created + updated


def candidates_in(event: ContractEvent) -> list[Candidate]:
    """The hub markets that an event names and no list has, each once. Raises `DecodeError`."""
    topics = tuple(str(payload) for kind, payload in event.topics[:2] if kind == scval.SYMBOL)
    if topics == CREATED:
        named = [_named_in(event.value, topics[1], "base_asset")]
    elif topics in (PARAMETERS_SET, STATE_CHANGED):
        what = topics[1]
        items: Sequence[ScVal] = expect(event.value, scval.VEC, what) or ()
        if len(items) > MAX_POOLS_IN_EVENT:
            raise DecodeError(f"{what}: {len(items)} pools, more than {MAX_POOLS_IN_EVENT}")
        named = [_named_in(item, what, "asset") if topics == PARAMETERS_SET else _changed(item, what) for item in items]
    else:
        raise DecodeError(f"the event's topics {topics} do not name a hub market")
    if event.contract not in _listed():
        raise DecodeError(f"the event is of contract {event.contract}, which is not a known controller or its pool")
    controller, known = _listed()[event.contract]
    pools = dict.fromkeys(pool.pool for pool in named)
    return [Candidate(PROTOCOL, controller, Origin.EVENT, pool) for pool in pools if pool not in known]


def _named_in(value: ScVal, what: str, asset: str) -> HubAsset:
    fields = Fields.of(value, what)
    return _hub_asset(fields.u32("hub_id"), fields.address(asset))


def _changed(item: ScVal, what: str) -> HubAsset:
    values: Sequence[ScVal] = expect(item, scval.VEC, what) or ()
    if len(values) < _STATE_VALUES:
        raise DecodeError(f"{what}: {len(values)} values, fewer than {_STATE_VALUES}")
    hub = expect(values[0], scval.U32, f"{what}: hub_id")
    return _hub_asset(hub, expect(values[1], scval.ADDRESS, f"{what}: asset"))


def _hub_asset(hub: int, token: str) -> HubAsset:
    if not strkey.is_contract(token):
        raise DecodeError(f"the token {token} of a hub market is not a contract")
    return HubAsset(hub, token)


@cache
def _listed() -> Mapping[str, tuple[str, frozenset[str]]]:
    """By controller and by pool contract, whose events do not say: the controller, and its pools that a list has."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for deployment in (item for network in ("mainnet", "testnet", "local") for item in deployments_of(network)):
        for controller in deployment.markets if deployment.protocol == PROTOCOL else ():
            known = frozenset(pool.pool for pool in deployment.pools if pool.market == controller)
            found |= dict.fromkeys((controller, *deployment.addresses(POOL)), (controller, known))
    return found
