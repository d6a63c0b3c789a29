"""Peridot's vaults in the embedded network: plain integers, written apart from the exporter's math.

The formulas are those of docs/protocols/peridot.md, for the code that caches what it was quoted. A boosted vault keeps
part of its cash in a DeFindex vault, whose shares are worth more over time.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

SCALE = 10**6
INDEX_SCALE = 10**18
YEAR = 31_536_000


@dataclass(frozen=True, slots=True)
class RateModel:
    """The parameters of a jump rate model contract at ``address``, 6 decimals."""

    address: str
    base: int
    multiplier: int
    jump: int
    kink: int

    def borrow_rate(self, cash: int, borrowed: int, reserves: int) -> int:
        """The rate a year that borrowers pay."""
        used = self.utilization(cash, borrowed, reserves)
        if used <= self.kink:
            return self.base + used * self.multiplier // SCALE
        return self.base + self.kink * self.multiplier // SCALE + (used - self.kink) * self.jump // SCALE

    @staticmethod
    def utilization(cash: int, borrowed: int, reserves: int) -> int:
        """The share that is lent."""
        owned = max(cash + borrowed - reserves, 0)
        return min(borrowed * SCALE // owned, SCALE) if borrowed and owned else 0


@dataclass(slots=True)
class Boost:
    """A vault's place in a DeFindex vault: its shares, and of that vault all shares and all assets."""

    address: str
    shares: int = 0
    all_shares: int = 0
    all_assets: int = 0

    def worth(self) -> int:
        """What the shares would pay out."""
        return self.shares * self.all_assets // self.all_shares if self.all_shares else 0

    def put(self, amount: int) -> None:
        """Pay in."""
        shares = amount * self.all_shares // self.all_assets if self.all_assets else amount
        self.shares += shares
        self.all_shares += shares
        self.all_assets += amount

    def take(self, amount: int) -> None:
        """Pay out; the shares that it costs are rounded up."""
        shares = min(-(-amount * self.all_shares // self.all_assets), self.shares)
        self.shares -= shares
        self.all_shares -= shares
        self.all_assets -= amount

    def earn(self, random: Random) -> None:
        """What the assets earn elsewhere in a short while."""
        self.all_assets += self.all_assets * random.randint(0, 20) // 10**7


@dataclass(slots=True)
class Vault:
    """A vault's state: amounts in base units of the token, ``receipts`` in those of the receipt token."""

    address: str
    controller: str
    token: str
    decimals: int
    model: RateModel
    reserve_factor: int
    admin_fee: int
    last_update: int
    boost: Boost | None = None
    cash: int = 0
    deposited: int = 0
    borrowed: int = 0
    reserves: int = 0
    admin_fees: int = 0
    index: int = INDEX_SCALE
    receipts: int = 0
    supply_cap: int = 0
    borrow_cap: int = 0
    gift: int = 0
    """What somebody sent to the vault: it has it, and does not count it as its own."""
    cached: int = 0
    cached_at: int = 0

    def all_cash(self) -> int:
        """The vault's own cash, and what it has boosted."""
        return self.cash + (self.boost.worth() if self.boost else 0)

    def underlying(self) -> int:
        """What the suppliers own."""
        return max(self.all_cash() + self.borrowed - self.reserves - self.admin_fees, 0)

    def available(self) -> int:
        """What can be paid out."""
        return max(self.underlying() - self.borrowed, 0)

    def exchange_rate(self) -> int:
        """What a receipt token is worth, 6 decimals."""
        owned = self.underlying()
        return owned * SCALE // self.receipts if owned and self.receipts else SCALE

    def look(self, time: int) -> None:
        """Ask what the boosted cash is worth, and remember it."""
        if self.boost:
            self.cached, self.cached_at = self.boost.worth(), time

    def boosted_for_rate(self, time: int) -> int:
        """What of the boosted cash counts for the rate: what is remembered for an hour, then what the accounts say."""
        accounts = max(self.deposited + self.reserves + self.admin_fees - self.borrowed - self.cash, 0)
        reported = self.cached if time - self.cached_at <= 3_600 else accounts
        known = max(self.cached, accounts)
        if known == 0 and self.borrowed == 0:
            return reported
        return min(reported, known + known * 5 // 100)

    def rate(self, time: int) -> int:
        """The rate a year that borrowers pay at this state."""
        cash = self.cash + self.gift + self.boosted_for_rate(time)
        return self.model.borrow_rate(cash, self.borrowed, self.reserves + self.admin_fees)

    def accrue(self, time: int) -> None:
        """Add the interest since the last time: simple, split among reserves, admin fees and suppliers."""
        if time <= self.last_update:
            return
        interest = self.borrowed * self.rate(time) * (time - self.last_update) // (YEAR * SCALE)
        if self.borrowed:
            self.index += self.index * interest // self.borrowed
        self.borrowed += interest
        self.reserves += interest * self.reserve_factor // SCALE
        self.admin_fees += interest * self.admin_fee // SCALE
        self.last_update = time

    def deposit(self, amount: int) -> None:
        """Supply an amount for receipt tokens; a boosted vault lends all of it on."""
        self.receipts += amount * SCALE // self.exchange_rate()
        self.deposited += amount
        self.cash += amount
        if self.boost:
            self.boost.put(amount)
            self.cash -= amount

    def borrow(self, amount: int) -> None:
        """Lend an amount, from the boosted cash where the vault's own does not suffice."""
        self._fetch(amount)
        self.cash -= amount
        self.borrowed += amount

    def repay(self, amount: int) -> None:
        """Take back what was lent."""
        self.cash += amount
        self.borrowed -= amount

    def withdraw(self, receipts: int) -> None:
        """Pay out receipt tokens."""
        amount = receipts * self.exchange_rate() // SCALE
        self._fetch(amount)
        self.receipts -= receipts
        self.deposited = max(self.deposited - amount, 0)
        self.cash -= amount

    def operate(self, random: Random, time: int) -> str:
        """Accrue, and do what one user might: gives which operation it was."""
        if self.boost:
            self.boost.earn(random)
        self.accrue(time)
        self.look(time)
        part = random.randint(1, 200)  # up to 2% of what is there
        operation = random.choice(("deposit", "borrow", "repay", "withdraw"))
        if operation == "deposit":
            self.deposit(max(self.underlying(), 10**self.decimals) * part // 10_000)
        elif operation == "repay":
            self.repay(self.borrowed * part // 10_000)
        elif operation == "borrow":
            self.borrow(self.available() * part // 10_000)
        else:
            receipts = self.receipts * part // 10_000
            if receipts * self.exchange_rate() // SCALE <= self.available():
                self.withdraw(receipts)
        return operation

    def _fetch(self, amount: int) -> None:
        if amount > self.cash and self.boost:
            missing = amount - self.cash
            self.boost.take(missing)
            self.cash += missing
