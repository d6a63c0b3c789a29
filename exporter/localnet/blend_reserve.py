"""The reserves of the made markets: their state, and the operations that change it, in plain Python integers.

The embedded network plays the contract here, so this is written apart from the exporter's own math. All formulas are
those of facts/blend.md 2; amounts are token base units.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

SCALE_7 = 10**7
SECONDS_PER_YEAR = 31_536_000
_STEEP_FROM = 9_500_000  # the third slope begins at a constant utilization


@dataclass(frozen=True, slots=True)
class Generation:
    """What differs between the two generations of the pool contract (facts/blend.md 1.1 and 2)."""

    label: str
    wasm_hash: bytes
    rate_scale: int
    modifier_scale: int
    caps_utilization: bool
    max_reserves: int


V1 = Generation(
    label="v1",
    wasm_hash=bytes.fromhex("baf978f10efdbcd85747868bef8832845ea6809f7643b67a4ac0cd669327fc2c"),
    rate_scale=10**9,
    modifier_scale=10**9,
    caps_utilization=False,
    max_reserves=32,
)
V2 = Generation(
    label="v2",
    wasm_hash=bytes.fromhex("a41fc53d6753b6c04eb15b021c55052366a4c8e0e21bc72700f461264ec1350e"),
    rate_scale=10**12,
    modifier_scale=10**7,
    caps_utilization=True,
    max_reserves=30,
)


@dataclass(frozen=True, slots=True)
class ReserveConfig:
    """``ResConfig``; 7 decimals where not said otherwise. ``enabled`` and ``supply_cap`` exist in v2 only."""

    index: int
    decimals: int
    c_factor: int
    l_factor: int
    util: int
    max_util: int
    r_base: int
    r_one: int
    r_two: int
    r_three: int
    reactivity: int
    supply_cap: int
    enabled: bool = True


@dataclass(slots=True)
class Reserve:
    """One reserve: its token, its configuration, and the seven fields of ``ResData``."""

    generation: Generation
    token: str
    config: ReserveConfig
    take_rate: int
    b_rate: int
    d_rate: int
    ir_mod: int
    b_supply: int
    d_supply: int
    backstop_credit: int
    last_time: int

    @property
    def supplied(self) -> int:
        """Total supply in base units, rounded down."""
        return self.b_supply * self.b_rate // self.generation.rate_scale

    @property
    def borrowed(self) -> int:
        """Total liabilities in base units, rounded up."""
        return _ceiling(self.d_supply * self.d_rate, self.generation.rate_scale)

    def utilization(self) -> int:
        """Utilization of the stored state, 7 decimals."""
        supplied, borrowed = self.supplied, self.borrowed
        if borrowed == 0:
            return 0
        if self.generation.caps_utilization and borrowed >= supplied:
            return SCALE_7
        return _ceiling(borrowed * SCALE_7, supplied) if supplied else 0

    def borrow_rate(self, utilization: int) -> int:
        """The yearly borrow rate at a utilization, 7 decimals."""
        config, scale = self.config, self.generation.modifier_scale
        if utilization <= config.util:
            slope = _ceiling(_ceiling(utilization * SCALE_7, config.util) * config.r_one, SCALE_7)
            return _ceiling((slope + config.r_base) * self.ir_mod, scale)
        if utilization <= _STEEP_FROM:
            over = _ceiling((utilization - config.util) * SCALE_7, _STEEP_FROM - config.util)
            slope = _ceiling(over * config.r_two, SCALE_7)
            return _ceiling((slope + config.r_one + config.r_base) * self.ir_mod, scale)
        over = _ceiling((utilization - _STEEP_FROM) * SCALE_7, SCALE_7 - _STEEP_FROM)
        slope = _ceiling(over * config.r_three, SCALE_7)
        return slope + _ceiling(self.ir_mod * (config.r_two + config.r_one + config.r_base), scale)

    def accrue(self, time: int) -> None:
        """Bring interest up to ``time`` (facts/blend.md 2.4)."""
        elapsed = time - self.last_time
        if elapsed <= 0:
            return
        self.last_time = time
        utilization = self.utilization() if self.b_supply else 0
        if utilization == 0:
            return
        scale, modifier_scale = self.generation.rate_scale, self.generation.modifier_scale
        rate = self.borrow_rate(utilization)
        step = elapsed * (utilization - self.config.util) * (modifier_scale // SCALE_7) * self.config.reactivity
        step = step // SCALE_7 if step >= 0 else -(-step // SCALE_7)
        self.ir_mod = min(max(self.ir_mod + step, modifier_scale // 10), 10 * modifier_scale)
        accrual = scale + _ceiling(elapsed * scale // SECONDS_PER_YEAR * rate, SCALE_7)
        supplied, borrowed = self.supplied, self.borrowed
        self.d_rate = _ceiling(accrual * self.d_rate, scale)
        gain = self.borrowed - borrowed
        if gain > 0:
            credit = gain * self.take_rate // SCALE_7
            self.backstop_credit += credit
            self.b_rate = (supplied + gain - credit) * scale // self.b_supply

    def operate(self, random: Random, time: int, status: int) -> str:
        """Accrue, and do what one user might: supply, withdraw, borrow or repay; gives which.

        What the pool's status or the reserve's limits forbid becomes a repayment or a withdrawal, which they never do.
        """
        self.accrue(time)
        scale = self.generation.rate_scale
        part = random.randint(1, 200)  # up to 2% of what is there
        operation = random.choice(("supply", "withdraw", "borrow", "repay"))
        if operation == "borrow":
            amount = max(self.supplied - self.borrowed, 0) * part // 10_000
            highest = self.config.max_util * self.supplied // SCALE_7
            if status <= 1 and self.config.enabled and amount and self.borrowed + amount <= highest:
                self.d_supply += _ceiling(amount * scale, self.d_rate)
                return operation
            operation = "repay"
        if operation == "supply":
            amount = max(self.supplied, 10**self.config.decimals) * part // 10_000
            allowed = status <= 3 and self.config.enabled and self.b_rate > 0
            if allowed and self.supplied + amount <= self.config.supply_cap:
                self.b_supply += amount * scale // self.b_rate
                return operation
            operation = "withdraw"
        if operation == "repay" and self.d_supply:
            self.d_supply -= min(self.borrowed * part // 10_000 * scale // self.d_rate, self.d_supply)
            return operation
        free = max(self.supplied - self.borrowed, 0)
        if self.b_rate > 0:
            self.b_supply -= min(_ceiling(free * part // 10_000 * scale, self.b_rate), self.b_supply)
        return "withdraw"


def _ceiling(number: int, divisor: int) -> int:
    return -(-number // divisor)
