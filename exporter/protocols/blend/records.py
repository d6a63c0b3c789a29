"""Reads the records of Blend's factories and backstops, which say which pools are genuine and which are rewarded.

A factory has a record of every pool that it deployed, but no list of them. Anybody can deploy the same code, so an
address counts as a pool only if there is such a record, or if somebody vouches for it (docs/discovery.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from exporter.deployments import FACTORY, Deployment
from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, instance_key, variant_key
from exporter.ledger.codec.fields import addresses, expect
from exporter.ledger.codec.scval_encode import VOID, address, symbol
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.observation import Entries, Entry
from exporter.ledger.view import LedgerView
from exporter.protocols.base import LEARNED, Candidate, Origin, with_contract
from exporter.protocols.blend.layout import (
    GENERATIONS,
    named_contracts,
    reward_zone_key,
    storage_of,
)

DEPLOY_TOPIC = "deploy"
"""The first topic of the event with which a factory announces a pool. The event's value is the pool's address."""

QUEUE_TOPIC = "queue_set_reserve"
"""The first topic of the event of a pool that queues a reserve. Its value has the token and its configuration."""


MAX_ZONE_MARKETS = 50_000
"""The largest number of addresses in a reward zone. A ledger entry cannot hold so many."""


def record_key(factory: str, market: str) -> bytes:
    """The ledger key of a factory's record of a pool."""
    return variant_key(factory, "Contracts", address(market))


def recorded_pool(entry: ContractData) -> str | None:
    """The pool that a factory's entry records; None for other entries."""
    kind, parts = entry.key
    if kind != scval.VEC or parts is None or len(parts) != 2 or entry.value != (scval.BOOL, True):
        return None
    name, (kind, pool) = parts
    return pool if name == symbol("Contracts") and kind == scval.ADDRESS and pool.startswith("C") else None


def event_filters(deployments: Sequence[Deployment]) -> list[EventFilter]:
    """The events to ask for: those of factories that deploy pools, and of listed pools that queue reserves."""
    factories = tuple(dict.fromkeys(address for item in deployments for address in item.addresses(FACTORY)))
    markets = tuple(market for item in deployments for market in item.markets)
    filters = EventFilter(factories, (DEPLOY_TOPIC,)), EventFilter(markets, (QUEUE_TOPIC,))
    return [item for item in filters if item.contracts]


def candidates_in(event: ContractEvent) -> list[Candidate]:
    """The pool that was deployed, or the reserve that was queued and may not exist yet. Raises `DecodeError`."""
    what, value = "the event's value", event.value
    is_queued = event.starts_with((QUEUE_TOPIC,))
    if is_queued:
        value, *_ = expect(value, scval.VEC, what) or (VOID,)
    contract: str = expect(value, scval.ADDRESS, what)
    if not contract.startswith("C"):
        raise DecodeError(f"{what} is an address that is not a contract")
    if is_queued:
        return [Candidate("blend", event.contract, Origin.EVENT, pool=contract)]
    return [Candidate("blend", contract, Origin.EVENT, voucher=event.contract)]


async def with_factories(view: LedgerView, deployments: Sequence[Deployment]) -> list[Deployment]:
    """The deployments; those without a factory get the one that their backstop names. Raises `SourceError`."""
    lacking = [item.backstop for item in deployments if item.backstop is not None and item.address(FACTORY) is None]
    entries = await view.read([instance_key(backstop) for backstop in lacking])
    completed = []
    for deployment in deployments:
        entry = entries.get(instance_key(deployment.backstop)) if deployment.backstop in lacking else None
        with Barrier():  # the reading reports this
            if entry is not None:
                deployment = with_contract(deployment, FACTORY, *named_contracts(entry, "PoolFact"))
        completed.append(deployment)
    return completed


class Records:
    """The factories and backstops of the deployments, and their records of markets."""

    def __init__(self, deployments: Sequence[Deployment], notice: Callable[[str], None]) -> None:
        self._deployments, self.notice = deployments, notice
        listed = {item.label: item.address(FACTORY) for item in deployments}
        self.factories = {label: factory for label, factory in listed.items() if factory is not None}
        """The factory of each deployment, by the deployment's label."""
        self.learned: dict[str, str] = {}
        """The factories that no list has, by the deployment's label."""
        self.zones: dict[str, tuple[str, ...]] = {}
        """The reward zones that could be read, by the backstop's address."""

    def own_keys(self) -> list[bytes]:
        """The ledger keys of the backstops and factories, and of the backstops' reward zones."""
        backstops = [item.backstop for item in self._deployments if item.backstop is not None]
        keys = [reward_zone_key(backstop) for backstop in backstops]
        return keys + [instance_key(contract) for contract in (*backstops, *self.factories.values())]

    def keys_of(self, markets: Iterable[str]) -> list[bytes]:
        """The ledger keys of the records that factories may have of markets. Nothing removes a record."""
        return [record_key(factory, market) for market in markets for factory in dict.fromkeys(self.factories.values())]

    def take_own(self, entries: Entries) -> None:
        """Decode the entries of `own_keys`: which factories the backstops name, and the reward zones."""
        for item in self._deployments:
            if item.backstop is None:
                continue
            with self._noticed(f"the reward zone of backstop {item.backstop} cannot be decoded"):
                self._take_zone(item.backstop, entries[reward_zone_key(item.backstop)])
            entry = entries[instance_key(item.backstop)]
            if entry is not None:
                with self._noticed(f"the factory of backstop {item.backstop} cannot be read"):
                    self._take_factory(item, *named_contracts(entry, "PoolFact"))

    def _noticed(self, what: str) -> Barrier:
        """A barrier that turns a failure into a notice, which begins with ``what`` failed."""
        return Barrier(lambda text: self.notice(f"{what}: {text}"))

    def _take_factory(self, deployment: Deployment, factory: str) -> None:
        """Record the factory that a deployment's backstop names."""
        label = deployment.label
        listed = self.factories.get(label)
        if listed not in (None, factory):
            self.notice(
                f"drift: backstop {deployment.backstop} of blend {label} names the factory {factory}, not the known "
                f"{listed}"
            )
        self.factories[label] = factory
        if not any(each.address == factory and each.source != LEARNED for each in deployment.contracts):
            self.learned[label] = factory

    def _take_zone(self, backstop: str, entry: Entry | None) -> None:
        """Record the markets in a backstop's reward zone."""
        zone = () if entry is None else addresses(entry.value, "reward zone", MAX_ZONE_MARKETS)
        self.zones[backstop] = zone
        strangers = [market for market in zone if not market.startswith("C")]
        if strangers:
            self.notice(
                f"the reward zone of backstop {backstop} lists {strangers[0]}"
                f"{f' and {len(strangers) - 1} more' if strangers[1:] else ''}, not contracts; ignored"
            )

    @property
    def rewarded(self) -> set[str]:
        """The markets in any reward zone."""
        return {market for zone in self.zones.values() for market in zone if market.startswith("C")}

    def check_factories(self, entries: Entries) -> None:
        """Tell the operator of a factory that deploys for another backstop, or unknown code."""
        for item in self._deployments:
            factory = self.factories.get(item.label)
            entry = None if factory is None else entries.get(instance_key(factory))
            if entry is None:  # comparing the lists with the chain reports this
                continue
            with self._noticed(f"drift: factory {factory} of blend {item.label} cannot be read"):
                meta = storage_of(entry, "factory instance").struct("PoolMeta")
                backstop = meta.address("backstop")
                pool_hash: bytes = expect(meta.required("pool_hash"), scval.BYTES, "PoolMeta: field pool_hash")
                if item.backstop not in (None, backstop):
                    self.notice(
                        f"drift: factory {factory} of blend {item.label} deploys for backstop {backstop}, not the "
                        f"listed {item.backstop}"
                    )
                if pool_hash not in GENERATIONS:
                    self.notice(
                        f"drift: factory {factory} of blend {item.label} deploys contract code {pool_hash.hex()}, "
                        "which is not a known Blend pool"
                    )

    def voucher(self, market: str, entries: Entries) -> str | None:
        """The factory that has a record of a market; None if none has. An archived record counts, too."""
        for factory in self.factories.values():
            entry = entries.get(record_key(factory, market))
            with Barrier():
                if entry is not None and entry.value == (scval.BOOL, True):
                    return factory
        return None

    def any_factory_read(self, entries: Entries) -> bool:
        """Whether the ledger has any of the factories. A file with some contracts may have none."""
        return any(entries.get(instance_key(factory)) is not None for factory in self.factories.values())
