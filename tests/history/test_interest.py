"""Compares what pools paid and cost over days with a second computation from the money that went in and out.

The contracts of two pools are modelled by the formulas of docs/protocols/blend.md and docs/protocols/peridot.md, in
integers that are rounded as there, with the shares of each user. What users earned and paid follows from what they put
in, took out and could take out at last, and from no index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor
from typing import Any, ClassVar, Protocol

import polars as pl
import pytest

from exporter.history.buckets import observations_of
from exporter.history.periods import periods_of
from exporter.history.series import Series
from exporter.history.time_buckets import DAY as DAY_BUCKET
from exporter.ledger.codec.entries import data_key, instance_key, variant_key
from exporter.ledger.codec.scval_encode import address, i128, symbol, u32, u64, u128, vec
from exporter.protocols.blend.layout import reserve_config_key, reserve_data_key
from exporter.tables import PoolKey
from exporter.tree.documents import timestamp
from exporter.tree.pool_periods import AssetPeriod
from tests.protocols.world import World, demanded, token

pytestmark = pytest.mark.slow

HOUR, DAY = 3_600, 86_400
YEAR = 365 * DAY
MIDNIGHT = 1_795_392_000  # 2026-11-23T00:00:00Z


class Contract(Protocol):
    """The contract of a pool, whose interest is brought up to a time by each operation."""

    pool: PoolKey
    step: Fraction
    """The part of a deposit by which the worth of its shares moves at least: what a share's price is rounded to."""
    index: int
    """The factor by which all debt grows."""

    def __init__(self, world: World) -> None: ...

    def accrue(self, time: int) -> None: ...
    def supply(self, user: str, amount: int) -> None: ...
    def withdraw(self, user: str, amount: int) -> None: ...
    def borrow(self, user: str, amount: int) -> None: ...
    def repay(self, user: str, amount: int) -> None: ...

    def lent(self, user: str) -> int:
        """What a user could take out."""

    def owed(self, user: str) -> int:
        """What a user has to pay back."""

    def kept(self) -> int:
        """What the protocol has set aside."""

    def write(self, world: World) -> None:
        """Put the state into the ledger."""


class Blend:
    """A reserve of Blend v2."""

    scale = 10**12
    step = Fraction(1, 10**12)
    terms: ClassVar = {"util": 8_000_000, "r_base": 5_000, "r_one": 300_000, "r_two": 1_000_000, "r_three": 10_000_000}
    reactivity, backstop_part = 400, 2_000_000

    def __init__(self, world: World) -> None:
        pools = world.compute().pools.filter(version="v2", symbol="USDC")
        self.pool = PoolKey(*pools.select("market", "pool").row(0))
        self.b_rate = self.index = self.scale
        self.ir_mod, self.credit, self.time = 10**7, 0, 0
        self.lenders: Counter[str] = Counter()
        self.borrowers: Counter[str] = Counter()

    def _utilization(self) -> int:
        return ceil(Fraction(self._debt() * 10**7, self._supplied()))

    def _supplied(self) -> int:
        return self.lenders.total() * self.b_rate // self.scale

    def _debt(self) -> int:
        return ceil(Fraction(self.borrowers.total() * self.index, self.scale))

    def accrue(self, time: int) -> None:
        elapsed, self.time = time - self.time, time
        if not elapsed or not self.lenders.total() or not self._debt():
            return
        used, target, terms = self._utilization(), self.terms["util"], self.terms
        assert used <= target  # the first slope is enough here
        slope = ceil(Fraction(ceil(Fraction(used * 10**7, target)) * terms["r_one"], 10**7))
        rate = ceil(Fraction((terms["r_base"] + slope) * self.ir_mod, 10**7))
        supplied, debt = self._supplied(), self._debt()
        growth = self.scale + ceil(Fraction(elapsed * self.scale // YEAR * rate, 10**7))
        moved = int(Fraction(elapsed * self.reactivity * (used - target), 10**7))
        self.ir_mod = min(max(self.ir_mod + moved, 10**6), 10**8)
        self.index = ceil(Fraction(growth * self.index, self.scale))
        gain = self._debt() - debt
        credit = gain * self.backstop_part // 10**7
        self.credit += credit
        self.b_rate = (supplied + gain - credit) * self.scale // self.lenders.total()

    def supply(self, user: str, amount: int) -> None:
        self.lenders[user] += amount * self.scale // self.b_rate

    def withdraw(self, user: str, amount: int) -> None:
        self.lenders[user] -= ceil(Fraction(amount * self.scale, self.b_rate))

    def borrow(self, user: str, amount: int) -> None:
        self.borrowers[user] += ceil(Fraction(amount * self.scale, self.index))

    def repay(self, user: str, amount: int) -> None:
        self.borrowers[user] -= amount * self.scale // self.index

    def lent(self, user: str) -> int:
        return self.lenders[user] * self.b_rate // self.scale

    def owed(self, user: str) -> int:
        return ceil(Fraction(self.borrowers[user] * self.index, self.scale))

    def kept(self) -> int:
        return self.credit

    def write(self, world: World) -> None:
        state = reserve_data_key(*self.pool)
        for name, number in {
            "b_rate": self.b_rate,
            "b_supply": self.lenders.total(),
            "backstop_credit": self.credit,
            "d_rate": self.index,
            "d_supply": self.borrowers.total(),
            "ir_mod": self.ir_mod,
        }.items():
            world.put(state, i128(number), name)
        world.put(state, u64(self.time), "last_time")
        for name, number in (self.terms | {"reactivity": self.reactivity}).items():
            world.put(reserve_config_key(*self.pool), u32(number), name)
        world.put(instance_key(self.pool.market), u32(self.backstop_part), "Config", "bstop_rate")


class Peridot:
    """A vault of Peridot without boosted cash. A share's price has 6 decimals."""

    one = 10**6
    step = Fraction(1, 10**6)
    base, multiplier, kink = 10_000, 60_000, 900_000
    reserve_part, admin_part = 100_000, 50_000

    def __init__(self, world: World) -> None:
        pools = world.compute().pools.filter(symbol="native")
        self.pool = PoolKey(*pools.select("market", "pool").row(0))
        self.index = 10**18
        self.cash = self.debt = self.reserves = self.fees = self.time = 0
        self.lenders: Counter[str] = Counter()
        self.borrowers: dict[str, tuple[int, int]] = {}

    def _owned(self) -> int:
        return self.cash + self.debt - self.reserves - self.fees

    def _price(self) -> int:
        return self._owned() * self.one // self.lenders.total() if self.lenders.total() else self.one

    def accrue(self, time: int) -> None:
        elapsed, self.time = time - self.time, time
        if not elapsed or not self.debt:
            return
        used = min(self.one, self.debt * self.one // self._owned())
        assert used <= self.kink  # the first slope is enough here
        rate = self.base + used * self.multiplier // self.one
        interest = self.debt * rate * elapsed // (YEAR * self.one)
        self.index += self.index * interest // self.debt
        self.debt += interest
        self.reserves += interest * self.reserve_part // self.one
        self.fees += interest * self.admin_part // self.one

    def supply(self, user: str, amount: int) -> None:
        self.lenders[user] += amount * self.one // self._price()
        self.cash += amount

    def withdraw(self, user: str, amount: int) -> None:
        self.lenders[user] -= ceil(Fraction(amount * self.one, self._price()))
        self.cash -= amount

    def borrow(self, user: str, amount: int) -> None:
        self.borrowers[user] = self.owed(user) + amount, self.index
        self.debt += amount
        self.cash -= amount

    def repay(self, user: str, amount: int) -> None:
        self.borrow(user, -amount)

    def lent(self, user: str) -> int:
        return self.lenders[user] * self._price() // self.one

    def owed(self, user: str) -> int:
        principal, index = self.borrowers.get(user, (0, self.index))
        return principal * self.index // index

    def kept(self) -> int:
        return self.reserves + self.fees

    def write(self, world: World) -> None:
        vault = self.pool.pool
        world.put(instance_key(vault), i128(self.lenders.total()), vec(symbol("TotalSupply")))
        world.put(variant_key(vault, "LastUpdateTime"), u64(self.time))
        for name, number in {
            "TotalBorrowed": self.debt,
            "TotalReserves": self.reserves,
            "TotalAdminFees": self.fees,
            "TotalDeposited": self.cash + self.debt,
            "ManagedCash": self.cash,
            "BorrowIndex": self.index,
            "ReserveFactorScaled": self.reserve_part,
            "AdminFeeScaled": self.admin_part,
        }.items():
            world.put(variant_key(vault, name), u128(number))
        model = world.value(variant_key(vault, "InterestModel"))
        assert model is not None
        for name, number in {
            "BaseRatePerYear": self.base,
            "MultiplierPerYear": self.multiplier,
            "Kink": self.kink,
        }.items():
            world.put(variant_key(model[1], name), u128(number))
        balance = data_key(token("native"), vec(symbol("Balance"), address(vault)))
        world.put(balance, i128(self.cash), "amount")


OPERATIONS = [
    (0, "supply", "Ann", 700_000_000_000),
    (0, "supply", "Ben", 300_000_000_000),
    (0, "borrow", "Cem", 350_000_000_000),
    (5 * HOUR + 7, "borrow", "Dov", 120_000_000_000),
    (13 * HOUR, "withdraw", "Ben", 90_000_000_001),
    (23 * HOUR + 59, "repay", "Dov", 50_000_000_003),
    (30 * HOUR, "supply", "Eva", 250_000_000_007),
    (38 * HOUR + 11, "borrow", "Dov", 80_000_000_000),
    (49 * HOUR + 30, "withdraw", "Ben", 100_000_000_000),
    (60 * HOUR, "borrow", "Dov", 200_000_000_000),
    (71 * HOUR + 59, "supply", "Ben", 5_000_000_000),
    (75 * HOUR, "repay", "Dov", 1_000_000_000),
]
"""Seconds since the first midnight, what a user does then, and with how much. Ann and Cem wait."""

USERS = ("Ann", "Ben", "Cem", "Dov", "Eva")

WAITING = (96 * HOUR, 240 * HOUR, 252 * HOUR, 265 * HOUR)
"""The times after the last operation at which the pool is observed, so that a day and a week begin and end."""


@dataclass(frozen=True)
class Totals:
    """The deposits, withdrawable amounts and debts of all users at an observation, and the amount of one who waits."""

    time: int
    earned: int
    """What lenders gained since the beginning."""
    paid: int
    """What loans cost since the beginning."""
    kept: int
    """What the protocol has set aside."""
    deposit: int
    """What a deposit is worth that nobody touched."""
    loan: int
    """What a loan has become that nobody touched."""
    late: Fraction
    """Interest since the observation before on what was borrowed, less what was repaid, since then."""


@dataclass
class Played:
    """Operations of a pool, played to a contract, and what is published about the pool."""

    totals: list[Totals]
    days: dict[int, dict[str, Any]]
    """The published days, by the day's start."""
    periods: dict[str, AssetPeriod]


def play(contract: Contract, world: World, observed: Sequence[int]) -> Played:
    """Do all operations, and observe the pool at these times, after what happens then."""
    totals: list[Totals] = []
    frames: list[pl.DataFrame] = []
    flows: Counter[str] = Counter()
    changes: list[tuple[int, int]] = []
    for time in sorted({*observed, *(each[0] for each in OPERATIONS)}):
        contract.accrue(MIDNIGHT + time)
        late = sum((amount * Fraction(contract.index - then, then) for amount, then in changes), Fraction(0))
        for _, name, user, amount in (each for each in OPERATIONS if each[0] == time):
            getattr(contract, name)(user, amount)
            flows[name] += amount
            if name in ("borrow", "repay"):
                changes.append((amount if name == "borrow" else -amount, contract.index))
        if time in observed:
            changes.clear()
            earned = sum(map(contract.lent, USERS)) - flows["supply"] + flows["withdraw"]
            paid = sum(map(contract.owed, USERS)) - flows["borrow"] + flows["repay"]
            waiting = contract.lent("Ann"), contract.owed("Cem")
            totals.append(Totals(MIDNIGHT + time, earned, paid, contract.kept(), *waiting, late))
            frames.append(read(contract, world, MIDNIGHT + time))
    series, now = Series(), frames[-1]
    for _ in series.extend(observations_of(pl.concat(frames)), world.chain.latest, world.time):
        pass
    days = {day["start"]: day for day in series.pools.closed(DAY_BUCKET).iter_rows(named=True)}
    [periods] = periods_of(series.pools, world.time, now)
    return Played(totals, days, {period.period: period for period in periods})


def read(contract: Contract, world: World, time: int) -> pl.DataFrame:
    """What is published about the pool at the close of a ledger."""
    contract.write(world)
    world.chain.close([], close_time=time)
    world.time = time
    pools = world.compute([demanded(world.protocol, contract.pool.market)]).pools
    return pools.filter(market=contract.pool.market, pool=contract.pool.pool)


def by_day(played: Played) -> Iterator[tuple[dict[str, Any], list[Totals]]]:
    """Each published day but the first, with the observations from the last one of the day before to its own last."""
    for start, day in sorted(played.days.items())[1:]:
        before = [each for each in played.totals if each.time < start]
        yield day, [before[-1], *(each for each in played.totals if start <= each.time < start + DAY)]


def played(contract: type[Contract], observed: Sequence[int]) -> tuple[Contract, Played]:
    """A new contract of a kind, and what is published about its pool."""
    world = World(contract.__name__.lower())
    new = contract(world)
    return new, play(new, world, [*observed, *WAITING])


@pytest.fixture(scope="module", params=[Blend, Peridot])
def often(request: pytest.FixtureRequest) -> tuple[Contract, Played]:
    """A pool that is observed right after each operation."""
    return played(request.param, [each[0] for each in OPERATIONS])


def test_a_day_of_interest_is_what_users_paid_and_got(often: tuple[Contract, Played]) -> None:
    """If each operation is observed, the two computations differ only by what is rounded to base units.

    A share's price has so many decimals, and suppliers get no more than it says. So the protocol's part has what they
    do not get yet.
    """
    contract, found = often
    days = list(by_day(found))

    assert 5 == len(days)
    for day, [first, *_, last] in days:
        rounded = day["observation_count"] + len(USERS)
        step = ceil(contract.step * day["total_supplied"])
        assert abs(day["interest_paid"] - (last.paid - first.paid)) <= rounded
        assert abs(day["interest_paid"] - day["interest_to_protocol"] - (last.earned - first.earned)) <= rounded + step
        assert abs(day["interest_to_protocol"] - (last.kept - first.kept)) <= rounded + 2 * step
        assert last.paid - first.paid > 100_000


def test_realized_yields_are_what_a_deposit_and_a_loan_made(often: tuple[Contract, Played]) -> None:
    """Yields of days, 24 hours and a week are the growth of a deposit and a loan that nobody touched."""
    _, found = often
    at = {timestamp(each.time): each for each in found.totals}
    windows: list[tuple[Totals, Totals, int | None, int | None]] = []
    for name in ("24h", "7d"):
        period = found.periods[name]
        ends = at[period.realized_from or ""], at[period.realized_to or ""]
        windows.append((*ends, period.realized_supply_apy_bps, period.realized_borrow_apy_bps))
    for start, day in found.days.items():
        first, *_, last = [each for each in found.totals if start <= each.time < start + DAY] * 2
        windows.append((first, last, day["realized_supply_apy_bps"], day["realized_borrow_apy_bps"]))

    assert found.periods["30d"].realized_from is None
    for first, last, supply, borrow in windows:
        assert a_year_of(first.deposit, last.deposit, last.time - first.time) == supply
        assert a_year_of(first.loan, last.loan, last.time - first.time) == borrow


def a_year_of(old: int, new: int, seconds: int) -> int | None:
    """The yield of a year with the same growth, in basis points; None without time between."""
    if not seconds:
        return None
    with localcontext(prec=60):
        return floor((Decimal(new) / old) ** (Decimal(YEAR) / seconds) * 10_000) - 10_000


@pytest.mark.parametrize("contract", [Blend, Peridot])
def test_what_is_borrowed_between_observations_counts_from_the_next_one(contract: type[Contract]) -> None:
    """A run does not see when somebody borrowed. So the interest of a new loan counts from the next observation on."""
    _, found = played(contract, range(0, 96 * HOUR, 8 * HOUR))
    days = list(by_day(found))

    for day, [first, *others] in days[:2]:
        late = sum(each.late for each in others)
        rounded = day["observation_count"] + len(OPERATIONS)
        assert abs(day["interest_paid"] - (others[-1].paid - first.paid - late)) <= rounded
        assert abs(late) > 100 * rounded
