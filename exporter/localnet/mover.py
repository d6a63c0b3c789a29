"""Moves a recorded market: it accrues by `exporter.protocols.*.accrual`, then supply, debt and cash change together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.localnet.oracle import Prices
from exporter.protocols import PROTOCOLS, accrual_rules
from exporter.protocols.accrual import Step
from exporter.protocols.movement import DataLookup, MovingPool, NumberField, token_decimals

_MARKET_DOLLARS = (40_000, 60_000_000)


class Mover:
    """Moves pools by chance, each around a size and a utilization of its own."""

    def __init__(self, random: Random, prices: Prices) -> None:
        self._random, self._prices = random, prices
        self._aims: dict[tuple[bytes, str], tuple[float, float]] = {}  # supply in dollars, and the share that is lent
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

    def _operation(self, pool: MovingPool, owed: int, free: int) -> tuple[int, int]:
        """How much a user supplies (or takes back, below zero), or borrows (or repays)."""
        price, supply, key = self._prices.of(pool.token), owed + free, (pool.key, pool.token)
        dollars, share = self._aims.get(key) or self._first_aim(
            supply * price / 10 ** (14 + pool.decimals), owed, supply
        )
        dollars *= 1 + self._random.gauss(0, 0.006)
        share = min(max(share + self._random.gauss(0, 0.004), 0.15), 0.85)
        self._aims[key] = dollars, share
        wanted = int(dollars * 10 ** (14 + pool.decimals)) // price
        lent = int(wanted * share)
        if supply < wanted // 2:
            return wanted - supply, 0
        if abs(owed - lent) > wanted // 4:
            return 0, min(lent - owed, free * 9 // 10)
        by_chance = int(wanted * self._random.gauss(0, 0.01))
        if self._random.random() < 0.5:
            return max(by_chance + (wanted - supply) // 50, -(free // 2)), 0
        return 0, max(min(by_chance + (lent - owed) // 50, free // 2), -(owed // 2))

    def _first_aim(self, dollars: float, owed: int, supply: int) -> tuple[float, float]:
        """What a pool has, where that is of a market's size, or else a size by chance."""
        low, high = _MARKET_DOLLARS
        share = owed / max(supply, 1)
        if not low <= dollars <= high:
            dollars = low * (high / low) ** self._random.random()
        return dollars, share if 0.1 <= share <= 0.9 else self._random.uniform(0.25, 0.7)

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
