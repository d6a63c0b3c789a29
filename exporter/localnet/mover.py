"""Moves a recorded market: it accrues by `exporter.protocols.*.accrual`, then supply, debt and cash change together."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.localnet.market_sizes import MarketSize, market_sizes, size_by_chance
from exporter.localnet.oracle import Prices
from exporter.protocols import PROTOCOLS, accrual_rules
from exporter.protocols.accrual import Step
from exporter.protocols.movement import DataLookup, MovingPool, NumberField, token_decimals, token_symbol

_PULL = 1 / 20
"""The part of its distance from where a pool belongs that one move takes back."""


class Mover:
    """Moves pools by chance, each around a size and a utilization of its own.

    ``labels`` are the deployments that contracts are of, ``copies`` which of these contracts are copies.
    """

    def __init__(
        self, random: Random, prices: Prices, labels: Mapping[str, str] | None = None, copies: Container[str] = ()
    ) -> None:
        self._random, self._prices = random, prices
        self._labels, self._copies = labels or {}, copies
        self._sizes: dict[tuple[bytes, str], tuple[MarketSize, float, float]] = {}  # with dollars and share by now
        self._rules = accrual_rules()
        self._movable = {
            name: (rule.owns, moving_pools)
            for name, rule in self._rules.items()
            if (moving_pools := PROTOCOLS[name].moving_pools) is not None
        }

    def pools(self, keys: Sequence[bytes], look: DataLookup) -> Iterator[MovingPool]:
        """The pools that the entries under these keys are of."""
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
        """Write what interest up to ``time`` makes of a pool; gives the entries before."""
        before = Draft(draft.before, dict(draft.written)).look
        draft.put(pool.time, time * (1_000 if pool.milliseconds else 1))
        self._compute(pool, before, draft, time, settled=False)
        if pool.fees is not None:
            own, supply = pool.accrued(pool.fees), pool.supply[0]
            draft.put(supply, supply.read(draft.look) + own.read(draft.look) - own.read(before))
        return before

    def _move(self, pool: MovingPool, draft: Draft, time: int) -> None:
        before = self.accrue(pool, draft, time)
        if (pool.key, pool.token) not in self._sizes:
            self._resize(pool, draft)
        owed, free = pool.owed(draft.look), pool.free(draft.look)
        supplied, borrowed = self._operation(pool, owed, free)
        draft.add(pool.supply, supplied, owed + free)
        draft.add(pool.debt, borrowed, owed)
        for item in pool.cash:
            draft.put(item, max(item.read(draft.look) + supplied - borrowed, 0))
        for name in pool.settled:  # another number, so that the rule looks for what it follows from
            draft.put(pool.accrued(name), pool.accrued(name).read(draft.look) + 1)
        if pool.settled:
            self._compute(pool, before, draft, time, settled=True)

    def _resize(self, pool: MovingPool, draft: Draft) -> None:
        """Give a pool its size and its terms: all of its amounts change alike."""
        size = self._size_of(pool, draft.before)
        self._sizes[pool.key, pool.token] = size, size.dollars, size.utilization
        if pool.term is not None:
            for name, number in size.terms.items():
                draft.put(pool.term(name), number)
        wanted, total = self._tokens(pool, size.dollars), pool.owed(draft.look) + pool.free(draft.look)
        kept = () if pool.fees is None else (pool.accrued(pool.fees),)
        for item in (*pool.supply, *pool.debt, *pool.cash, *pool.aside, *kept) if total else ():
            draft.put(item, item.read(draft.look) * wanted // total)
        for item in pool.supply if total else ():
            if not item.read(draft.look):  # cash that nobody supplied
                draft.put(item, wanted * item.first)

    def _size_of(self, pool: MovingPool, look: DataLookup) -> MarketSize:
        label = self._labels.get(pool.market, "")
        size = market_sizes().get(label, {}).get(token_symbol(look, pool.token))
        if size is None:
            return size_by_chance(self._random)
        return size.smaller(self._random) if pool.market in self._copies else size

    def _tokens(self, pool: MovingPool, dollars: float) -> int:
        return int(dollars * 10 ** (14 + pool.decimals)) // self._prices.of(pool.token)

    def _operation(self, pool: MovingPool, owed: int, free: int) -> tuple[int, int]:
        """How much a user supplies (or takes back, below zero), or borrows (or repays)."""
        size, dollars, share = self._sizes[pool.key, pool.token]
        dollars *= 1 + self._random.gauss(0, 0.006) + (size.dollars / dollars - 1) * _PULL
        share += self._random.gauss(0, 0.004) + (size.utilization - share) * _PULL
        self._sizes[pool.key, pool.token] = size, dollars, share
        supply, wanted = owed + free, self._tokens(pool, dollars)
        lent = int(wanted * share)
        if supply < wanted // 2:
            return wanted - supply, 0
        if abs(owed - lent) > wanted // 10:
            return 0, min(lent - owed, free * 9 // 10)
        by_chance = int(wanted * self._random.gauss(0, 0.006))
        if self._random.random() < 0.5:
            return max(by_chance + int((wanted - supply) * _PULL), -(free // 2)), 0
        return 0, max(min(by_chance + int((lent - owed) * _PULL), free // 2), -(owed // 2))

    def _compute(self, pool: MovingPool, before: DataLookup, draft: Draft, time: int, *, settled: bool) -> None:
        def entries(look: DataLookup) -> Callable[[bytes], Entry | None]:
            return lambda key: None if (data := look(key)) is None else Entry(key, RawEntry(data, 1, None))

        rule = self._rules[pool.protocol]
        for transition in rule.read(pool.key, Step(time, entries(before), entries(draft.look), entries(draft.look))):
            for name, number in transition.compute().items():
                if (name in pool.settled) == settled:
                    draft.put(pool.accrued(name), number)


@dataclass(slots=True)
class Draft:
    """Entries as they are written, over those before."""

    before: DataLookup
    written: dict[bytes, bytes] = field(default_factory=dict)

    def look(self, key: bytes) -> bytes | None:
        return self.written[key] if key in self.written else self.before(key)

    def put(self, item: NumberField, number: int) -> None:
        data = item.write(self.look, number)
        if data is not None:
            self.written[item.key] = data

    def add(self, items: Sequence[NumberField], amount: int, total: int) -> None:
        """Change fields by an amount of tokens, each in its own measure: in proportion to the total."""
        for item in items if amount else ():
            number = item.read(self.look)
            change = number * amount // total if number and total else amount * item.first
            self.put(item, max(number + change, 0))
