"""Moves a recorded market: it accrues by `exporter.protocols.*.accrual`, then supply, debt and cash change together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import (
    decode_contract_data,
    encode_contract_data,
    instance_key,
    instance_of,
    is_instance_key,
    variant_key,
)
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.localnet.oracle import Prices
from exporter.protocols import accrual_rules
from exporter.protocols.accrual import Step

Look = Callable[[bytes], bytes | None]

_MARKET_DOLLARS = (40_000, 60_000_000)


@dataclass(frozen=True, slots=True)
class Field:
    """A number in an entry: the path to it. ``first`` is how much of it the first base unit of a token makes."""

    key: bytes
    path: tuple[ScVal, ...]
    first: int = 1

    def read(self, look: Look) -> int:
        data = look(self.key)
        value: ScVal | None = None if data is None else decode_contract_data(data).value
        for step in self.path:
            pairs = () if value is None else _pairs(value)
            value = next((item for name, item in pairs if name == step), None)
        return 0 if value is None else int(value[1])

    def write(self, look: Look, number: int) -> bytes | None:
        data = look(self.key)
        if data is None:
            return None
        entry = decode_contract_data(data)
        return encode_contract_data(entry._replace(value=_with(entry.value, self.path, number)))


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool that can move: ``key`` is the entry that its protocol's rule knows accruals by.

    ``accrued`` gives the field of a name that the rule computes. ``supply``, ``debt`` and ``cash`` are the fields that
    change with these amounts; the debt in tokens is its first field times ``index`` over ``scale``.
    """

    key: bytes
    token: str
    time: Field
    accrued: Callable[[str], Field]
    supply: tuple[Field, ...]
    debt: tuple[Field, ...]
    cash: tuple[Field, ...]
    index: Field | None = None
    scale: int = 1
    milliseconds: bool = False
    settled: tuple[str, ...] = ()
    """Names that follow from what the move leaves, so that they are computed after it."""
    fees: str | None = None
    """The name of the protocol's own shares, which are part of the supply and grow with interest."""
    protocol: str = ""
    decimals: int = 0

    @property
    def market(self) -> str:
        return strkey.encode_contract(self.key[8:40])

    @property
    def keys(self) -> frozenset[bytes]:
        return frozenset(item.key for item in (self.time, *self.supply, *self.debt, *self.cash))

    def owed(self, look: Look) -> int:
        raw = self.debt[0].read(look)
        return raw if self.index is None else raw * self.index.read(look) // self.scale

    def free(self, look: Look) -> int:
        return self.cash[0].read(look) if self.cash else 0


class Mover:
    """Moves pools by chance, each around a size and a utilization of its own."""

    def __init__(self, random: Random, prices: Prices) -> None:
        self._random, self._prices = random, prices
        self._aims: dict[tuple[bytes, str], tuple[float, float]] = {}  # supply in dollars, and the share that is lent
        self._rules = accrual_rules()

    def pools(self, keys: Sequence[bytes], look: Look) -> Iterator[Pool]:
        for key in keys:
            for protocol, places in _PLACES.items():
                if self._rules[protocol].owns(key):
                    for pool in places(key, look):
                        yield replace(pool, protocol=protocol, decimals=_decimals(look, pool.token))

    def moves(self, pools: Sequence[Pool], look: Look, time: int) -> dict[bytes, bytes]:
        draft = Draft(look)
        for pool in pools:
            self._move(pool, draft, time)
        return draft.written

    def accrue(self, pool: Pool, draft: Draft, time: int) -> Look:
        """Write what interest up to ``time`` makes of a pool; gives the entries before."""
        before = Draft(draft.before, dict(draft.written)).look
        draft.put(pool.time, time * (1_000 if pool.milliseconds else 1))
        self._compute(pool, before, draft, time, settled=False)
        if pool.fees is not None:
            own, supply = pool.accrued(pool.fees), pool.supply[0]
            draft.put(supply, supply.read(draft.look) + own.read(draft.look) - own.read(before))
        return before

    def _move(self, pool: Pool, draft: Draft, time: int) -> None:
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

    def _operation(self, pool: Pool, owed: int, free: int) -> tuple[int, int]:
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

    def _compute(self, pool: Pool, before: Look, draft: Draft, time: int, *, settled: bool) -> None:
        def entries(look: Look) -> Callable[[bytes], Entry | None]:
            return lambda key: None if (data := look(key)) is None else Entry(key, RawEntry(data, 1, None))

        rule = self._rules[pool.protocol]
        for transition in rule.read(pool.key, Step(time, entries(before), entries(draft.look), entries(draft.look))):
            for name, number in transition.compute().items():
                if (name in pool.settled) == settled:
                    draft.put(pool.accrued(name), number)


@dataclass(slots=True)
class Draft:
    """Entries as they are written, over those before."""

    before: Look
    written: dict[bytes, bytes] = field(default_factory=dict)

    def look(self, key: bytes) -> bytes | None:
        return self.written[key] if key in self.written else self.before(key)

    def put(self, item: Field, number: int) -> None:
        data = item.write(self.look, number)
        if data is not None:
            self.written[item.key] = data

    def add(self, items: Sequence[Field], amount: int, total: int) -> None:
        """Change fields by an amount of tokens, each in its own measure: in proportion to the total."""
        for item in items if amount else ():
            number = item.read(self.look)
            change = number * amount // total if number and total else amount * item.first
            self.put(item, max(number + change, 0))


def _pairs(value: ScVal) -> tuple[tuple[ScVal, ScVal], ...]:
    if value[0] == scval.CONTRACT_INSTANCE:
        return value[1].storage or ()
    return value[1] or () if value[0] == scval.MAP else ()


def _with(value: ScVal, path: tuple[ScVal, ...], number: int) -> ScVal:
    if not path:
        return (value[0], number)
    pairs = tuple((name, _with(item, path[1:], number) if name == path[0] else item) for name, item in _pairs(value))
    if value[0] == scval.CONTRACT_INSTANCE:
        content: ContractInstance = value[1]
        return (value[0], content._replace(storage=pairs))
    return (value[0], pairs)


def _text(look: Look, key: bytes, *path: ScVal) -> str:
    value = decode_contract_data(look(key) or b"").value
    for step in path:
        value = dict(_pairs(value))[step]
    return str(value[1])


def _token_of(key: bytes, look: Look) -> str:
    return str(decode_contract_data(look(key) or b"").key[1][1][1])


def _fields(key: bytes, *path: ScVal) -> Callable[[str], Field]:
    return lambda name: Field(key, (*path, symbol(name)))


def _decimals(look: Look, token: str) -> int:
    return Field(instance_key(token), (symbol("METADATA"), symbol("decimal"))).read(look)


def _balance(look: Look, token: str, holder: str) -> Field:
    """A contract's balance of a token: a Stellar asset keeps a struct, and the SDK's token a number."""
    key = variant_key(token, "Balance", address(holder))
    data = look(key)
    plain = data is not None and decode_contract_data(data).value[0] == scval.I128
    return Field(key, () if plain else (symbol("amount"),))


def _blend(key: bytes, look: Look) -> Iterator[Pool]:
    token, at = _token_of(key, look), _fields(key)
    scale = 10**12 if at("d_rate").read(look) > 10**11 else 10**9
    cash = _balance(look, token, strkey.encode_contract(key[8:40]))
    yield Pool(key, token, at("last_time"), at, (at("b_supply"),), (at("d_supply"),), (cash,), at("d_rate"), scale)


def _xoxno(key: bytes, look: Look) -> Iterator[Pool]:
    asset = dict(_pairs(decode_contract_data(look(key) or b"").key[1][1]))
    token, at = str(asset[symbol("asset")][1]), _fields(key)
    unit = 10 ** (27 - _decimals(look, token))
    supply, debt = (Field(key, (symbol(name),), unit) for name in ("supplied", "borrowed"))
    yield Pool(
        key,
        token,
        at("last_timestamp"),
        at,
        (supply,),
        (debt,),
        (at("cash"),),
        at("borrow_index"),
        10**27 * unit,
        milliseconds=True,
        fees="revenue",
    )


def _k2(key: bytes, look: Look) -> Iterator[Pool]:
    token, at = _token_of(key, look), _fields(key)
    shares, debts = (_text(look, key, symbol(f"{name}_token_address")) for name in ("a", "debt"))
    supply = Field(instance_key(shares), (vec(symbol("State")), symbol("total_supply_scaled")))
    debt = Field(instance_key(debts), (vec(symbol("State")), symbol("total_debt_scaled")))
    yield Pool(
        key,
        token,
        at("last_update_timestamp"),
        at,
        (supply,),
        (debt,),
        (_balance(look, token, shares),),
        at("variable_borrow_index"),
        10**27,
        settled=("current_liquidity_rate", "current_variable_borrow_rate"),
    )


def _slender(key: bytes, look: Look) -> Iterator[Pool]:
    if not is_instance_key(key):
        return
    market, storage = strkey.encode_contract(key[8:40]), instance_of(decode_contract_data(look(key) or b"")).storage
    for name, value in storage or ():
        if name[0] != scval.VEC or name[1][0] != symbol("ReserveAssetKey"):
            continue
        token, (_, (_, (_, shares), (_, debts))) = str(name[1][1][1]), dict(_pairs(value))[symbol("reserve_type")]
        supply, debt = (Field(key, (vec(symbol("TokenSupply"), address(each)),)) for each in (shares, debts))
        cash = Field(variant_key(market, "TokenBalance", address(token), address(shares)), ())
        at = _fields(key, name)
        time, index = at("last_update_timestamp"), at("borrower_ar")
        yield Pool(key, token, time, at, (supply,), (debt,), (cash,), index, 10**9)


def _alula(key: bytes, look: Look) -> Iterator[Pool]:
    token, at = _token_of(key, look), _fields(key)
    supply = (Field(key, (symbol("total_j_tokens"),), 10),)
    debt = at("total_borrowed"), at("total_d_tokens")
    cash = at("total_available"), _balance(look, token, strkey.encode_contract(key[8:40]))
    yield Pool(key, token, at("last_accrual_timestamp"), at, supply, debt, cash)


_PERIDOT_NAMES = {
    "borrow_index": "BorrowIndex",
    "total_admin_fees": "TotalAdminFees",
    "total_borrowed": "TotalBorrowed",
    "total_reserves": "TotalReserves",
}


def _peridot(key: bytes, look: Look) -> Iterator[Pool]:
    vault = strkey.encode_contract(key[8:40])
    token = _text(look, variant_key(vault, "UnderlyingToken"))

    def entry(name: str) -> Field:
        return Field(variant_key(vault, name), ())

    supply = Field(instance_key(vault), (vec(symbol("TotalSupply")),)), entry("TotalDeposited")
    debt = entry("TotalBorrowed"), entry("TotalBorrowPrincipal")
    cash = entry("ManagedCash"), _balance(look, token, vault)
    yield Pool(key, token, entry("LastUpdateTime"), lambda name: entry(_PERIDOT_NAMES[name]), supply, debt, cash)


_PLACES: dict[str, Callable[[bytes, Look], Iterator[Pool]]] = {
    "blend": _blend,
    "xoxno": _xoxno,
    "k2": _k2,
    "slender": _slender,
    "alula": _alula,
    "peridot": _peridot,
}
