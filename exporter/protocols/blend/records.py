"""What Blend's factories and backstops say: which pools are genuine, which are rewarded.

A factory has a record of every pool it deployed, ``Contracts(pool)``, and no list of them (docs/protocols/blend.md,
"Discovery"). Anybody can deploy the same code outside of it, so an address is taken for a pool because of that record,
or because somebody answers for it: the operator, the package's list, or an earlier run that saw the record
(docs/discovery.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from exporter.deployments import FACTORY, Deployment
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, symbol
from exporter.ledger.events import ContractEvent
from exporter.ledger.observation import Entry
from exporter.ledger.view import LedgerView
from exporter.protocols.base import LEARNED, Candidate, Origin, with_contract
from exporter.protocols.blend.layout import WASM_HASHES, decode_reward_zone, reward_zone_key

Entries = Mapping[bytes, Entry | None]
Notice = Callable[[str], None]

DEPLOY_TOPIC = "deploy"
"""First topic of the event that a factory publishes for a pool; the event's value is the pool's address."""

QUEUE_TOPIC = "queue_set_reserve"
"""First topic of the event of a pool that queues a reserve; the value is the token and its configuration."""


def record_key(factory: str, market: str) -> bytes:
    """The ledger key of a factory's record of a pool."""
    return variant_key(factory, "Contracts", address(market))


def is_record(entry: Entry | None) -> bool:
    """Whether an entry says that the pool was deployed. An archived one does: nothing ever takes it back."""
    try:
        return entry is not None and entry.value == (scval.BOOL, True)
    except DecodeError:
        return False


def recorded_pool(entry: ContractData) -> str | None:
    """The pool that this entry of a factory is the record of; None for other entries."""
    kind, parts = entry.key
    if kind != scval.VEC or parts is None or len(parts) != 2 or entry.value != (scval.BOOL, True):
        return None
    name, (kind, pool) = parts
    return pool if name == symbol("Contracts") and kind == scval.ADDRESS and pool.startswith("C") else None


def decode_pool_factory(entry: Entry) -> str:
    """The factory that a backstop's instance names. Raises `DecodeError`."""
    return Fields(instance_of(entry.contract_data()).storage, "backstop instance").contract("PoolFact")


def decode_pool_meta(entry: Entry) -> tuple[str, bytes]:
    """The backstop, and the code of the pools, that a factory's instance has. Raises `DecodeError`."""
    meta = Fields(instance_of(entry.contract_data()).storage, "factory instance").struct("PoolMeta")
    code = meta.get("pool_hash")
    if code is None:
        raise DecodeError("factory instance.PoolMeta: field pool_hash is missing")
    pool_hash: bytes = expect(code, scval.BYTES, "factory instance.PoolMeta: field pool_hash")
    return meta.address("backstop"), pool_hash


def pool_in(event: ContractEvent) -> Candidate:
    """The pool that a factory's event names. Raises `DecodeError`."""
    return Candidate("blend", _contract(event.value), Origin.EVENT, voucher=event.contract)


def queued_in(event: ContractEvent) -> Candidate:
    """The reserve that a pool's event says to be queued, which it may not have yet. Raises `DecodeError`."""
    token, *_ = expect(event.value, scval.VEC, "the event's value") or (VOID,)
    return Candidate("blend", event.contract, Origin.EVENT, pool=_contract(token))


def _contract(value: ScVal) -> str:
    contract: str = expect(value, scval.ADDRESS, "the event's value")
    if not contract.startswith("C"):
        raise DecodeError("the event's value is an address that is not a contract")
    return contract


async def with_factories(view: LedgerView, deployments: Sequence[Deployment]) -> list[Deployment]:
    """The deployments with the factories that their backstops name, where the lists have none. Raises `SourceError`."""
    lacking = [item.backstop for item in deployments if item.backstop is not None and item.address(FACTORY) is None]
    entries = await view.read([instance_key(backstop) for backstop in lacking])
    completed = []
    for deployment in deployments:
        entry = entries.get(instance_key(deployment.backstop)) if deployment.backstop in lacking else None
        try:
            completed.append(
                deployment if entry is None else with_contract(deployment, FACTORY, decode_pool_factory(entry))
            )
        except DecodeError:  # the reading says so
            completed.append(deployment)
    return completed


class Records:
    """The factories and backstops of the deployments, and what they say of markets."""

    def __init__(self, deployments: Sequence[Deployment]) -> None:
        self._deployments = deployments
        self.factories: dict[str, str] = {}
        """By the label of the deployment."""
        for item in deployments:
            if (factory := item.address(FACTORY)) is not None:
                self.factories[item.label] = factory
        self.zones: dict[str, None] = {}
        """Markets in reward zones."""
        self.zones_of: dict[str, tuple[str, ...]] = {}
        """The reward zones that could be read, by the address of the backstop."""

    def own_keys(self) -> list[bytes]:
        """Instances and reward zones of the backstops, instances of the factories."""
        backstops = [item.backstop for item in self._deployments if item.backstop is not None]
        keys = [reward_zone_key(backstop) for backstop in backstops]
        return keys + [instance_key(contract) for contract in (*backstops, *self.factories.values())]

    def keys_of(self, markets: Iterable[str]) -> list[bytes]:
        """The keys of the records that the factories may have of markets, which nothing removes once they exist."""
        return [record_key(factory, market) for market in markets for factory in dict.fromkeys(self.factories.values())]

    def take_own(self, entries: Entries, notice: Notice) -> dict[str, str]:
        """Take in what backstops and factories say; gives the factories that no list has, by label."""
        learned = {}
        for item in self._deployments:
            if item.backstop is None:
                continue
            self._take_zone(item.backstop, entries, notice)
            entry = entries[instance_key(item.backstop)]
            if entry is None:
                continue
            try:
                factory = decode_pool_factory(entry)
            except DecodeError as error:
                notice(f"the factory of backstop {item.backstop} cannot be read: {error}")
                continue
            known = self.factories.get(item.label)
            if known not in (None, factory):
                notice(
                    f"drift: backstop {item.backstop} of blend {item.label} names the factory {factory}, not the known "
                    f"{known}"
                )
            self.factories[item.label] = factory
            if not any(each.address == factory and each.source != LEARNED for each in item.contracts):
                learned[item.label] = factory
        return learned

    def _take_zone(self, backstop: str, entries: Entries, notice: Notice) -> None:
        try:
            zone = decode_reward_zone(entries[reward_zone_key(backstop)])
        except DecodeError as error:
            notice(f"the reward zone of backstop {backstop} cannot be decoded: {error}")
            return
        self.zones_of[backstop] = zone
        for market in zone:
            if market.startswith("C"):
                self.zones[market] = None
        strangers = [market for market in zone if not market.startswith("C")]
        if strangers:
            notice(
                f"the reward zone of backstop {backstop} lists {strangers[0]}"
                f"{f' and {len(strangers) - 1} more' if strangers[1:] else ''}, not contracts; ignored"
            )

    def check_factories(self, entries: Entries, notice: Notice) -> None:
        """Compare what the factories deploy, and for which backstop, with what is known."""
        for item in self._deployments:
            factory = self.factories.get(item.label)
            entry = None if factory is None else entries.get(instance_key(factory))
            if entry is None:  # the check of the lists reports it
                continue
            try:
                backstop, pool_hash = decode_pool_meta(entry)
            except DecodeError as error:
                notice(f"drift: factory {factory} of blend {item.label} cannot be read: {error}")
                continue
            if item.backstop not in (None, backstop):
                notice(
                    f"drift: factory {factory} of blend {item.label} deploys for backstop {backstop}, not the listed "
                    f"{item.backstop}"
                )
            if pool_hash not in WASM_HASHES:
                notice(
                    f"drift: factory {factory} of blend {item.label} deploys contract code {pool_hash.hex()}, which "
                    "is not a known Blend pool"
                )

    def voucher(self, market: str, entries: Entries) -> str | None:
        """The factory that has a record of a market; None where none has."""
        factories = self.factories.values()
        return next((factory for factory in factories if is_record(entries.get(record_key(factory, market)))), None)

    def any_factory_read(self, entries: Entries) -> bool:
        """Whether there is any factory in what was read: a file of some contracts may have none."""
        return any(entries.get(instance_key(factory)) is not None for factory in self.factories.values())
