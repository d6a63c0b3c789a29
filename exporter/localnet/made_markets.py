"""The markets of the made network: two deployments of Blend with pools of all sizes, statuses and conditions."""

from __future__ import annotations

from random import Random

from exporter.deployments.local import made_address
from exporter.localnet.blend import SCALE_7, V1, V2, Deployment, Generation, Market, Reserve, ReserveConfig
from exporter.localnet.made_assets import Oracle, made_account
from exporter.localnet.token_contract import Token

_SIZES = (1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8, 10, 14, 20, 30)
_NAMES = (
    "Fixed", "YieldBlox", "Orbit", "Forex", "Etherfuse", "Spectra PTs", "Solv", "Treasury", "Etherfuse", "Stable",
)  # fmt: skip
_STATUSES = (1, 1, 0, 2, 3, 4, 5, 6)  # what the first markets have, so that a small network has them all
_MORE_STATUSES = (1,) * 10 + (0, 0, 2, 3, 3, 4, 5, 6)
_MAX_AMOUNT = 10**32  # far below the contract's 2^127, far above 2^63


def make_deployments() -> dict[str, Deployment]:
    """The contracts around the pools, by generation; the backstops are those that `exporter.deployments.networks`
    knows.
    """
    return {
        generation.label: Deployment(
            generation=generation,
            factory=made_address(f"localnet blend {generation.label} factory"),
            backstop=made_address(f"localnet blend {generation.label} backstop"),
            emitter=made_address("localnet blend emitter"),
            blnd=made_address("localnet blnd token"),
            usdc=made_address("localnet token 1"),
            lp_token=made_address("localnet lp token"),
            admin=made_account("localnet blend admin"),
        )
        for generation in (V1, V2)
    }


def market_sizes(random: Random, pools: int, markets: int | None = None) -> list[int]:
    """How many reserves each market has; they add up to ``pools``. With ``markets`` there are so many, all alike."""
    if markets is not None:
        return [pools // markets + (index < pools % markets) for index in range(markets)]
    sizes: list[int] = []
    while pools > 0:
        size = min(random.choice(_SIZES) if sizes else 3, pools)
        sizes.append(size)
        pools -= size
    return sizes


def make_markets(
    random: Random, sizes: list[int], tokens: list[Token], oracles: list[Oracle], start_time: int
) -> list[Market]:
    """A market for each size, the generations in turn, and a last one in Setup that has no reserve list yet."""
    markets = [make_market(random, index, size, tokens, oracles, start_time) for index, size in enumerate(sizes)]
    markets.append(_empty_market(len(sizes), oracles[0]))
    return markets


def make_market(
    random: Random, index: int, size: int, tokens: list[Token], oracles: list[Oracle], start_time: int
) -> Market:
    """The market of a number, which its address is made from; the generations take turns."""
    generation = V2 if index % 2 == 0 else V1
    market = Market(
        address=made_address(f"localnet blend {generation.label} pool {index}"),
        generation=generation,
        name=_NAMES[index % len(_NAMES)],
        status=_STATUSES[index] if index < len(_STATUSES) else random.choice(_MORE_STATUSES),
        oracle=oracles[index % len(oracles)].contract,
        take_rate=random.choice((0, 1_000_000, 2_000_000, 2_000_000, 3_333_333)),
        max_positions=random.randint(2, 12),
        min_collateral=random.choice((0, 10**7, 50 * 10**7)),
    )
    for position, token in enumerate(_tokens_of(random, tokens, size, first=index == 0)):
        market.reserves.append(_reserve(random, market, position, token, start_time, plain=index == 0))
    return market


def _tokens_of(random: Random, tokens: list[Token], size: int, first: bool) -> list[Token]:
    """Distinct tokens, the well-known ones more often; the first market has the first ones."""
    if first:
        return tokens[:size]
    known = [token for token in tokens[:8] if random.randrange(3) == 0]
    chosen = known + random.sample(tokens, size)
    return list(dict.fromkeys(chosen))[:size]


def _empty_market(index: int, oracle: Oracle) -> Market:
    return Market(
        address=made_address(f"localnet blend v2 pool {index}"),
        generation=V2,
        name="Etherfuse",
        status=6,
        oracle=oracle.contract,
        take_rate=2_000_000,
        max_positions=4,
        min_collateral=0,
        listed=False,
    )


def _reserve(random: Random, market: Market, index: int, token: Token, start_time: int, plain: bool) -> Reserve:
    generation = market.generation
    scale = generation.rate_scale
    config = _config(random, generation, index, token.decimals)
    dollars = random.randint(1, 9_999) * 10 ** random.randint(1, 4)
    whole_tokens = dollars * 10**14 // token.price
    supplied = min(whole_tokens * 10**token.decimals + random.randrange(10**token.decimals), _MAX_AMOUNT)
    utilization = random.choice((0, random.randint(1, 4_000_000), random.randint(4_000_000, 9_900_000)))
    if plain:
        utilization = random.randint(3_000_000, 8_500_000)
    d_rate = scale + random.randrange(scale // 3)
    b_rate = scale + (d_rate - scale) * random.randint(0, 80) // 100
    kind = "plain" if plain else random.choice(("plain",) * 12 + ("unused", "loss", "beyond", "idle"))
    if kind == "unused":
        supplied = 0
    elif kind == "loss" and generation is V2:  # bad debt was shared by the suppliers
        b_rate = random.randint(scale // 10, scale - 1)
    elif kind == "beyond":
        utilization = random.randint(SCALE_7 + 1, SCALE_7 * 11 // 10)
    idle_for = random.randint(30 * 86_400, 300 * 86_400) if kind == "idle" else random.randint(0, 100_000)
    return Reserve(
        generation=generation,
        token=token.contract,
        config=config,
        take_rate=market.take_rate,
        b_rate=b_rate if supplied else scale,
        d_rate=d_rate if supplied else scale,
        ir_mod=generation.modifier_scale * random.randint(100, 3_000) // 1_000,
        b_supply=supplied * scale // b_rate,
        d_supply=supplied * utilization // SCALE_7 * scale // d_rate,
        backstop_credit=supplied * random.randrange(1_000) // 10_000_000,
        last_time=start_time - idle_for,
    )


def _config(random: Random, generation: Generation, index: int, decimals: int) -> ReserveConfig:
    factor = random.choice((0, 5_000_000, 7_500_000, 9_000_000, 9_500_000))
    util = random.choice((5_000_000, 6_500_000, 7_500_000, 8_000_000, 9_000_000))
    return ReserveConfig(
        index=index,
        decimals=decimals,
        c_factor=factor,
        l_factor=random.choice((7_500_000, 9_000_000, 9_500_000)),
        util=util,
        max_util=random.choice((9_500_000, 9_800_000, SCALE_7)),
        r_base=random.choice((1_000, 30_000, 100_000, 300_000)),
        r_one=random.choice((200_000, 400_000, 500_000, 600_000)),
        r_two=random.choice((1_200_000, 2_000_000, 5_000_000)),
        r_three=random.choice((15_000_000, 50_000_000, 75_000_000)),
        reactivity=random.choice((20, 31, 100, 1_000)),
        supply_cap=random.choice((2**127 - 1, 10 ** (decimals + 11))) if generation is V2 else 2**127 - 1,
        enabled=random.randrange(20) != 0,
    )
