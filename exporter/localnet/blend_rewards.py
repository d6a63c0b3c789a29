"""What Blend's made markets are paid in BLND and insured with: emissions, backstops, and the pool of Comet behind both.

Its randomness is its own: the rest of a network is the same with and without it. The formats are those of
docs/protocols/blend.md, "Rewards" and "Backstop"; amounts are base units of 7 decimals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.source import RawEntry
from exporter.localnet.blend import V1, Deployment, Market, Reserve
from exporter.localnet.chain import Change
from exporter.localnet.contracts import Entry, Token, TokenLayout, stored_entry
from exporter.localnet.made_assets import made_account

_ONE = 10**7
_DAY = 86_400
_WEEK = 7 * _DAY
_LIFE = 46 * 17_280  # ledgers
_SIDES = ("borrow", "supply")
_LEDGERS_BETWEEN_TRADES = 6
_BLND_ASSET = "localnet blnd issuer"


@dataclass(slots=True)
class Emission:
    """BLND a second, with 7 decimals in v1 and 14 in v2, until ``expiration``; ``index`` grows with operations."""

    eps: int
    expiration: int
    last_time: int
    index: int = 0
    renewed: bool = False

    def move(self, time: int, shares: int) -> None:
        """Bring the index up to ``time``, as an operation does."""
        end = min(time, self.expiration)
        if shares and end > self.last_time:
            self.index += (end - self.last_time) * self.eps * _ONE // shares
            self.last_time = end


@dataclass(slots=True)
class MadeComet:
    """The pool of Comet: 80 % BLND, 20 % USDC by value."""

    contract: str
    blnd_token: str
    usdc_token: str
    blnd: int = 20_000_000 * _ONE
    usdc: int = 400_000 * _ONE
    shares: int = 5_000_000 * _ONE

    def trade(self, random: Random) -> None:
        """Somebody sells or buys up to 0.1 % of the BLND."""
        blnd = self.blnd * random.randint(-10, 10) // 10_000
        self.usdc = self.usdc * self.blnd**4 // (self.blnd + blnd) ** 4  # balances to the power of their weights
        self.blnd += blnd

    def entries(self) -> list[Entry]:
        """``AllRecordData`` and ``TotalShares``."""
        held = ((self.usdc_token, self.usdc, 2_000_000, 1), (self.blnd_token, self.blnd, 8_000_000, 0))
        records = (
            (
                address(token),
                struct_map({"balance": i128(held), "index": u32(at), "scalar": i128(10**11), "weight": i128(weight)}),
            )
            for token, held, weight, at in held
        )
        return [
            stored_entry(
                self.contract,
                vec(symbol("AllRecordData")),
                (scval.MAP, tuple(sorted(records, key=lambda pair: encode_scval(pair[0])))),
            ),
            stored_entry(self.contract, vec(symbol("TotalShares")), i128(self.shares)),
        ]


@dataclass(slots=True)
class Insured:
    """A market's part of its backstop, what its depositors are paid, and what each side of a reserve is."""

    shares: int
    tokens: int
    queued: int
    paid: Emission | None
    sides: dict[tuple[int, str], Emission] = field(default_factory=dict)
    archived: set[tuple[int, str]] = field(default_factory=set)


class BlendRewards:
    """The made rewards and backstops of Blend's markets, moving with them."""

    def __init__(self, seed: int, markets: Sequence[Market], deployments: Mapping[str, Deployment], time: int) -> None:
        """Make them as of ``time`` (unix seconds); markets of before are as they were without them."""
        self._random = Random(f"blend rewards {seed}")
        self._deployments = deployments
        around = next(iter(deployments.values()))
        self.comet = MadeComet(around.lp_token, around.blnd, around.usdc)
        self.blnd = Token(
            around.blnd, "BLND", 7, TokenLayout.STELLAR_ASSET, made_account(_BLND_ASSET), made_account(_BLND_ASSET)
        )
        listed = [market for market in markets if market.listed]
        self._renewing = listed[:1]
        self.insured = {market.address: self._make(market, time, place == 0) for place, market in enumerate(listed)}

    def _make(self, market: Market, time: int, plain: bool) -> Insured:
        random = self._random
        kind = "whole" if plain else random.choice(("whole", "whole", "small", "none"))
        tokens = random.randint(100_000, 900_000) * _ONE if kind == "whole" else random.randint(1, 9_000) * _ONE
        shares = tokens * random.randint(800, 1_000) // 1_000
        queued = shares * (random.randint(0, 25) if plain else random.choice((0, 0, 5, 31, 62, 80))) // 100
        if kind == "none":
            return Insured(0, 0, 0, None)
        insured = Insured(shares, tokens, queued, self._emission(market, time, plain))
        for place in range(len(market.reserves)):
            for side in _SIDES:
                if plain and place < 3:
                    given = (place, side) not in ((0, "borrow"), (2, "supply"))
                else:
                    given = random.randrange(4) == 0
                if given:
                    insured.sides[place, side] = self._emission(market, time, plain and place < 2)
                    if not plain and random.randrange(12) == 0:
                        insured.archived.add((place, side))
        return insured

    def _emission(self, market: Market, time: int, running: bool) -> Emission:
        random = self._random
        ends = time + (random.randint(3_600, _WEEK) if running or random.randrange(4) else -random.randint(0, _WEEK))
        eps = random.randint(1_000, 500_000) * (1 if market.generation is V1 else _ONE)
        return Emission(eps, ends, min(time, ends) - random.randint(0, 3_600), random.randrange(10**9), running)

    def first_entries(self, markets: Sequence[Market], ledger: int) -> Iterator[tuple[bytes, RawEntry]]:
        """All entries as of the first ledger."""
        for key, data in (*self.comet.entries(), self.blnd.instance_entry()):
            yield key, RawEntry(data, max(ledger - 1_000, 1), ledger + _LIFE)
        for deployment in self._deployments.values():
            if deployment.generation is V1:
                per_share = [i128(held * _ONE // self.comet.shares) for held in (self.comet.blnd, self.comet.usdc)]
                key, data = stored_entry(deployment.backstop, symbol("LPTknVal"), vec(*per_share))
                yield key, RawEntry(data, max(ledger - 50_000, 1), ledger + _LIFE)
        for market in markets:
            for (key, data), archived in self._entries_of(market):
                yield key, RawEntry(data, max(ledger - 10_000, 1), ledger - 1 if archived else ledger + _LIFE)

    def _entries_of(self, market: Market) -> Iterator[tuple[Entry, bool]]:
        insured = self.insured.get(market.address)
        if insured is None or not insured.shares:
            return
        backstop, pool = self._deployments[market.generation.label].backstop, address(market.address)
        balance = {"q4w": i128(insured.queued), "shares": i128(insured.shares), "tokens": i128(insured.tokens)}
        yield stored_entry(backstop, vec(symbol("PoolBalance"), pool), struct_map(balance)), False
        if insured.paid is not None:
            for entry in _emission_entries(market, backstop, ("BEmisCfg", "BEmisData"), pool, insured.paid):
                yield entry, False
        if not insured.sides:
            return
        share = _ONE // len(insured.sides)
        numbers = sorted(_number(*side) for side in insured.sides)
        plan = (scval.MAP, tuple((u32(number), u64(share)) for number in numbers))
        yield stored_entry(market.address, symbol("PoolEmis"), plan), False
        for side in insured.sides:
            for entry in self._side_entries(market, side):
                yield entry, side in insured.archived

    def _side_entries(self, market: Market, side: tuple[int, str]) -> list[Entry]:
        emission, number = self.insured[market.address].sides[side], u32(_number(*side))
        return _emission_entries(market, market.address, ("EmisConfig", "EmisData"), number, emission)

    def advance(self, ledger: int, time: int, operated: Sequence[tuple[Market, Reserve]]) -> Iterator[Change]:
        """What changes with these operations, by pools that take what they are given, and by trades in Comet's pool."""
        written: dict[bytes, bytes] = {}
        for market, reserve in operated:
            insured = self.insured.get(market.address)
            for side in _SIDES if insured else ():
                place = (reserve.config.index, side)
                if insured is None or place not in insured.sides or place in insured.archived:
                    continue
                insured.sides[place].move(time, reserve.b_supply if side == "supply" else reserve.d_supply)
                written |= self._side_entries(market, place)[-1:]
        for market in self._renewing:
            insured = self.insured[market.address]
            ending = [item for item in (insured.paid, *insured.sides.values()) if item and item.renewed]
            if min(item.expiration for item in ending) < time + _DAY:
                for item in ending:
                    item.expiration = time + _WEEK
                written |= [entry for entry, archived in self._entries_of(market) if not archived]
        yield from (Change(key, data, ledger + _LIFE) for key, data in written.items())
        if ledger % _LEDGERS_BETWEEN_TRADES == 0:
            self.comet.trade(self._random)
            yield Change(*self.comet.entries()[0], ledger + _LIFE)


def _number(place: int, side: str) -> int:
    return 2 * place + _SIDES.index(side)


def _emission_entries(
    market: Market, owner: str, names: tuple[str, str], which: ScVal, emission: Emission
) -> list[Entry]:
    """One entry in v2, two in v1; the last is the one that operations change."""
    paid = {"eps": u64(emission.eps), "expiration": u64(emission.expiration)}
    state = {"index": i128(emission.index), "last_time": u64(emission.last_time)}
    config, data = (vec(symbol(name), which) for name in names)
    if market.generation is V1:
        return [stored_entry(owner, config, struct_map(paid)), stored_entry(owner, data, struct_map(state))]
    return [stored_entry(owner, data, struct_map(paid | state))]
