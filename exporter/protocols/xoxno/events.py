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
    if topics not in (CREATED, PARAMETERS_SET, STATE_CHANGED):
        raise DecodeError(f"the event's topics {topics} do not name a hub market")
    what = topics[1]
    items: Sequence[ScVal] = (event.value,) if topics == CREATED else expect(event.value, scval.VEC, what) or ()
    if len(items) > MAX_POOLS_IN_EVENT:
        raise DecodeError(f"{what}: {len(items)} pools, more than {MAX_POOLS_IN_EVENT}")
    named = []
    for item in items:
        if topics == STATE_CHANGED:
            values: Sequence[ScVal] = expect(item, scval.VEC, what) or ()
            if len(values) < _STATE_VALUES:
                raise DecodeError(f"{what}: {len(values)} values, fewer than {_STATE_VALUES}")
            hub, token = expect(values[0], scval.U32, f"{what}: hub_id"), expect(values[1], scval.ADDRESS, what)
        else:
            fields = Fields.of(item, what)
            hub, token = fields.u32("hub_id"), fields.address("base_asset" if topics == CREATED else "asset")
        if not strkey.is_contract(token):
            raise DecodeError(f"the token {token} of a hub market is not a contract")
        named.append(HubAsset(hub, token).pool)
    if event.contract not in _listed():
        raise DecodeError(f"the event is of contract {event.contract}, which is not a known controller or its pool")
    controller, known = _listed()[event.contract]
    return [Candidate(PROTOCOL, controller, Origin.EVENT, pool) for pool in dict.fromkeys(named) if pool not in known]


@cache
def _listed() -> Mapping[str, tuple[str, frozenset[str]]]:
    """By controller and by pool contract, whose events do not say: the controller, and its pools that a list has."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for deployment in (item for network in ("mainnet", "testnet", "local") for item in deployments_of(network)):
        for controller in deployment.markets if deployment.protocol == PROTOCOL else ():
            known = frozenset(pool.pool for pool in deployment.pools if pool.market == controller)
            found |= dict.fromkeys((controller, *deployment.addresses(POOL)), (controller, known))
    return found
