"""Moves recorded markets: interest accrues by `exporter.protocols.*.accrual`, then supply, debt and cash change."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from random import Random

from msgspec import Struct, field
from msgspec.structs import replace

from exporter.exact import ceil_divide
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.localnet.market_sizes import MarketSize, market_sizes, size_by_chance
from exporter.localnet.oracle import Prices
from exporter.protocols import PROTOCOLS, accrual_rules
from exporter.protocols.accrual import Step
from exporter.protocols.movement import DataLookup, MovingPool, NumberField, token_decimals, token_symbol

_PULL = 1 / 20
"""The part of the distance to its usual size and utilization by which a pool moves back in one move."""


class Mover:
    """Moves pools at random, each around its own size and utilization.

    ``labels`` has the label of the deployment of each contract, and ``copies`` the contracts that are copies.
    """

    def __init__(
        self, random: Random, prices: Prices, labels: Mapping[str, str] | None = None, copies: Container[str] = ()
    ) -> None:
        self._random, self._prices = random, prices
        self._labels, self._copies = labels or {}, copies
        self.changes_terms = False
        """Whether a pool's first move sets its amounts and terms at once, as no user's operation could."""
        self._sizes: dict[
            tuple[bytes, str], tuple[MarketSize, float, float]
        ] = {}  # with its dollars and utilization now
        self._rules = accrual_rules()
        self._movable = {
            name: (rule.owns, moving_pools)
            for name, rule in self._rules.items()
            if (moving_pools := PROTOCOLS[name].moving_pools) is not None
        }

    def pools(self, keys: Sequence[bytes], look: DataLookup) -> Iterator[MovingPool]:
        """The pools to which the entries of these keys belong."""
        for key in keys:
            for name, (owns, moving_pools) in self._movable.items():
                if owns(key):
                    for pool in moving_pools(key, look):
                        yield replace(pool, protocol=name, decimals=token_decimals(look, pool.token))

    def moves(self, pools: Sequence[MovingPool], look: DataLookup, time: int) -> dict[bytes, bytes]:
        draft = Draft(look)
        for pool in pools:
            self._move(pool, draft, time)
        return draft.written

    def accrue(self, pool: MovingPool, draft: Draft, time: int) -> DataLookup:
        """Let interest accrue in a pool up to a time in unix seconds. Returns a lookup of the entries before."""
        before = Draft(draft.before, dict(draft.written)).look
        draft.put(pool.time, time * (1_000 if pool.milliseconds else 1))
        self._compute(pool, before, draft, time, settled=False)
        if pool.fees is not None:
            fees, supply = pool.accrued(pool.fees), pool.supply[0]
            draft.put(supply, supply.read(draft.look) + fees.read(draft.look) - fees.read(before))
        return before

    def _move(self, pool: MovingPool, draft: Draft, time: int) -> None:
        before = self.accrue(pool, draft, time)
        if (pool.key, pool.token) not in self._sizes:
            self._resize(pool, draft)
        owed, free = pool.owed(draft.look), pool.free(draft.look)
        supplied, borrowed = self._operation(pool, owed, free)
        draft.add(pool.supply, supplied, owed + free)
        draft.add(pool.debt, borrowed, owed, up=True)
        for item in pool.cash:
            draft.put(item, max(item.read(draft.look) + supplied - borrowed, 0))
        for name in pool.settled:  # changed, so that the rule computes it from what it follows from
            draft.put(pool.accrued(name), pool.accrued(name).read(draft.look) + 1)
        if pool.settled:
            self._compute(pool, before, draft, time, settled=True)

    def _resize(self, pool: MovingPool, draft: Draft) -> None:
        """Give a pool its size and its terms. All its amounts change in proportion."""
        size = self._size_of(pool, draft.before)
        self._sizes[pool.key, pool.token] = size, size.dollars, size.utilization
        if not self.changes_terms:  # amounts that interest accrues to stay what the accrual rules say
            return
        if pool.term is not None:
            for name, number in size.terms.items():
                draft.put(pool.term(name), number)
        total = pool.owed(draft.look) + pool.free(draft.look)
        if not total:
            return
        new_total = self._tokens(pool, size.dollars)
        fees = () if pool.fees is None else (pool.accrued(pool.fees),)
        for item in (*pool.supply, *pool.aside, *fees):
            draft.put(item, item.read(draft.look) * new_total // total)
        for item in (*pool.debt, *pool.cash):
            draft.put(item, ceil_divide(item.read(draft.look) * new_total, total))
        for item in pool.supply:
            if not item.read(draft.look):  # the pool has cash that nobody supplied
                draft.put(item, new_total * item.first)

    def _size_of(self, pool: MovingPool, look: DataLookup) -> MarketSize:
        label = self._labels.get(pool.market, "")
        size = market_sizes().get(label, {}).get(token_symbol(look, pool.token))
        if size is None:
            return size_by_chance(self._random)
        return size.smaller(self._random) if pool.market in self._copies else size

    def _tokens(self, pool: MovingPool, dollars: float) -> int:
        return int(dollars * 10 ** (14 + pool.decimals)) // self._prices.of(pool.token)

    def _operation(self, pool: MovingPool, owed: int, free: int) -> tuple[int, int]:
        """How much a user supplies, and how much a user borrows. Below zero it is withdrawn or repaid."""
        size, dollars, share = self._sizes[pool.key, pool.token]
        dollars *= 1 + self._random.gauss(0, 0.006) + (size.dollars / dollars - 1) * _PULL
        share += self._random.gauss(0, 0.004) + (size.utilization - share) * _PULL
        self._sizes[pool.key, pool.token] = size, dollars, share
        supply, target_supply = owed + free, self._tokens(pool, dollars)
        target_debt = int(target_supply * share)
        if supply < target_supply // 2:
            return target_supply - supply, 0
        if abs(owed - target_debt) > target_supply // 10:
            return 0, min(target_debt - owed, free * 9 // 10)
        noise = int(target_supply * self._random.gauss(0, 0.006))
        if self._random.random() < 0.5:
            return max(noise + int((target_supply - supply) * _PULL), -(free // 2)), 0
        return 0, max(min(noise + int((target_debt - owed) * _PULL), free // 2), -(owed // 2))

    def _compute(self, pool: MovingPool, before: DataLookup, draft: Draft, time: int, *, settled: bool) -> None:
        def entries(look: DataLookup) -> Callable[[bytes], Entry | None]:
            return lambda key: None if (data := look(key)) is None else Entry(key, RawEntry(data, 1, None))

        rule = self._rules[pool.protocol]
        for transition in rule.read(pool.key, Step(time, entries(before), entries(draft.look), entries(draft.look))):
            for name, number in transition.compute().items():
                if (name in pool.settled) == settled:
                    draft.put(pool.accrued(name), number)


class Draft(Struct):
    """Entries that were written, on top of the entries before."""

    before: DataLookup
    written: dict[bytes, bytes] = field(default_factory=dict)

    def look(self, key: bytes) -> bytes | None:
        """The present entry under a key."""
        return self.written[key] if key in self.written else self.before(key)

    def put(self, item: NumberField, number: int) -> None:
        """Write a number into a field."""
        data = item.write(self.look, number)
        if data is not None:
            self.written[item.key] = data

    def add(self, items: Sequence[NumberField], amount: int, total: int, *, up: bool = False) -> None:
        """Change fields by an amount of tokens. Each changes in its own unit, in proportion to the total.

        The total is rounded down, and so is each change, or with ``up`` the other way: like contracts, a pool never
        owes its suppliers more for a rounding.
        """
        for item in items if amount else ():
            number = item.read(self.look)
            if not (number and total):
                change = amount * item.first
            elif up:
                change = ceil_divide(number * amount, total if amount > 0 else total + 1)
            else:
                change = number * amount // (total + 1 if amount > 0 else total)
            self.put(item, max(number + change, 0))
