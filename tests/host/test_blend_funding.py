"""Claims of rewards on Blend's deployed emitter, backstop and pool succeed if we say that they are funded."""

from __future__ import annotations

from exporter.deployments.networks import derived_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, decode_contract_data, instance_key, instance_of, variant_key
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.base import Liquidation
from exporter.protocols.blend.backstop import ALLOTMENT, BackstopKeys, EmissionSource, Funding
from exporter.protocols.blend.emissions import decode_emission, reserve_emission_key
from exporter.protocols.blend.layout import (
    decode_instance,
    decode_reserve,
    named_contracts,
    reserve_config_key,
    reserve_data_key,
)
from tests.host.blend_world import BACKSTOP_DEPOSITOR, NEVER, POOL, SUPPLY, USERS, Step, World, balance_entry, submit
from tests.host.test_liquidations import said
from tests.protocols import made_ledger

ONE, DAY = 10**7, 86_400
LENDER = USERS[0]
ANOTHER_BACKSTOP = derived_address("another backstop")
SUPPLIED = u32(1)
"""The number of the emission to the suppliers of the first reserve."""


class Paid:
    """The world's market, whose backstop the emitter has never paid: it names another one."""

    def __init__(self, world: World) -> None:
        self.world, self.backstop = world, world.backstop
        pool, own = (Entry(key, world.entries[key]) for key in map(instance_key, (POOL, world.backstop)))
        (emitter,) = named_contracts(own, "Emitter")
        self.emitter = emitter
        self.keys = BackstopKeys(POOL, decode_instance(pool), world.backstop, own)
        written = decode_contract_data(world.entries[instance_key(emitter)].data)
        code = instance_of(written)
        assert code.wasm_hash is not None
        named = [
            (key, address(ANOTHER_BACKSTOP) if key == symbol("Backstop") else value)
            for key, value in code.storage or ()
        ]
        paid = vec(symbol("LastDistro"), address(ANOTHER_BACKSTOP)), u64(world.info.close_time)
        self._put(made_ledger.instance(emitter, named, code.wasm_hash), made_ledger.entry(emitter, *paid))
        self._remove(variant_key(emitter, "LastDistro", address(self.backstop)))
        self._remove(data_key(self.backstop, symbol("Backfill")))
        for holder in (self.backstop, LENDER, ANOTHER_BACKSTOP):  # a first balance needs the issuer's account
            self.give(0, holder)

    def give(self, amount: int, holder: str | None = None) -> None:
        """Let the backstop, or another holder, have so much BLND."""
        held = balance_entry(self.world.blnd, holder or self.backstop, amount, self.world.info.ledger)
        self.world.entries |= held
        self.world.machine.put(held)

    def do(self, contract: str, function: str, *arguments: scval.ScVal, after: int = 0) -> None:
        """A transaction that has to succeed, some seconds later."""
        outcome = self.world.transact(Step(after, max(1, after // 5), contract, function, arguments))
        assert outcome.error is None, (function, outcome.message)

    def promise(self) -> None:
        """Let the market take what its backstop promises, and hand it to suppliers and depositors for a day."""
        self.do(self.backstop, "distribute", after=DAY)
        self.do(POOL, "gulp_emissions")
        self.world.info = self.world.info.after(DAY)
        self.world.machine.at(self.world.info)

    def claims(self) -> tuple[bool, bool]:
        """Whether a supplier's and a depositor's claim succeed now; nothing of it is kept."""
        lender, depositor = address(LENDER), address(BACKSTOP_DEPOSITOR)
        calls = (
            (POOL, "claim", lender, vec(SUPPLIED), lender),
            (self.backstop, "claim", depositor, vec(address(POOL)), i128(0)),
        )
        outcomes = [self.world.machine.call(*call, authorised=True) for call in calls]
        assert all(outcome.result is None or outcome.result[1] > 0 for outcome in outcomes)  # there is something
        paid = outcomes[0].result
        assert ([] if paid is None else [Liquidation("claim", user=LENDER, amount=paid[1])]) == said(outcomes[0])
        return outcomes[0].error is None, outcomes[1].error is None

    def said(self) -> Funding:
        """What we say."""
        keys, entries = (*self.keys.keys.values(), *self.keys.never_removed.values()), self.world.entries
        found = {key: Entry(key, entries[key]) if key in entries else None for key in keys}
        return self.keys.read(found, {}).funding

    def noted(self, name: str) -> int:
        """A number that the backstop keeps under a symbol."""
        found = self.world.value(self.backstop, symbol(name))
        return 0 if found is None else int(found[1])

    def _put(self, *written: tuple[bytes, bytes]) -> None:
        entries = {key: RawEntry(data, self.world.info.ledger, NEVER) for key, data in written}
        self.world.entries |= entries
        self.world.machine.put(entries)

    def _remove(self, key: bytes) -> None:
        self.world.entries.pop(key, None)
        self.world.machine.put({key: None})


def emission_of(world: World) -> tuple[Entry, int, int]:
    """The emission to the suppliers of the first reserve, with the reserve's shares and decimals."""
    key, asset = reserve_emission_key("v2", POOL, 0, "supply"), world.assets[0]
    config, data = world.reserve(asset)
    stored = Entry(reserve_config_key(POOL, asset), config), Entry(reserve_data_key(POOL, asset), data)
    reserve = decode_reserve(*stored, bstop_rate=0)
    return Entry(key, world.entries[key]), reserve.data.b_supply, reserve.config.decimals


def test_claims_succeed_where_rewards_are_funded(world: World) -> None:
    """What is published agrees with claims: during the backfill, after a gift, its spending, the swap and the drop."""
    world.restart()
    paid = Paid(world)
    seen: list[tuple[str | None, bool, int | None]] = []

    def agree() -> None:
        said, claims = paid.said(), paid.claims()
        assert (said.funded, said.funded) == claims, said
        assert said.funded is not None
        seen.append((said.source, said.funded, said.remaining))

    one = struct_map({"res_index": u32(0), "res_type": u32(1), "share": u64(ONE)})
    contract, function, arguments = submit(LENDER, (SUPPLY, world.assets[0], 10**10))
    paid.do(contract, function, *arguments)
    paid.do(POOL, "set_emissions_config", vec(one))
    paid.promise()
    promised = paid.noted("BackfillEmis")
    assert promised > 0
    agree()  # nothing is minted
    paid.give(promised)
    agree()  # somebody gave it
    paid.give(0)
    paid.do(paid.emitter, "queue_swap_backstop", address(paid.backstop), address(world.lp))
    paid.do(paid.emitter, "swap_backstop", after=31 * DAY)
    paid.do(paid.backstop, "distribute")  # which ends the backfill
    paid.do(paid.emitter, "distribute", after=DAY)
    assert paid.said() == Funding(EmissionSource.EMITTER, False, None)
    paid.give(0)
    agree()  # the emitter pays, and the earlier promises are not minted
    paid.do(paid.backstop, "drop")
    paid.promise()
    agree()
    emission, shares, decimals = emission_of(world)
    before = decode_emission(emission, True)
    paid.do(POOL, "claim", address(LENDER), vec(SUPPLIED), address(LENDER), after=100)
    expected = before.index_at(world.info.close_time, shares, decimals)
    assert before.stored is not None
    assert before.stored[0] < (expected or 0)
    assert (expected, world.info.close_time) == decode_emission(emission_of(world)[0], True).stored  # to the last digit

    left = ALLOTMENT - promised
    assert [
        ("backfill", False, left),
        ("backfill", True, left),
        ("emitter", False, None),
        ("emitter", True, None),
    ] == seen


def test_the_allotment_ends(world: World) -> None:
    """After 10,000,000 BLND the backstop promises nothing more, and nothing remains."""
    world.restart()
    paid = Paid(world)
    key, data = made_ledger.entry(paid.backstop, symbol("BackfillEmis"), i128(ALLOTMENT - ONE))
    world.entries[key] = RawEntry(data, world.info.ledger, NEVER)
    world.machine.put({key: world.entries[key]})
    assert ONE == paid.said().remaining
    paid.do(paid.backstop, "distribute", after=DAY)

    assert paid.said() == Funding(EmissionSource.BACKFILL, False, 0)
    more = world.transact(Step(DAY, 1, paid.backstop, "distribute", ()))
    assert "Error(Contract, #1010)" == more.error
