"""Changes that move money without a number: who decides, which code runs, who gives prices, ledger after ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from exporter.deployments.networks import NETWORKS
from exporter.exact import short_decimal_text
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import (
    PERSISTENT,
    TEMPORARY,
    ContractData,
    data_key,
    decode_contract_data,
    encode_contract_data,
    instance_key,
)
from exporter.ledger.codec.fields import named
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, u64, u128, vec
from exporter.ledger.oracles import by_address
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.protocols import price_sources
from exporter.protocols.alula.layout import pool_key
from exporter.protocols.base import Pending
from exporter.protocols.blend.layout import reserve_config_key
from exporter.protocols.compute import Tables
from exporter.protocols.k2.layout import decode_reserve, reserve_key
from exporter.tree.documents import ChangeList, MarketSummary, RunChange
from exporter.tree.pools import AssetDetail
from tests.job_runs import direct, read_tables, run, settings_for
from tests.localnet.recorded import BLEND_V2, LISTED, pools_of, without_oracle
from tests.protocols.made_ledger import UNKNOWN_CODE, account, changed, contract, entry_of, instance
from tests.protocols.protocol_facts import all_facts
from tests.render.compared import Compared, compared

Written = Mapping[bytes, bytes | None]
Scenario = Callable[[RecordedNetwork], Written]
T = TypeVar("T")

SOMEBODY = account("somebody")
MARKET = dict(LISTED)
ALULA, K2, XOXNO, PERIDOT = (MARKET[protocol] for protocol in ("alula", "k2", "xoxno", "peridot"))
RECORDED = RecordedNetwork()
POOL, OTHER_POOL = (pool.token for pool in pools_of(RECORDED, BLEND_V2)[:2])
ALULA_POOL, K2_POOL = (pools_of(RECORDED, market)[0].token for market in (ALULA, K2))
VAULT = next(item.addresses("vault")[0] for item in NETWORKS[NETWORK].deployments if item.protocol == "peridot")
XOXNO_POOL = next(item.address("pool") or "" for item in NETWORKS[NETWORK].deployments if item.protocol == "xoxno")
CODE = (scval.BYTES, UNKNOWN_CODE)
NEW = contract("a new token")
UNLOCKS = 1_796_000_000  # 2026-11-30T00:53:20Z
WAITS = 86_400


def named_in(market: str, name: str) -> str:
    found: str = named(decode_contract_data(RECORDED.look(instance_key(market)) or b"").value[1].storage)[name][1]
    return found


MANAGER, K2_ORACLE = named_in(ALULA, "DeployerHost"), named_in(K2, "ORACLE")
XOXNO_AGGREGATOR = named_in(XOXNO, "PriceAggregator")
A_TOKEN = decode_reserve(
    entry_of((reserve_key(K2, K2_POOL), RECORDED.look(reserve_key(K2, K2_POOL)) or b""))
).share_tokens["supply"]
AGGREGATOR, SOURCES = contract("aggregator"), [contract("a source"), contract("another source")]


def instance_with(market: str, storage: Mapping[str, ScVal] = {}, code: bytes | None = None) -> Scenario:
    """The market's instance with these values under its own keys, or new symbols, and with other code."""

    def written(network: RecordedNetwork) -> Written:
        key = instance_key(market)
        data = decode_contract_data(network.look(key) or b"")
        held: ContractInstance = data.value[1]
        pairs = [
            (name, storage.get(next(iter(named([(name, value)])), ""), value)) for name, value in held.storage or ()
        ]
        variants = bool(held.storage) and (held.storage or ())[0][0][0] == scval.VEC
        missing = storage.keys() - named(held.storage).keys()
        pairs += [(vec(symbol(name)) if variants else symbol(name), storage[name]) for name in sorted(missing)]
        changed = ContractInstance(held.executable, code or held.wasm_hash, None, tuple(pairs))
        return {key: encode_contract_data(data._replace(value=(scval.CONTRACT_INSTANCE, changed)))}

    return written


def stored(owner: str, key: ScVal, value: ScVal | None, durability: int = PERSISTENT) -> Written:
    data = None if value is None else encode_contract_data(ContractData(owner, key, durability, value))
    return {data_key(owner, key, durability): data}


def writing(*entries: tuple[str, ScVal, ScVal | None], durability: int = PERSISTENT) -> Scenario:
    return lambda _: {key: data for entry in entries for key, data in stored(*entry, durability).items()}


def key(variant: str, *values: ScVal) -> ScVal:
    return vec(symbol(variant), *values)


def timed(owner: str, variant: str, value: ScVal, eta: str, *values: ScVal) -> Scenario:
    """A change that Peridot has queued: a value, and its time in an entry of its own."""
    return writing((owner, key(variant, *values), value), (owner, key(eta, *values), u64(UNLOCKS)))


def after(*scenarios: Scenario) -> Tables:
    """What a run reads after each of these values was written in a ledger of its own."""
    network = RecordedNetwork()
    for scenario in scenarios:
        network.close(scenario(network))
    return read_tables(direct(network))


@cache
def as_recorded() -> Compared:
    return compared(after(), None, RECORDED.passphrase)


def changes_of(*scenarios: Scenario) -> list[RunChange]:
    """The changes that a run reports after all of these values were written."""
    return compared(after(*scenarios), as_recorded(), RECORDED.passphrase).data


def test_another_admin_is_a_change() -> None:
    """Whoever decides over a market is named before and after, with the role."""
    roles = [(protocol, *role) for protocol, facts in all_facts().items() for role in facts.admins.items()]
    found = changes_of(*(instance_with(MARKET[protocol], {name: address(SOMEBODY)}) for protocol, name, _ in roles))
    admins = [change for change in found if change.kind == "admin"]

    assert {(MARKET[protocol], role) for protocol, _, role in roles} == {
        (change.market, change.title.rpartition(": the ")[2].removesuffix(" changed")) for change in admins
    }
    assert {(None, SOMEBODY)} == {(change.pool, change.after) for change in admins}
    assert not {None, SOMEBODY} & {change.before for change in admins}


def test_an_admin_of_another_form_is_not_compared() -> None:
    """A value that is not an address costs the note of it, not the market, and is not reported as a change."""
    assert [] == changes_of(instance_with(XOXNO, {"Owner": (scval.U32, 7)}))


def test_other_code_is_a_change() -> None:
    """Other code is a change in a market, in the contract of its tokens, in its oracle, and in what the oracle asks."""
    subjects = {
        (MARKET["k2"], f"aToken {A_TOKEN}"),
        (MARKET["peridot"], f"vault {VAULT}"),
        (MARKET["xoxno"], f"pool contract {XOXNO_POOL}"),
    }
    holders = (K2, A_TOKEN, VAULT, XOXNO_POOL, ORACLE)
    found = changes_of(*(instance_with(holder, code=UNKNOWN_CODE) for holder in holders))
    codes = [change for change in found if change.kind == "code"]
    titles = {(change.market, change.title.rpartition(": the code ")[2]) for change in codes}

    assert {UNKNOWN_CODE.hex()} == {change.after for change in codes}
    assert {(market, f"of the {subject} changed") for market, subject in subjects} <= titles
    assert (K2, "of the market changed") in titles
    assert {market for _, market in LISTED} == {change.market for change in codes if ORACLE in change.title}


def test_another_oracle_is_a_change() -> None:
    """The oracle that a market asks is named before and after; that its configuration changed is listed, too."""
    changes = {item.kind: item for item in changes_of(lambda network: without_oracle(network, BLEND_V2))}

    assert {"configuration", "oracle", "price", "status"} == changes.keys()  # without a price some gates close
    assert (ORACLE, strkey.encode_contract(bytes(32))) == (changes["oracle"].before, changes["oracle"].after)


def queued_reserve(
    value: ScVal | None = None, /, asset: str = POOL, unlocks: int = UNLOCKS, **changes: ScVal
) -> Scenario:
    """A reserve of Blend with other terms queued: those that it has with these changes, or any value."""

    def written(network: RecordedNetwork) -> Written:
        entry = network.look(reserve_config_key(BLEND_V2, POOL))
        config = changed(decode_contract_data(entry or b"").value, changes)
        queued = value or struct_map({"new_config": config, "unlock_time": u64(unlocks)})
        return stored(BLEND_V2, vec(symbol("ResInit"), address(asset)), queued, TEMPORARY)

    return written


def test_what_an_event_says_is_queued(tmp_path: Path) -> None:
    """All that is queued, also what only an event says, is in documents, pages and changes, with its time."""
    network = RecordedNetwork()
    event = BLEND_V2, (symbol("queue_set_reserve"), address(SOMEBODY)), vec(address(NEW), u32(7))
    queued = queued_reserve(c_factor=u32(1_234_567), supply_cap=i128(10**7 * 5 // 2))
    with running(create_app(network)) as url:
        settings = settings_for(tmp_path, url)
        run(settings)
        network.close({**queued(network), **queued_reserve(asset=NEW)(network)}, [event])
        run(settings)

    def read(name: str, model: type[T]) -> T:
        return msgspec.json.decode((tmp_path / name).read_bytes(), type=model)

    new, pending = read(f"v1/markets/{BLEND_V2}.json", MarketSummary).pending
    detail, other = (read(f"v1/assets/{BLEND_V2}/{token}.json", AssetDetail) for token in (POOL, OTHER_POOL))
    changes = [item for item in read("v1/changes.json", ChangeList).data if item.market == BLEND_V2]

    page = (tmp_path / f"pools/{BLEND_V2}/{POOL}.html").read_text()
    assert "possible from 30 Nov 2026, 00:53 UTC" in page
    assert "supply_cap no limit -&gt; 2.5" in page
    assert "It can take effect from 2026-11-30T00:53:20Z." in (tmp_path / "feed.atom").read_text()
    assert (POOL, "terms", "2026-11-30T00:53:20Z") == (pending.pool, pending.kind, pending.takes_effect)
    assert ([new, pending], [new]) == (detail.pending, other.pending)
    assert (None, "terms", "2026-11-30T00:53:20Z") == (new.pool, new.kind, new.takes_effect)
    assert new.value.startswith(f"new reserve {NEW}: util 0.")
    before = {item.name: item for item in detail.rate_model}["c_factor"].value
    assert f"c_factor {short_decimal_text(int(before), 7)} -> 0.1234567, supply_cap no limit -> 2.5" == pending.value
    assert [("pending", item.pool, None, item.value, item.takes_effect) for item in (new, pending)] == [
        (change.kind, change.pool, change.before, change.after, change.takes_effect) for change in changes
    ]


def queued_pool(network: RecordedNetwork) -> Written:
    """A pool of Alula with another ratio to open positions at, queued a day before `UNLOCKS`."""
    pool = dict(decode_contract_data(network.look(pool_key(ALULA, ALULA_POOL)) or b"").value[1])
    config = pool[symbol("config")]
    health = changed(dict(config[1])[symbol("health_config")], {"open_ltv_bps": i128(1_234)})
    values = {"new_config": changed(config, {"health_config": health}), "queued_in_timestamp": u64(UNLOCKS - WAITS)}
    return stored(ALULA, key("QueuedPoolSet", address(ALULA_POOL)), struct_map(values))


QUEUED_LIMITS = struct_map(
    {
        "new_bad_debt_lock_d": u64(7),
        "new_max_positions": u32(3),
        "new_min_collateral_value_cents": i128(1_250),
        "queued_in_timestamp": u64(UNLOCKS - WAITS),
    }
)
QUEUED_CODE = struct_map({"queued_in_timestamp": u64(UNLOCKS - WAITS), "wasm_hash": CODE})
OWNER_UNTIL = struct_map({"address": address(SOMEBODY), "live_until_ledger": u32(1)})


def new_admins(owner: ScVal) -> list[tuple[Scenario, str, str]]:
    """Admins who only have to accept, with their markets and roles; XOXNO's owner in one of two forms."""
    somebody = address(SOMEBODY)
    return [
        (writing((BLEND_V2, symbol("PropAdmin"), somebody), durability=TEMPORARY), BLEND_V2, "admin"),
        (instance_with(K2, {"PPADMIN": somebody}), K2, "pool admin"),
        (instance_with(K2, {"PEADMIN": somebody}), K2, "emergency admin"),
        (instance_with(K2, {"PUPGADM": somebody}), K2, "admin of upgrades"),
        (writing((XOXNO, key("PendingOwner"), owner), durability=TEMPORARY), XOXNO, "owner"),
        (instance_with(ALULA, {"ProposedAdmin": somebody}), ALULA, "admin"),
        (writing((PERIDOT, key("PendingAdmin"), somebody)), PERIDOT, "admin"),
        (writing((VAULT, key("PendingAdmin"), somebody)), PERIDOT, "admin"),
    ]


DEPLOYED, UPGRADE = (key(name, address(ALULA)) for name in ("DeployedMarket", "QueuedInMarketUpgrade"))
ALULA_LIMITS = {"MarketConfigUpdate": QUEUED_LIMITS, "UpdateInQueuePeriod": u64(WAITS)}
WITH_A_TIME: list[tuple[Scenario, str, str | None, str, str]] = [
    (instance_with(ALULA, ALULA_LIMITS), ALULA, None, "terms", "-> 7, max_positions"),
    (queued_pool, ALULA, ALULA_POOL, "terms", "-> 0.1234"),
    (
        writing((MANAGER, DEPLOYED, u64(WAITS)), (MANAGER, UPGRADE, QUEUED_CODE)),
        *(ALULA, None, "code", UNKNOWN_CODE.hex()),
    ),
    (timed(PERIDOT, "PendingUpgradeHash", CODE, "PendingUpgradeEta"), PERIDOT, None, "code", UNKNOWN_CODE.hex()),
    (timed(PERIDOT, "PendingOracle", address(MANAGER), "PendingOracleEta"), PERIDOT, None, "oracle", MANAGER),
    (
        timed(PERIDOT, "PendingCloseFactorScaled", u128(600_000), "PendingCloseFactorEta"),
        *(PERIDOT, None, "terms", "close factor: 0.6"),
    ),
    (
        timed(PERIDOT, "PendingLiqIncentiveScaled", u128(1_100_000), "PendingLiqIncentiveEta"),
        *(PERIDOT, None, "terms", "liquidation incentive: 1.1"),
    ),
    (
        timed(PERIDOT, "PendingMarketCF", u128(500_000), "PendingMarketCFEta", address(VAULT)),
        *(PERIDOT, VAULT, "terms", "collateral factor: 0.5"),
    ),
    (timed(VAULT, "PendingUpgradeHash", CODE, "PendingUpgradeEta"), PERIDOT, VAULT, "code", UNKNOWN_CODE.hex()),
]


@pytest.mark.parametrize("owner", [address(SOMEBODY), OWNER_UNTIL], ids=["address", "struct"])
def test_each_kind_of_what_is_queued(owner: ScVal) -> None:
    """Each is noted with what will be and from when, is a change, and changes nothing yet."""
    admins = new_admins(owner)
    tables = after(*(item[0] for item in admins), *(item[0] for item in WITH_A_TIME))
    changes = compared(tables, as_recorded(), RECORDED.passphrase).data
    vaults = [item for item in tables.pending if item.kind == "admin" and item.pool is not None]

    assert sorted((market, f"{role}: {SOMEBODY}", None) for _, market, role in admins) == [
        (item.market, item.value, item.takes_effect) for item in tables.pending if item.kind == "admin"
    ]
    assert [VAULT] == [item.pool for item in vaults]
    found = [item for item in tables.pending if item.kind != "admin"]
    for _, market, pool, kind, value in WITH_A_TIME:
        [item] = [
            item
            for item in found
            if (item.market, item.pool, item.kind) == (market, pool, kind) and value in item.value
        ]
        assert UNLOCKS == item.takes_effect
    assert len(WITH_A_TIME) == len(found)
    assert not any("cannot be read" in item.value for item in tables.pending)
    assert sorted((item.market, item.pool or "", item.value) for item in tables.pending) == sorted(
        (change.market, change.pool or "", change.after or "") for change in changes if change.kind == "pending"
    )
    assert not {"admin", "code"} & {change.kind for change in changes}


NOT_READ = "its entry cannot be read: "
QUEUED_CF = timed(PERIDOT, "PendingMarketCF", symbol("half"), "PendingMarketCFEta", address(VAULT))


@pytest.mark.parametrize(
    ("scenario", "value"),
    [
        (queued_reserve((scval.U32, 7)), f"{NOT_READ}ResInit: expected map, found u32"),
        (queued_reserve(struct_map({"unlock_time": u64(1)})), f"{NOT_READ}ResInit: field new_config"),
        (queued_reserve(struct_map({"new_config": u32(1), "unlock_time": u64(1)})), NOT_READ),
        (queued_reserve(decimals=u32(2**32 - 1)), f"{NOT_READ}ResInit.new_config: field decimals is"),
        (queued_reserve(unlocks=2**64 - 1), "the same as now; its time is after the year 9999"),
        (queued_reserve(c_factor=(scval.SYMBOL, "much")), f"{NOT_READ}ResInit.new_config: field c_factor"),
        (instance_with(K2, {"PPADMIN": u32(7)}), f"{NOT_READ}pool admin: expected address"),
        (writing((XOXNO, key("PendingOwner"), u32(7)), durability=TEMPORARY), f"{NOT_READ}owner: expected "),
        (instance_with(ALULA, {"MarketConfigUpdate": u32(7)}), NOT_READ),
        (writing((ALULA, key("QueuedPoolSet", address(ALULA_POOL)), u32(7))), NOT_READ),
        (
            writing((MANAGER, UPGRADE, struct_map({"code": symbol("new")}))),
            f"{NOT_READ}QueuedInMarketUpgrade: it has 0 hashes of code",
        ),
        (
            writing((PERIDOT, key("PendingUpgradeHash"), (scval.BYTES, b"short"))),
            f"{NOT_READ}PendingUpgradeHash: a hash has 32 bytes, not 5",
        ),
        (writing((PERIDOT, key("PendingUpgradeHash"), CODE)), f"{UNKNOWN_CODE.hex()}; its time is missing"),
        (QUEUED_CF, f"{NOT_READ}PendingMarketCF: expected u128"),
    ],
)
def test_what_is_queued_in_another_form_costs_its_text_alone(scenario: Scenario, value: str) -> None:
    """An entry that nobody understands is named as queued, without a time, and everything is still read."""
    tables = after(scenario)
    pending: Pending
    [pending] = tables.pending

    assert pending.value.startswith(value)
    assert pending.takes_effect is None
    assert [] == tables.unread


def behind_an_aggregator(*sources: str, code: bytes = UNKNOWN_CODE) -> Scenario:
    """Blend's market asks an aggregator, which asks sources; the first of them runs some code."""

    def written(network: RecordedNetwork) -> Written:
        key = instance_key(BLEND_V2)
        known, ours = (strkey.decode(each)[1] for each in (ORACLE, AGGREGATOR))
        oracles = [
            struct_map({"address": address(each), "decimals": u32(14), "resolution": u32(300)}) for each in sources
        ]
        values = {"Base": u32(0), "Decimals": u32(7), "MaxAge": u64(9), "Oracles": vec(*oracles)}
        return {
            key: (network.look(key) or b"").replace(known, ours),
            **dict([instance(AGGREGATOR, [(symbol(name), value) for name, value in values.items()], bytes(32))]),
            **dict([instance(sources[0], None, code)]),
        }

    return written


def test_each_hop_behind_an_oracle() -> None:
    """Another source of an aggregator, and other code of a source, are changes of every market that asks it."""
    one, other = behind_an_aggregator(SOURCES[0]), behind_an_aggregator(SOURCES[1])
    lists = [as_recorded()]
    for scenarios in ((one,), (one, other), (one, other, behind_an_aggregator(SOURCES[1], code=bytes(32)))):
        lists.append(compared(after(*scenarios), lists[-1], RECORDED.passphrase))
    code, sources, *_ = [item for item in lists[-1].data if item.kind in ("code", "oracle")]

    assert ("code", UNKNOWN_CODE.hex(), bytes(32).hex()) == (code.kind, code.before, code.after)
    assert code.title.endswith(f": the code of the price source {SOURCES[1]} changed")
    assert ("oracle", *SOURCES) == (sources.kind, sources.before, sources.after)
    assert sources.title.endswith(": the price sources changed")


def other_adapter(_network: RecordedNetwork) -> Written:
    """K2's oracle has a token's price from an adapter."""
    config = {"asset": by_address(K2_POOL), "batch_adapter": address(SOURCES[0]), "enabled": (scval.BOOL, True)}
    return stored(K2_ORACLE, key("AssetConfig", by_address(K2_POOL)), struct_map(config))


def other_provider(network: RecordedNetwork) -> Written:
    """XOXNO's aggregator has a token's price from another contract."""
    own, known, other = (strkey.decode(each)[1] for each in (XOXNO_AGGREGATOR, ORACLE, SOURCES[0]))
    entry = next(key for key in network.chain.known_keys() if own in key and b"Oracle" in key and b"Token" in key)
    data = network.look(entry) or b""
    assert known in data
    return {entry: data.replace(known, other)}


@pytest.mark.parametrize(
    ("market", "scenario"),
    [
        (K2, instance_with(K2_ORACLE, {"ReflectorContract": address(SOURCES[0])})),
        (K2, other_adapter),
        (XOXNO, other_provider),
    ],
)
def test_other_contracts_that_oracles_ask(market: str, scenario: Scenario) -> None:
    """Whom an oracle asks for all tokens, or for one, is in its own entries."""
    [change] = [item for item in changes_of(scenario) if item.kind == "oracle"]

    assert market == change.market
    assert change.title.endswith(": the price sources changed")
    assert SOURCES[0] in (change.after or "").split(", ")
    assert SOURCES[0] not in (change.before or "")


def test_an_oracle_that_nobody_foresaw_costs_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the form of an oracle breaks the look behind prices, the reading goes on, with a notice."""

    def broken(*_: object) -> list[str]:
        raise ValueError("a form that nobody foresaw")

    monkeypatch.setattr(price_sources, "_storage", broken)
    tables = after()

    assert [] == tables.unread
    assert any("a form that nobody foresaw" in notice for notice in tables.notices)


def test_an_oracle_that_names_very_many() -> None:
    """If an oracle names more contracts than any real one, a run asks only for the first ones."""
    many = [contract(f"source {number}") for number in range(1_000)]
    found = compared(after(behind_an_aggregator(*many)), None, RECORDED.passphrase)
    [own] = [item for item in found.watched.markets if item.market == BLEND_V2]

    assert sorted(many)[: price_sources.MAX_SOURCES] == next(
        item.value for item in own.values if item.subject == "price sources"
    ).split(", ")
