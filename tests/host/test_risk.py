"""What we say can be liquidated, on the host: the deployed code lets it be auctioned, and refuses all else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from exporter.audit.risk_tally import MarketTally, PoolFacts
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, encode_contract_data
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, vec
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.base import Market, PoolReading
from exporter.protocols.blend.layout import decode_reserve, reserve_config_key, reserve_data_key
from exporter.protocols.blend.positions import POSITION_RULES, positions_key
from exporter.protocols.positions import Position
from exporter.tree.risk_documents import FALLS_BPS
from tests.host.blend_world import LIQUIDATION, NEVER, POOL, USERS, Step, World
from tests.host.test_blend_numbers import changed

HEALTHY, TOO_LARGE, TOO_SMALL = (f"Error(Contract, #{number})" for number in (1211, 1213, 1214))
MARKETS = 200


def set_prices(world: World, prices: Sequence[int]) -> None:
    """Let the oracle say these prices."""
    outcome = world.transact(Step(0, 0, world.oracle, "set_price_stable", (vec(*map(i128, prices)),)))
    assert outcome.error is None, outcome.message


def facts(world: World, asset: str, price: int | None) -> PoolFacts:
    """A reserve of the world's time, as positions are judged by it."""
    keys = reserve_config_key(POOL, asset), reserve_data_key(POOL, asset)
    config, data = (Entry(key, entry) for key, entry in zip(keys, world.reserve(asset), strict=True))
    reserve = decode_reserve(config, data, world.config().u32("bstop_rate"))
    market = Market(POOL, "blend", "v2", "x", "active", None, "", "", (asset,))
    pool = PoolReading(market, asset, asset, reserve.config.decimals, None, reserve)
    terms = POSITION_RULES.terms(pool, world.info.close_time)
    return PoolFacts(asset, asset, "X", reserve.config.decimals, terms, price, stable=False)


def tally_of(world: World, prices: Sequence[int]) -> MarketTally:
    """The empty sums of the market by these prices; one that is not above zero is none."""
    known = [price if price > 0 else None for price in prices]
    pools = [facts(world, *item) for item in zip(world.assets, known, strict=True)]
    market = Market(POOL, "blend", "v2", "x", "active", None, "", "", tuple(world.assets))
    return MarketTally(market, pools, 7, None, POSITION_RULES)


def put_position(world: World, user: str, position: Position) -> None:
    """Give a user these shares by hand."""
    maps = {"collateral": position.collateral, "liabilities": position.debt, "supply": position.supply}
    value = struct_map(
        {
            name: (scval.MAP, tuple((u32(index), i128(count)) for index, count in sorted(shares.items())))
            for name, shares in maps.items()
        }
    )
    key = vec(symbol("Positions"), address(user))
    data = encode_contract_data(ContractData(POOL, key, 1, value))
    written = {positions_key(POOL, user): RawEntry(data, world.info.ledger, NEVER)}
    world.entries |= written
    world.machine.put(written)


def verdict(world: World, user: str, position: Position) -> str:
    """The contract's answer to an auction of everything that a user owes and pledged."""
    bid, lot = (
        vec(*(address(world.assets[index]) for index in sorted(shares)))
        for shares in (position.debt, position.collateral)
    )
    outcome = world.machine.call(
        POOL, "new_auction", u32(LIQUIDATION), address(user), bid, lot, u32(100), authorised=True
    )
    if outcome.error in (None, TOO_LARGE, TOO_SMALL):
        return "liquidatable"
    return "healthy" if outcome.error == HEALTHY else "refused"


def ours(tally: MarketTally, position: Position, prices: Sequence[int | None]) -> str:
    """Our answer to the same auction: a position that is not judged, or has no collateral, is refused."""
    health = tally.health(position, prices)
    if health is None:
        return "refused"
    if POSITION_RULES.is_liquidatable(health, "v2"):
        return "liquidatable"
    return "refused" if health.effective_debt > health.effective_collateral else "healthy"


def arrange(world: World, chance: random.Random) -> list[int]:
    """Give each reserve a state and terms, hostile ones among them, and the prices of its tokens."""
    for asset in world.assets:
        config, data = world.reserve(asset)
        supply = int(10 ** chance.uniform(0, 16))
        numbers = {"b_supply": supply, "d_supply": int(supply * chance.choice([0, 0.3, 0.9, 1]))}
        numbers |= {"b_rate": chance.choice([10**12, 475_605_876_856, 1, chance.randint(10**12, 10**13)])}
        numbers |= {"d_rate": chance.randint(10**12, 10**13)}
        terms = {"c_factor": chance.choice([0, 1, 4_500_000, 9_800_000, 10**7])}
        terms |= {"l_factor": chance.choice([10**7, 9_500_000, 5_000_000, 1])}
        terms |= {"decimals": chance.choice([7, 7, 7, 0, 6, 8, 18])}
        written = {
            reserve_config_key(POOL, asset): changed(config, terms),
            reserve_data_key(POOL, asset): changed(data, numbers),
        }
        world.entries |= written
        world.machine.put(written)
    return [chance.choice([0, 1, 10**7, int(10 ** chance.uniform(0, 12)), 10**7]) for _ in world.assets]


def positions(chance: random.Random, count: int, most: int) -> Position:
    """A position of at most this many parts: dust, large ones, and ones that owe what they pledged."""
    parts = chance.randint(1, most)
    owed = chance.sample(range(count), chance.randint(1, min(parts, count)))
    pledged = chance.sample(range(count), min(max(parts - len(owed), 0), count))

    def shares() -> int:
        return chance.choice([1, 2, int(10 ** chance.uniform(0, 16)), int(10 ** chance.uniform(5, 9))])

    return Position({index: shares() for index in owed}, {index: shares() for index in pledged}, {})


def at_the_edge(tally: MarketTally, position: Position, prices: Sequence[int | None]) -> list[Position]:
    """Positions with the most healthy debt and with one share more; none if no debt is healthy."""
    index = min(position.debt)

    def owing(shares: int) -> Position:
        return Position({**position.debt, index: shares}, position.collateral, {})

    low, high = 1, 10**30
    if ours(tally, owing(low), prices) != "healthy" or ours(tally, owing(high), prices) != "liquidatable":
        return []
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ours(tally, owing(middle), prices) == "healthy" else (low, middle)
    return [owing(low), owing(high)]


def test_the_rule_is_the_contracts(world: World) -> None:
    """The contract auctions what we say, to the last share, in 200 markets with prices of zero and dust.

    The sums are those of the positions that it auctions, by the prices as they are and after a fall.
    """
    chance, seen = random.Random(43), Counter[str]()
    world.restart()
    most = world.config().u32("max_positions")
    for _ in range(MARKETS):
        prices = arrange(world, chance)
        set_prices(world, prices)
        tally = tally_of(world, prices)
        drawn = [positions(chance, len(world.assets), most) for _ in USERS[:4]]
        edges = [edge for position in drawn for edge in at_the_edge(tally, position, tally.prices)]
        own = dict(zip(USERS, (*drawn, *edges), strict=False))
        for user, position in own.items():
            put_position(world, user, position)
            tally.add(position)
        fall = chance.choice(list(tally.fallen))
        for when, now in (("now", tally.prices), ("after a fall", tally.fallen[fall])):
            set_prices(world, [price or 0 for price in now])
            auctioned = 0
            for user, position in own.items():
                said = verdict(world, user, position)
                assert ours(tally, position, now) == said, (position, now, [pool.terms for pool in tally.pools])
                seen[f"{said} {when}"] += 1
                health = tally.health(position, now)
                auctioned += health.debt if said == "liquidatable" and health is not None else 0
            more = 0 if when == "now" else tally.more[fall].liquidatable
            assert auctioned == tally.now.liquidatable + more

    said_of = ("healthy", "liquidatable", "refused")
    assert {f"{said} {when}" for said in said_of for when in ("now", "after a fall")} == set(seen)
    assert min(seen.values()) > 50, seen


def test_the_real_positions(world: World) -> None:
    """Every position of the testnet's archive, by equal prices and after each fall of each token."""
    world.restart()
    start = b"\0\0\0\6"
    prefix = positions_key(POOL, POOL)[:-40]
    held = {key: entry for key, entry in world.entries.items() if key.startswith(prefix) and key.startswith(start)}
    users = {key: scval_address(key) for key in held}
    prices = [10**7] * len(world.assets)
    tally = tally_of(world, prices)
    own = {users[key]: POSITION_RULES.decode(entry.data) for key, entry in held.items()}
    for position in own.values():
        tally.add(position)
    seen = Counter[str]()
    for now in (tally.prices, *tally.fallen.values()):
        set_prices(world, [price or 0 for price in now])
        for user, position in own.items():
            said = verdict(world, user, position)
            assert ours(tally, position, now) == said
            seen[said] += 1

    assert 2 == len(own)
    assert len(own) * (1 + len(FALLS_BPS) * (len(world.assets) + 1)) == sum(seen.values())
    assert [(0, 0)] * len(world.assets) == [
        (pool.terms.supply_shares - sums.supply.total, pool.terms.debt_shares - sums.debt.total)
        for pool, sums in zip(tally.pools, tally.tallies, strict=True)
    ]


def scval_address(key: bytes) -> str:
    """The holder that the key of a position names."""
    _, parts = scval.decode_scval(key[40:-4])
    holder: str = parts[1][1]
    return holder
