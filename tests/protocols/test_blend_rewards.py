"""What Blend pays in BLND and what insures its pools: vectors of the contracts' own tests, and readings of a ledger."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from exporter.deployments import Deployment
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ProtocolReading
from exporter.protocols.blend.backstop import Balance, PoolBackstop
from exporter.protocols.blend.comet import Comet
from exporter.protocols.blend.emissions import Emission
from exporter.protocols.blend.funding import ALLOTMENT, EmissionSource, Funding
from exporter.protocols.blend.reader import BlendReading
from exporter.protocols.compute import Tables
from tests.chain_simulator import Chain, ChainSource
from tests.entries import recorded
from tests.protocols.blend_chain import BlendLedger, candidate, deployment, reserve_data, reward_zone
from tests.protocols.made_ledger import (
    NOW,
    UNKNOWN_CODE,
    Written,
    balance,
    changed,
    contract,
    entry,
    instance,
    token_instance,
)

A, B = contract("A"), contract("B")
ONE = 10**7
YEAR = 31_536_000

# Comet's pool in the vectors: 5 BLND and 0.05 USDC behind a share (backstop/src/backstop/pool.rs, tests).
FIVE_BLND = Comet(blnd=5 * ONE, blnd_weight=8_000_000, usdc=ONE // 20, usdc_weight=2_000_000, shares=ONE)


def backstop(**changes: Any) -> PoolBackstop:
    """A v2 pool whose backstop has just enough, with some fields changed."""
    made = PoolBackstop(
        market=A,
        generation="v2",
        status="active",
        backstop=B,
        tokens=None,
        comet=None,
        lp_value=(10 * ONE, ONE // 4),
        balance=Balance(50_000 * ONE, 50_000 * ONE, 0),
        emission=Emission(reason="no_emissions"),
        funding=Funding(EmissionSource.EMITTER, True, None),
        in_reward_zone=None,
    )
    return replace(made, **changes)


def of_whole_units(generation: str, blnd: int, usdc: int) -> PoolBackstop:
    """A backstop with this much behind it."""
    return backstop(generation=generation, balance=Balance(ONE, ONE, 0), lp_value=(blnd * ONE, usdc * ONE))


class TestVectors:
    """Numbers of the contracts' own tests."""

    def test_pool_data(self) -> None:
        """``test_load_pool_data`` of backstop/src/backstop/pool.rs: 250 tokens, a third of 150 shares queued."""
        row = backstop(balance=Balance(150 * ONE, 250 * ONE, 50 * ONE), comet=FIVE_BLND).row(NOW)

        assert 3_333_334 == row["queued_part"]  # rounds up
        assert (1_250 * ONE, 12_5000000, 2_500_000) == (row["blnd"], row["usdc"], row["lp_price_usdc"])

    @pytest.mark.parametrize(("shares", "tokens"), [(0, 250 * ONE), (100 * ONE, 0)])
    def test_pool_data_of_nothing(self, shares: int, tokens: int) -> None:
        """Without shares nothing is queued, and without tokens there is nothing behind them."""
        row = backstop(balance=Balance(shares, tokens, 0), comet=FIVE_BLND).row(NOW)

        assert (0, tokens * 5, tokens // 20) == (row["queued_part"], row["blnd"], row["usdc"])

    @pytest.mark.parametrize(
        ("generation", "blnd", "usdc", "met"),
        [
            ("v2", 200_000, 6_249, False),
            ("v2", 5_000, 1_000, False),
            ("v2", 200_001, 6_250, True),
            ("v2", 50_000_000, 10_000_000, True),
            ("v1", 300_000, 25_000, False),
            ("v1", 5_000, 1_000, False),
            ("v1", 364_643, 18_100, True),
            ("v1", 50_000_000, 10_000_000, True),
        ],
    )
    def test_threshold(self, generation: str, blnd: int, usdc: int, met: bool) -> None:
        """``test_require_pool_above_threshold_*`` of both generations' backstops."""
        assert met == of_whole_units(generation, blnd, usdc).row(NOW)["threshold_met"]

    def test_threshold_product(self) -> None:
        """99 % of the product is said to be that, and one beyond 128 bits is what the contract takes it for."""
        assert 9_998 == of_whole_units("v2", 200_000, 6_249).row(NOW)["threshold_product_bps"]
        assert 2**127 - 1 == of_whole_units("v2", 10**9, 10**9).threshold_product

    @pytest.mark.parametrize(
        ("shares", "tokens", "queued", "earning"),
        [(80321, 103302, 40001, 51857), (0, 0, 0, 0), (8765, 0, 4321, 0), (80321, 103302, 80321, 0)],
    )
    def test_tokens_that_are_not_queued(self, shares: int, tokens: int, queued: int, earning: int) -> None:
        """``test_non_queued_tokens*`` of backstop/src/backstop/pool.rs."""
        assert earning == Balance(shares, tokens, queued).tokens_not_queued

    @pytest.mark.parametrize(
        ("status", "queued", "enough", "after"),
        [
            ("on_ice", 0, True, "active"),
            ("admin_active", 0, True, "admin_active"),
            ("active", 0, False, "on_ice"),
            ("active", 29, True, "active"),
            ("active", 30, True, "on_ice"),
            ("admin_active", 30, True, "admin_active"),
            ("admin_active", 49, True, "admin_active"),
            ("admin_active", 50, True, "on_ice"),
            ("admin_active", 0, False, "on_ice"),
            ("active", 59, True, "on_ice"),
            ("active", 60, True, "frozen"),
            ("frozen", 60, True, "frozen"),
            ("frozen", 0, True, "active"),
            ("admin_on_ice", 74, False, "admin_on_ice"),
            ("admin_on_ice", 75, True, "frozen"),
            ("admin_frozen", 90, False, None),
            ("setup", 0, True, None),
        ],
    )
    def test_status_after_update(self, status: str, queued: int, enough: bool, after: str | None) -> None:
        """``test_update_pool_status_*`` of pool/src/pool/status.rs, and the numbers next to each bound."""
        shares = (50_000 if enough else 9_000) * ONE
        pool = backstop(status=status, balance=Balance(shares, shares, shares * queued // 100))

        assert after == pool.status_after_update()

    def test_price_by_comet(self) -> None:
        """Mainnet's pool of Comet at ledger 55,261,759: each step rounds down to 7 decimals."""
        comet = Comet(216_834_281_088_055, 8_000_000, 4_416_777_655_708, 2_000_000, 49_272_834_655_960)

        assert (22_083_888_278_540 * ONE // 271_042_851_360_068, 814_774) == (comet.blnd_in_usdc, comet.blnd_in_usdc)
        assert (896_392, 4_481_960) == (comet.usdc_per_share, comet.share_in_usdc)


class TestEmission:
    """When BLND is paid."""

    @pytest.mark.parametrize(("time", "eps", "reason"), [(99, 7, "valid"), (100, 0, "expired"), (101, 0, "expired")])
    def test_end(self, time: int, eps: int, reason: str) -> None:
        """At its expiration nothing is paid any more; the end stays to be seen."""
        assert Emission(eps, 100, reason) == Emission(7, 100).at(time)

    def test_nothing(self) -> None:
        """One of nothing, and none at all, are no emissions; one that cannot be read is not known."""
        assert Emission(0, 100, "no_emissions") == Emission(0, 100).at(5)
        assert Emission(0, None, "no_emissions") == Emission(reason="no_emissions").at(5)
        assert Emission(None, None, "unread") == Emission(reason="unread").at(5)

    @pytest.mark.parametrize(("generation", "eps"), [("v1", 1_000_496), ("v2", 10_004_960_317_460)])
    def test_depositors(self, generation: str, eps: int) -> None:
        """The pace of either generation gives the same year and yield; what is queued for withdrawal earns nothing."""
        pool = backstop(
            generation=generation,
            emission=Emission(eps, NOW + 1),
            balance=Balance(200_000 * ONE, 400_000 * ONE, 100_000 * ONE),
            comet=FIVE_BLND,
        )
        row = pool.row(NOW)
        year = {"v1": 1_000_496 * YEAR, "v2": 10_004_960_317_460 * YEAR // ONE}[generation]

        assert year == row["emission_per_year"]
        # 0.04 USDC for a BLND, 0.25 for a token, of which 200,000 earn.
        assert year * 400_000 * 10_000 // (200_000 * ONE * 2_500_000) == row["emission_apr_bps"]
        assert ("valid", NOW + 1) == (row["emission_reason"], row["emission_expiration"])

    def test_nobody_and_no_price(self) -> None:
        """Without tokens that earn, or without Comet's pool, the yield is null and the pace is known."""
        paid = Emission(5, NOW + 1)
        nobody = backstop(emission=paid, balance=Balance(ONE, ONE, ONE), comet=FIVE_BLND).row(NOW)
        unpriced = backstop(emission=paid).row(NOW)

        for row, reason in ((nobody, "no_backstop"), (unpriced, "no_reward_price")):
            assert (None, reason, 5) == tuple(row[f"emission_{part}"] for part in ("apr_bps", "reason", "per_second"))


# A ledger with emissions: markets A (v1) and B (v2) of USDC and XLM, and their common backstop.


def emission(owner: str, name: str, which: ScVal, eps: int = 100_000, expiration: int = NOW + 60) -> Written:
    """An emission entry with all four fields."""
    fields = {"eps": u64(eps), "expiration": u64(expiration), "index": i128(0), "last_time": u64(NOW - 60)}
    return entry(owner, vec(symbol(name), which), struct_map(fields))


def plan(market: str) -> Written:
    """``PoolEmis`` of a pool that divides what it is given."""
    return entry(contract(market), symbol("PoolEmis"), (scval.MAP, ((u32(1), u64(ONE)),)))


def comet_entries(usdc: int = 400_000 * ONE, blnd: int = 20_000_000 * ONE) -> list[Written]:
    """The records and the shares of the pool of Comet: 0.08 USDC for a BLND."""
    held = {"USDC": (usdc, 2_000_000), "BLND": (blnd, 8_000_000)}
    (_, template), *_ = recorded("AllRecordData")[1]
    records = [
        (address(contract(label)), changed(template, {"balance": i128(balance), "weight": i128(weight)}))
        for label, (balance, weight) in held.items()
    ]
    return [
        entry(
            contract("LP"),
            vec(symbol("AllRecordData")),
            (scval.MAP, tuple(sorted(records, key=lambda pair: encode_scval(pair[0])))),
        ),
        entry(contract("LP"), vec(symbol("TotalShares")), i128(5_000_000 * ONE)),
    ]


def balance_of(market: str, shares: int, tokens: int, queued: int) -> Written:
    """``PoolBalance`` of a pool."""
    fields = {"shares": i128(shares), "tokens": i128(tokens), "q4w": i128(queued)}
    return entry(contract("backstop"), vec(symbol("PoolBalance"), address(contract(market))), struct_map(fields))


def rewarded() -> BlendLedger:
    """Both pools pay 0.01 BLND a second to the suppliers of USDC, and have a backstop of 1,000,000 tokens."""
    ledger = BlendLedger()
    ledger.add_market("A", "v1", ["USDC", "XLM"])
    ledger.add_market("B", "v2", ["USDC", "XLM"])
    names = {"BToken": "LP", "BLNDTkn": "BLND", "USDCTkn": "USDC", "PoolFact": "factory", "Emitter": "emitter"}
    storage = [(symbol(name), address(contract(label))) for name, label in sorted(names.items())]
    ledger.replace(instance(contract("backstop"), storage, UNKNOWN_CODE), token_instance("BLND", b"BLND"))
    ledger.replace(*comet_entries())
    ledger.replace(plan("A"), emission(A, "EmisConfig", u32(1)))
    ledger.replace(plan("B"), emission(B, "EmisData", u32(1), 100_000 * ONE))
    for market, name, eps in (("A", "BEmisCfg", 50_000), ("B", "BEmisData", 50_000 * ONE)):
        ledger.replace(balance_of(market, 1_000_000 * ONE, 1_000_000 * ONE, 0))
        ledger.replace(emission(contract("backstop"), name, address(contract(market)), eps))
    ledger.replace(entry(contract("backstop"), symbol("LPTknVal"), vec(i128(4 * ONE), i128(800_000))))
    ledger.replace(emitter_of("backstop"))
    return ledger


def emitter_of(backstop: str) -> Written:
    """The instance of the emitter, which names the backstop that it pays."""
    return instance(contract("emitter"), [(symbol("Backstop"), address(contract(backstop)))], UNKNOWN_CODE)


def noted(name: str, value: ScVal) -> Written:
    """An entry of the backstop: ``Backfill`` or ``BackfillEmis``."""
    return entry(contract("backstop"), symbol(name), value)


def at_emitter(name: str, value: ScVal) -> Written:
    """An entry that the emitter has of the backstop: ``LastDistro`` or ``Dropped``."""
    return entry(contract("emitter"), vec(symbol(name), address(contract("backstop"))), value)


def rewards_of(tables: Tables, market: str = A, token: str = "USDC") -> dict[str, Any]:
    """What a pool's row says of its rewards."""
    found = tables.pools.filter((pl.col("market") == market) & (pl.col("pool") == contract(token)))
    return {name: value for name, value in found.row(0, named=True).items() if "reward" in name}


def reward(row: dict[str, Any], *parts: str) -> tuple[object, ...]:
    """These parts of what suppliers are paid."""
    return tuple(row[f"supply_reward_{part}"] for part in parts)


def backstop_of(tables: Tables, market: str = A) -> dict[str, Any]:
    """The row of a market's backstop."""
    return tables.backstops.row(by_predicate=pl.col("market") == market, named=True)


def computed(ledger: BlendLedger, *deployments: Deployment) -> Tables:
    """The tables of both markets, which are read in any case."""
    tables = ledger.compute([candidate("A"), candidate("B")], deployments)
    assert 4 == tables.pools.height
    return tables


class TestReading:
    """From entries to columns."""

    def test_backstops(self) -> None:
        """Size, value by the market's oracle, threshold, yield of depositors, and the status that follows."""
        tables = computed(rewarded())

        for market, extra in ((A, 0), (B, 7)):
            assert {
                "market": market,
                "backstop": contract("backstop"),
                "lp_token": contract("LP"),
                "shares": 1_000_000 * ONE,
                "lp_tokens": 1_000_000 * ONE,
                "queued_shares": 0,
                "queued_part": 0,
                "blnd": 4_000_000 * ONE,
                "usdc": 80_000 * ONE,
                "lp_price_usdc": 4_000_000,
                "blnd_price_usdc": 800_000,
                "value_usd_cents": 80_000_000,  # 400,000 USDC at 2 dollars
                "threshold_product_bps": 4_000_000**4 * 80_000 * 10_000 // (200_000 if market == A else 100_000) ** 5,
                "threshold_met": True,
                "status_after_update": "active",
                "emission_token": contract("BLND"),
                "emission_per_second": 50_000 * 10**extra,
                "emission_decimals": extra,
                "emission_per_year": 1_576_800_000_000,
                "emission_expiration": NOW + 60,
                "emission_apr_bps": 315,  # 157,680 BLND at 0.08 over a million at 0.4
                "emission_reason": "valid",
                "emission_source": "emitter",
                "emission_funded": True,
                "backfill_remaining": None,
                "in_reward_zone": None,
            } == backstop_of(tables, market)

    def test_the_reward_zone(self) -> None:
        """A market is in the zone that its own backstop lists it in; without a zone that is known, nobody knows."""
        ledger = rewarded()
        ledger.replace(reward_zone("backstop", vec(address(A))))
        tables = computed(ledger, deployment())

        assert (True, False) == tuple(backstop_of(tables, market)["in_reward_zone"] for market in (A, B))

    @pytest.mark.parametrize(
        ("written", "source", "funded", "remaining"),
        [
            ([], "backfill", True, ALLOTMENT),
            ([noted("Backfill", (scval.BOOL, True))], "backfill", True, ALLOTMENT),
            ([noted("BackfillEmis", i128(7 * ONE))], "backfill", False, ALLOTMENT - 7 * ONE),
            (
                [noted("BackfillEmis", i128(7 * ONE)), balance("BLND", "backstop", 7 * ONE - 1)],
                "backfill",
                False,
                ALLOTMENT - 7 * ONE,
            ),
            (
                [noted("BackfillEmis", i128(7 * ONE)), balance("BLND", "backstop", 7 * ONE)],
                "backfill",
                True,
                ALLOTMENT - 7 * ONE,
            ),
            ([noted("BackfillEmis", i128(ALLOTMENT))], "backfill", False, 0),
            ([noted("BackfillEmis", i128(7 * ONE)), at_emitter("LastDistro", u64(5))], "none", False, None),
            (
                [noted("BackfillEmis", i128(7 * ONE)), at_emitter("Dropped", (scval.BOOL, True))],
                "backfill",
                True,
                ALLOTMENT - 7 * ONE,
            ),
            ([noted("BackfillEmis", i128(7 * ONE)), noted("Backfill", (scval.BOOL, False))], "none", False, None),
            ([noted("BackfillEmis", i128(7 * ONE)), emitter_of("backstop")], "emitter", False, None),
            (
                [
                    noted("BackfillEmis", i128(7 * ONE)),
                    emitter_of("backstop"),
                    at_emitter("LastDistro", u64(5)),
                    at_emitter("Dropped", (scval.BOOL, True)),
                ],
                "emitter",
                True,
                None,
            ),
            ([noted("BackfillEmis", u64(7))], "backfill", None, None),
        ],
    )
    def test_funding(self, written: list[Written], source: str, funded: bool | None, remaining: int | None) -> None:
        """What is promised of the allotment is paid when the emitter minted it, or somebody gave it; not before."""
        ledger = rewarded()
        ledger.replace(emitter_of("another"))
        ledger.replace(*written)
        tables = computed(ledger)
        row = backstop_of(tables, B)

        names = ("emission_source", "emission_funded", "backfill_remaining")
        assert (source, funded, remaining) == tuple(row[name] for name in names)
        reason = {True: "valid", False: "not_funded", None: "unread"}[funded]
        yearly = None if funded is None else 1_576_800_000_000
        assert (reason, yearly) == (row["emission_reason"], row["emission_per_year"])
        assert (row["emission_apr_bps"] is None) == (reason != "valid")
        of_pool = rewards_of(tables, B)
        assert reason == of_pool["supply_reward_reason"]
        assert (of_pool["supply_reward_apr_bps"] is None) == (reason != "valid")
        assert "valid" == rewards_of(tables, A)["supply_reward_reason"]  # v1 promises what the emitter minted

    def test_a_pool_that_never_paid(self) -> None:
        """Without a plan nothing was ever paid, whatever else is there, and nothing more is asked for."""
        ledger = rewarded()
        ledger.remove(plan("A"))
        tables = computed(ledger)

        assert (0, "no_emissions") == reward(rewards_of(tables), "apr_bps", "reason")
        assert "valid" == rewards_of(tables, B)["supply_reward_reason"]

    def test_the_end_is_the_ledgers(self) -> None:
        """An emission ends with the close time that it names, and the same reading says so at another time."""
        ledger = rewarded()
        ledger.replace(emission(A, "EmisConfig", u32(1), expiration=NOW))

        row = rewards_of(computed(ledger))
        assert (0, 0, NOW, "expired") == reward(row, "apr_bps", "per_year", "expiration", "reason")

    @pytest.mark.parametrize("kind", ["no records", "nothing in it", "no backstop", "no price", "other decimals"])
    def test_without_a_price_of_blnd(self, kind: str) -> None:
        """Without Comet's pool, or a price of USDC, the amounts stay and the yield is null with its reason."""
        ledger = rewarded()
        if kind == "no records":
            ledger.remove(comet_entries()[0])
        elif kind == "nothing in it":
            ledger.replace(*comet_entries(usdc=0))
        elif kind == "no backstop":
            ledger.remove(instance(contract("backstop"), (), UNKNOWN_CODE))
        elif kind == "no price":
            ledger.set_price("A oracle", "USDC", 0, NOW)
        else:
            ledger.replace(token_instance("BLND", b"BLND", decimals=8))
        tables = computed(ledger)
        row = rewards_of(tables)

        assert (None, 3_153_600_000_000, "no_reward_price") == reward(row, "apr_bps", "per_year", "reason")
        assert (None, None) == (row["reward_price"], row["reward_price_source"])
        assert backstop_of(tables)["value_usd_cents"] is None

    def test_without_a_price_of_the_token(self) -> None:
        """A token that the oracle does not price has a reward of a known amount and an unknown yield."""
        ledger = rewarded()
        ledger.replace(emission(A, "EmisConfig", u32(3)))
        ledger.set_price("A oracle", "XLM", 0, NOW)

        assert "no_token_price" == rewards_of(computed(ledger), A, "XLM")["supply_reward_reason"]

    @pytest.mark.parametrize(
        ("written", "unknown"),
        [
            (balance_of("A", 5, 5, 6), ("lp_tokens", "status_after_update")),
            (balance_of("A", -5, 5, 0), ("lp_tokens", "status_after_update")),
            (entry(contract("backstop"), symbol("LPTknVal"), vec(i128(1))), ("threshold_met", "status_after_update")),
            (
                entry(contract("backstop"), symbol("LPTknVal"), vec(i128(-1), i128(5))),
                ("threshold_met", "status_after_update"),
            ),
            (instance(contract("backstop"), (), UNKNOWN_CODE), ("lp_token", "blnd", "value_usd_cents")),
        ],
    )
    def test_an_unread_backstop(self, written: Written, unknown: tuple[str, ...]) -> None:
        """What of a backstop cannot be read is null, and so is what hangs on it."""
        ledger = rewarded()
        ledger.replace(written)
        row = backstop_of(computed(ledger))

        assert {None} == {row[name] for name in unknown}

    def test_numbers_beyond_128_bits(self) -> None:
        """Deposits that nobody can have give no number, and cost no pool."""
        ledger = rewarded()
        ledger.replace(balance_of("A", 2**127 - 1, 2**127 - 1, 0))

        assert (None, 2**127 - 1) == tuple(backstop_of(computed(ledger))[name] for name in ("blnd", "lp_tokens"))

    def test_one_reading_asks_for_all_of_it_with_the_reserves(self) -> None:
        """With a backstop that the lists know, rewards and backstops cost no wave of requests."""
        ledger = rewarded()
        computed(ledger, deployment())
        assert ledger.source is not None

        asked = [keys for kind, keys, _ in ledger.source.log if kind == "entries"]
        of_reserves, of_emissions, of_backstop, of_funding, tokens = 3 * 4 + 1, 2 * 4, 2 * 2 + 1 + 2, 6, 3
        assert [2 * 3 + 2, of_reserves + of_emissions + of_backstop + of_funding + tokens] == [asked[0], asked[-1]]
        assert len(asked) <= 3

    @pytest.mark.parametrize("requests_per_ledger", [1, 2, 3])
    def test_two_rounds_while_everything_moves(self, requests_per_ledger: int) -> None:
        """Comet's pool, reserves and what they are paid change at every ledger, and one closes between requests."""
        ledger = rewarded()
        for market in ("C", "D", "E", "F", "G", "H"):
            ledger.add_market(market, "v2", [f"{market}{number}" for number in range(20)])
            ledger.replace(plan(market))
        chain = ledger.chain()
        chain.functions = dict.fromkeys(("decimals", "lastprice"), lambda _: None)  # without prices

        def change(chain: Chain) -> None:
            states = [reserve_data(market, "USDC", generation) for market, generation in (("A", "v1"), ("B", "v2"))]
            paid = [emission(B, "EmisData", u32(1), chain.ledger), emission(A, "EmisConfig", u32(1), chain.ledger)]
            for key, data in (*comet_entries(blnd=chain.ledger * ONE), *states, *paid):
                chain.put(key, data)

        chain.on_close = change
        source = ChainSource(chain, requests_per_ledger=requests_per_ledger)
        candidates = [candidate(market) for market in "ABCDEFGH"]

        async def program(view: LedgerView) -> ProtocolReading:
            return await PROTOCOLS["blend"].read(view, candidates, [deployment()])

        read = asyncio.run(read_at_one_ledger(source, program))

        assert isinstance(read.result, BlendReading)
        assert read.certificate.rounds <= 2
        paces = {eps for eps in read.result.columns["supply_eps"] if eps is not None}
        assert 124 == len(read.result.columns["pool"])
        assert {read.certificate.ledger - 1} == paces
        assert {read.certificate.ledger - 1} == {item.comet.blnd // ONE for item in read.result.insured if item.comet}
