"""What moves money without moving a number: who decides, which code runs, who gives the prices, run after run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

import exporter
from exporter.config import Settings
from exporter.deployments.networks import NETWORKS
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
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.protocols import price_sources
from exporter.protocols.alula.layout import pool_key
from exporter.protocols.blend.layout import reserve_config_key
from exporter.protocols.collector import in_words
from exporter.protocols.k2.layout import decode_reserve, reserve_key
from exporter.stores.memory import MemoryStore
from exporter.tree.documents import ChangeList, MarketSummary, RunChange, SystemStatus
from exporter.tree.pools import AssetDetail
from tests.jobs import run, settings_for
from tests.localnet.recorded import BLEND_V2, LISTED, only, pools_of, without_oracle
from tests.protocols.made_ledger import UNKNOWN_CODE, account, changed, contract, entry_of, instance

Document = TypeVar("Document")

Written = Mapping[bytes, bytes | None]
Scenario = Callable[[RecordedNetwork], Written]

SOMEBODY = account("somebody")
MARKET = dict(LISTED)


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


@cache
def first_run(protocol: str) -> MemoryStore:
    """The tree after a run over the markets of a protocol; what XOXNO has is known from the lists alone."""
    store = MemoryStore()
    with running(create_app(RecordedNetwork())) as url:
        run(settings_of(protocol, url), store)
    return store


def settings_of(protocol: str, url: str) -> Settings:
    return settings_for(None, url, **({} if protocol == "xoxno" else only(protocol)))


def runs_of(protocol: str, *scenarios: Scenario) -> MemoryStore:
    """The tree after a run, and one more after each of these was written in a ledger of its own."""
    network, store = RecordedNetwork(), MemoryStore(first_run(protocol))
    with running(create_app(network)) as url:
        for scenario in scenarios:
            network.close(scenario(network))
            run(settings_of(protocol, url), store)
    return store


def document(store: MemoryStore, key: str, model: type[Document]) -> Document:
    stored = store.get(key)
    assert stored is not None
    return msgspec.json.decode(stored.data, type=model)


def changes_of(protocol: str, *scenarios: Scenario) -> list[RunChange]:
    """What the runs after the first say that changed, the newest first."""
    return document(runs_of(protocol, *scenarios), "v1/changes.json", ChangeList).data


def stored(owner: str, key: ScVal, value: ScVal | None, durability: int = PERSISTENT) -> Written:
    """An entry as it is written, or removed."""
    data = None if value is None else encode_contract_data(ContractData(owner, key, durability, value))
    return {data_key(owner, key, durability): data}


def writing(*entries: tuple[str, ScVal, ScVal], durability: int = PERSISTENT) -> Scenario:
    """Entries of contracts, whatever there is."""
    return lambda _: {key: data for entry in entries for key, data in stored(*entry, durability).items()}


@pytest.mark.parametrize(
    ("protocol", "name", "role"),
    [
        ("blend", "Admin", "admin"),
        ("alula", "Admin", "admin"),
        ("k2", "PADMIN", "pool admin"),
        ("k2", "EADMIN", "emergency admin"),
        ("k2", "ADMIN", "admin of upgrades"),
        ("xoxno", "Owner", "owner"),
        ("slender", "Admin", "admin"),
    ],
)
def test_another_admin_is_a_change(protocol: str, name: str, role: str) -> None:
    """Whoever decides over a market is named before and after, with the role."""
    found = changes_of(protocol, instance_with(MARKET[protocol], {name: address(SOMEBODY)}))
    [change] = [item for item in found if item.kind == "admin"]

    assert (MARKET[protocol], None, SOMEBODY) == (change.market, change.pool, change.after)
    assert change.title.endswith(f": the {role} changed")
    assert change.before not in (None, SOMEBODY)


def test_an_admin_of_another_form_is_not_compared() -> None:
    """A value that is not an address costs the note of it, not the market, and is not reported as a change."""
    found = changes_of("xoxno", instance_with(MARKET["xoxno"], {"Owner": (scval.U32, 7)}))

    assert [] == found


def test_other_code_is_a_change() -> None:
    """The hash of the code that a market runs is named before and after."""
    found = changes_of("k2", instance_with(MARKET["k2"], code=UNKNOWN_CODE))

    assert [("code", UNKNOWN_CODE.hex())] == [(item.kind, item.after) for item in found]


def test_another_oracle_is_a_change() -> None:
    """The oracle that a market asks is named before and after; that its configuration changed is listed, too."""
    found = changes_of("blend", lambda network: without_oracle(network, BLEND_V2))
    changes = {item.kind: item for item in found}

    assert {"configuration", "oracle", "price", "status"} == changes.keys()  # without a price some gates close
    assert (ORACLE, strkey.encode_contract(bytes(32))) == (changes["oracle"].before, changes["oracle"].after)


POOL = pools_of(RecordedNetwork(), BLEND_V2)[0].token
UNLOCKS = 1_796_000_000  # 2026-11-30T00:53:20Z


def queued_reserve(
    value: ScVal | None = None, /, asset: str = POOL, unlocks: int = UNLOCKS, **changes: ScVal
) -> Scenario:
    """A reserve of Blend with other terms queued: those that it has with these changes, or any value."""

    def written(network: RecordedNetwork) -> Written:
        entry = network.look(reserve_config_key(BLEND_V2, POOL))
        config = changed(decode_contract_data(entry or b"").value, changes)
        queued = value or struct_map({"new_config": config, "unlock_time": u64(unlocks)})
        return stored(BLEND_V2, vec(symbol("ResInit"), address(POOL)), queued, TEMPORARY)

    return written


def no_queued_reserve(_network: RecordedNetwork) -> Written:
    return stored(BLEND_V2, vec(symbol("ResInit"), address(POOL)), None, TEMPORARY)


def test_a_queued_reserve_is_everywhere_until_it_is_gone() -> None:
    """The terms that are to come, and from when, are in the pool's and the market's document, on both pages, in the
    changes and the feed; a run after they were dropped says so.
    """
    queued = queued_reserve(c_factor=u32(1_234_567), supply_cap=i128(10**7 * 5 // 2))
    store = runs_of("blend", queued)
    detail = document(store, f"v1/assets/{BLEND_V2}/{POOL}.json", AssetDetail)
    summary = document(store, f"v1/markets/{BLEND_V2}.json", MarketSummary)
    [change] = document(store, "v1/changes.json", ChangeList).data
    [pending] = detail.pending

    assert (POOL, "terms", "2026-11-30T00:53:20Z") == (pending.pool, pending.kind, pending.takes_effect)
    assert [pending] == summary.pending
    before = {item.name: item for item in detail.rate_model}["c_factor"].value
    assert f"c_factor {in_words(int(before), 7)} -> 0.1234567, supply_cap no limit -> 2.5" == pending.value
    assert ("pending", POOL, None, pending.value) == (change.kind, change.pool, change.before, change.after)
    assert pending.takes_effect == change.takes_effect
    for page in (f"pools/{BLEND_V2}/{POOL}.html", f"markets/{BLEND_V2}.html"):
        shown = store.get(page)
        assert shown is not None
        assert "supply_cap no limit -&gt; 2.5" in shown.data.decode()
        assert "possible from 30 Nov 2026, 00:53 UTC" in shown.data.decode()
    feed = store.get("feed.atom")
    assert feed is not None
    assert "It can take effect from 2026-11-30T00:53:20Z." in feed.data.decode()
    other = document(store, f"v1/assets/{BLEND_V2}/{pools_of(RecordedNetwork(), BLEND_V2)[1].token}.json", AssetDetail)
    assert [] == other.pending

    gone, *_ = changes_of("blend", queued, no_queued_reserve)
    assert ("pending", POOL, pending.value, None, None) == (
        gone.kind,
        gone.pool,
        gone.before,
        gone.after,
        gone.takes_effect,
    )
    assert gone.title.endswith(": other terms not queued any more")


def key(variant: str, *values: ScVal) -> ScVal:
    return vec(symbol(variant), *values)


def timed(owner: str, variant: str, value: ScVal, eta: str, *values: ScVal) -> Scenario:
    """What Peridot has queued: a value, and its time in an entry of its own."""
    return writing((owner, key(variant, *values), value), (owner, key(eta, *values), u64(UNLOCKS)))


ALULA, K2, XOXNO, PERIDOT = (MARKET[protocol] for protocol in ("alula", "k2", "xoxno", "peridot"))
ALULA_POOL = pools_of(RecordedNetwork(), ALULA)[0].token
VAULT = next(item.addresses("vault")[0] for item in NETWORKS[NETWORK].deployments if item.protocol == "peridot")
XOXNO_POOL = next(item.address("pool") or "" for item in NETWORKS[NETWORK].deployments if item.protocol == "xoxno")
CODE = (scval.BYTES, UNKNOWN_CODE)
LATER = "2026-11-30T00:53:20Z"
WAITS = 86_400


def recorded_manager() -> str:
    """The manager that Alula's market names."""
    data = decode_contract_data(RecordedNetwork().look(instance_key(ALULA)) or b"")
    manager: str = named(data.value[1].storage)["DeployerHost"][1]
    return manager


def queued_pool(network: RecordedNetwork) -> Written:
    """A pool of Alula with another ratio to open positions at, queued a day before `UNLOCKS`."""
    pool = dict(decode_contract_data(network.look(pool_key(ALULA, ALULA_POOL)) or b"").value[1])
    config = pool[symbol("config")]
    health = changed(dict(config[1])[symbol("health_config")], {"open_ltv_bps": i128(1_234)})
    values = {"new_config": changed(config, {"health_config": health}), "queued_in_timestamp": u64(UNLOCKS - WAITS)}
    return {
        **instance_with(ALULA, {"UpdateInQueuePeriod": u64(WAITS)})(network),
        **stored(ALULA, key("QueuedPoolSet", address(ALULA_POOL)), struct_map(values)),
    }


QUEUED_LIMITS = struct_map(
    {
        "new_bad_debt_lock_d": u64(7),
        "new_max_positions": u32(3),
        "new_min_collateral_value_cents": i128(1_250),
        "queued_in_timestamp": u64(UNLOCKS - WAITS),
    }
)
QUEUED_CODE = struct_map({"queued_in_timestamp": u64(UNLOCKS - WAITS), "wasm_hash": CODE})
MANAGER = recorded_manager()


def recorded_a_token() -> str:
    """The aToken of a reserve of K2."""
    key = reserve_key(K2, pools_of(RecordedNetwork(), K2)[0].token)
    return decode_reserve(entry_of((key, RecordedNetwork().look(key) or b""))).a_token


A_TOKEN = recorded_a_token()


def test_what_is_queued_and_watched_is_rendered_again(tmp_path: Path) -> None:
    """The check of a published tree makes every file of it again from the run's evidence, byte for byte."""
    network, out = RecordedNetwork(), tmp_path / "out"
    with running(create_app(network)) as url:
        settings = settings_for(out, url)
        run(settings)
        network.close(
            {**queued_reserve(c_factor=u32(1))(network), **instance_with(K2, {"PADMIN": address(SOMEBODY)})(network)}
        )
        run(settings)
    changes = msgspec.json.decode((out / "v1/changes.json").read_bytes(), type=ChangeList)
    checked = exporter.check_tree(str(out))

    assert {"pending", "admin"} <= {item.kind for item in changes.data}
    assert checked.rerendered
    assert checked.not_rerendered is None


@pytest.mark.parametrize(
    ("protocol", "pool", "scenario", "kind", "value", "from_when"),
    [
        (
            "blend",
            None,
            writing((BLEND_V2, symbol("PropAdmin"), address(SOMEBODY)), durability=TEMPORARY),
            "admin",
            f"admin: {SOMEBODY}",
            None,
        ),
        ("k2", None, instance_with(K2, {"PPADMIN": address(SOMEBODY)}), "admin", f"pool admin: {SOMEBODY}", None),
        ("k2", None, instance_with(K2, {"PEADMIN": address(SOMEBODY)}), "admin", f"emergency admin: {SOMEBODY}", None),
        (
            "k2",
            None,
            instance_with(K2, {"PUPGADM": address(SOMEBODY)}),
            "admin",
            f"admin of upgrades: {SOMEBODY}",
            None,
        ),
        (
            "xoxno",
            None,
            writing((XOXNO, key("PendingOwner"), address(SOMEBODY)), durability=TEMPORARY),
            "admin",
            f"owner: {SOMEBODY}",
            None,
        ),
        (
            "xoxno",
            None,
            writing(
                (XOXNO, key("PendingOwner"), struct_map({"address": address(SOMEBODY), "live_until_ledger": u32(1)})),
                durability=TEMPORARY,
            ),
            "admin",
            f"owner: {SOMEBODY}",
            None,
        ),
        (
            "alula",
            None,
            instance_with(ALULA, {"ProposedAdmin": address(SOMEBODY)}),
            "admin",
            f"admin: {SOMEBODY}",
            None,
        ),
        (
            "alula",
            None,
            instance_with(ALULA, {"MarketConfigUpdate": QUEUED_LIMITS, "UpdateInQueuePeriod": u64(WAITS)}),
            "terms",
            "-> 7, max_positions",
            LATER,
        ),
        ("alula", ALULA_POOL, queued_pool, "terms", "-> 0.1234", LATER),
        (
            "alula",
            None,
            writing(
                (MANAGER, key("DeployedMarket", address(ALULA)), u64(WAITS)),
                (MANAGER, key("QueuedInMarketUpgrade", address(ALULA)), QUEUED_CODE),
            ),
            "code",
            UNKNOWN_CODE.hex(),
            LATER,
        ),
        (
            "peridot",
            None,
            writing((PERIDOT, key("PendingAdmin"), address(SOMEBODY))),
            "admin",
            f"admin: {SOMEBODY}",
            None,
        ),
        (
            "peridot",
            None,
            timed(PERIDOT, "PendingUpgradeHash", CODE, "PendingUpgradeEta"),
            "code",
            UNKNOWN_CODE.hex(),
            LATER,
        ),
        (
            "peridot",
            None,
            timed(PERIDOT, "PendingOracle", address(MANAGER), "PendingOracleEta"),
            "oracle",
            MANAGER,
            LATER,
        ),
        (
            "peridot",
            None,
            timed(PERIDOT, "PendingCloseFactorScaled", u128(600_000), "PendingCloseFactorEta"),
            "terms",
            "close factor: 0.6",
            LATER,
        ),
        (
            "peridot",
            None,
            timed(PERIDOT, "PendingLiqIncentiveScaled", u128(1_100_000), "PendingLiqIncentiveEta"),
            "terms",
            "liquidation incentive: 1.1",
            LATER,
        ),
        (
            "peridot",
            VAULT,
            timed(PERIDOT, "PendingMarketCF", u128(500_000), "PendingMarketCFEta", address(VAULT)),
            "terms",
            "collateral factor: 0.5",
            LATER,
        ),
        (
            "peridot",
            VAULT,
            timed(VAULT, "PendingUpgradeHash", CODE, "PendingUpgradeEta"),
            "code",
            UNKNOWN_CODE.hex(),
            LATER,
        ),
        (
            "peridot",
            VAULT,
            writing((VAULT, key("PendingAdmin"), address(SOMEBODY))),
            "admin",
            f"admin: {SOMEBODY}",
            None,
        ),
    ],
)
def test_each_kind_of_what_is_queued(
    protocol: str, pool: str | None, scenario: Scenario, kind: str, value: str, from_when: str | None
) -> None:
    """Each is in the document of its market with what will be and from when, is a change, and changes nothing yet."""
    store = runs_of(protocol, scenario)
    market = MARKET[protocol]
    [pending] = document(store, f"v1/markets/{market}.json", MarketSummary).pending
    changes = document(store, "v1/changes.json", ChangeList).data
    [change] = [item for item in changes if item.kind == "pending"]

    assert (pool, kind, from_when) == (pending.pool, pending.kind, pending.takes_effect)
    assert value in pending.value
    assert "cannot be read" not in pending.value
    assert (market, pool, pending.value, from_when) == (change.market, change.pool, change.after, change.takes_effect)
    assert [] == [
        item for item in document(store, "v1/changes.json", ChangeList).data if item.kind in ("admin", "code")
    ]


def test_a_market_s_own_queue_is_on_the_pages_of_its_pools() -> None:
    """Whoever has a position in a pool sees what is queued for all of the market."""
    store = runs_of("k2", instance_with(K2, {"PPADMIN": address(SOMEBODY)}))
    pool = pools_of(RecordedNetwork(), K2)[0].token
    page = store.get(f"pools/{K2}/{pool}.html")

    assert page is not None
    assert f"Another admin, no time is set</b>: pool admin: {SOMEBODY}" in page.data.decode()


NOT_READ = "its entry cannot be read: "


@pytest.mark.parametrize(
    ("protocol", "scenario", "value"),
    [
        ("blend", queued_reserve((scval.U32, 7)), f"{NOT_READ}ResInit: expected map, found u32"),
        ("blend", queued_reserve(struct_map({"unlock_time": u64(1)})), f"{NOT_READ}ResInit: field new_config"),
        ("blend", queued_reserve(struct_map({"new_config": u32(1), "unlock_time": u64(1)})), NOT_READ),
        ("blend", queued_reserve(decimals=u32(2**32 - 1)), f"{NOT_READ}ResInit.new_config: field decimals is"),
        ("blend", queued_reserve(unlocks=2**64 - 1), "the same as now; its time is after the year 9999"),
        ("blend", queued_reserve(c_factor=(scval.SYMBOL, "much")), f"{NOT_READ}ResInit.new_config: field c_factor"),
        ("k2", instance_with(K2, {"PPADMIN": u32(7)}), f"{NOT_READ}pool admin: expected address"),
        (
            "xoxno",
            writing((XOXNO, key("PendingOwner"), u32(7)), durability=TEMPORARY),
            f"{NOT_READ}owner: expected ",
        ),
        ("alula", instance_with(ALULA, {"MarketConfigUpdate": u32(7)}), NOT_READ),
        ("alula", writing((ALULA, key("QueuedPoolSet", address(ALULA_POOL)), u32(7))), NOT_READ),
        (
            "alula",
            writing((MANAGER, key("QueuedInMarketUpgrade", address(ALULA)), struct_map({"code": symbol("new")}))),
            f"{NOT_READ}QueuedInMarketUpgrade: it has 0 hashes of code",
        ),
        (
            "peridot",
            writing((PERIDOT, key("PendingUpgradeHash"), (scval.BYTES, b"short"))),
            f"{NOT_READ}PendingUpgradeHash: a hash has 32 bytes, not 5",
        ),
        ("peridot", writing((PERIDOT, key("PendingUpgradeHash"), CODE)), f"{UNKNOWN_CODE.hex()}; its time is missing"),
        (
            "peridot",
            timed(PERIDOT, "PendingMarketCF", symbol("half"), "PendingMarketCFEta", address(VAULT)),
            f"{NOT_READ}PendingMarketCF: expected u128",
        ),
    ],
)
def test_what_is_queued_in_another_form_costs_its_text_alone(protocol: str, scenario: Scenario, value: str) -> None:
    """An entry that nobody understands is named as queued, without a time; everything is read as ever."""
    store = runs_of(protocol, scenario)
    [pending] = document(store, f"v1/markets/{MARKET[protocol]}.json", MarketSummary).pending
    status = document(store, "v1/system/status.json", SystemStatus)

    assert pending.value.startswith(value)
    assert pending.takes_effect is None
    assert [] == status.unread


@pytest.mark.parametrize(
    ("protocol", "subject", "holder"),
    [
        ("peridot", f"vault {VAULT}", VAULT),
        ("k2", f"aToken {A_TOKEN}", A_TOKEN),
        ("xoxno", f"pool contract {XOXNO_POOL}", XOXNO_POOL),
    ],
)
def test_other_code_of_a_contract_with_the_tokens(protocol: str, subject: str, holder: str) -> None:
    """Where another contract than the market has the tokens, its code is watched as well."""
    found = [item for item in changes_of(protocol, instance_with(holder, code=UNKNOWN_CODE)) if item.kind == "code"]

    assert [UNKNOWN_CODE.hex()] == [item.after for item in found]
    assert found[0].title.endswith(f": the code of the {subject} changed")


def behind_an_aggregator(source: str, code: bytes = UNKNOWN_CODE) -> Scenario:
    """The market of Blend asks an aggregator, which asks a source that runs some code."""

    def written(network: RecordedNetwork) -> Written:
        key = instance_key(BLEND_V2)
        known, ours = (strkey.decode(each)[1] for each in (ORACLE, AGGREGATOR))
        oracles = vec(struct_map({"address": address(source), "decimals": u32(14), "resolution": u32(300)}))
        storage = [
            (symbol(name), value) for name, value in (("Base", u32(0)), ("Decimals", u32(7)), ("MaxAge", u64(9)))
        ]
        return {
            key: (network.look(key) or b"").replace(known, ours),
            **dict([instance(AGGREGATOR, [*storage, (symbol("Oracles"), oracles)], bytes(32))]),
            **dict([instance(source, None, code)]),
        }

    return written


AGGREGATOR, SOURCES = contract("aggregator"), [contract("a source"), contract("another source")]


def test_each_hop_behind_an_oracle() -> None:
    """Another source of an aggregator, and other code of a source, are changes of every market that asks it."""
    scenarios = [
        behind_an_aggregator(SOURCES[0]),
        behind_an_aggregator(SOURCES[1]),
        behind_an_aggregator(SOURCES[1], bytes(32)),
    ]
    code, sources, *_ = [item for item in changes_of("blend", *scenarios) if item.kind in ("code", "oracle")]

    assert ("code", UNKNOWN_CODE.hex(), bytes(32).hex()) == (code.kind, code.before, code.after)
    assert code.title.endswith(f": the code of the price source {SOURCES[1]} changed")
    assert ("oracle", *SOURCES) == (sources.kind, sources.before, sources.after)
    assert sources.title.endswith(": the price sources changed")


def other_adapter(_network: RecordedNetwork) -> Written:
    """K2's oracle has a token's price from an adapter."""
    token = pools_of(RecordedNetwork(), K2)[0].token
    config = struct_map(
        {"asset": by_address(token), "batch_adapter": address(SOURCES[0]), "enabled": (scval.BOOL, True)}
    )
    return stored(K2_ORACLE, key("AssetConfig", by_address(token)), config)


def is_oracle(key: bytes) -> bool:
    return strkey.decode(XOXNO_AGGREGATOR)[1] in key and b"Oracle" in key and b"Token" in key


def other_provider(network: RecordedNetwork) -> Written:
    """XOXNO's aggregator has a token's price from another contract."""
    entry = next(key for key in network.chain.known_keys() if is_oracle(key))
    known, other = (strkey.decode(each)[1] for each in (ORACLE, SOURCES[0]))
    data = network.look(entry) or b""
    assert known in data
    return {entry: data.replace(known, other)}


def named_in(market: str, name: str) -> str:
    data = decode_contract_data(RecordedNetwork().look(instance_key(market)) or b"")
    found: str = named(data.value[1].storage)[name][1]
    return found


K2_ORACLE, XOXNO_AGGREGATOR = named_in(K2, "ORACLE"), named_in(XOXNO, "PriceAggregator")


@pytest.mark.parametrize(
    ("protocol", "scenario"),
    [
        ("k2", instance_with(K2_ORACLE, {"ReflectorContract": address(SOURCES[0])})),
        ("k2", other_adapter),
        ("xoxno", other_provider),
    ],
)
def test_other_contracts_that_oracles_ask(protocol: str, scenario: Scenario) -> None:
    """Whom an oracle asks for all tokens, or for one, is in its own entries."""
    [change] = [item for item in changes_of(protocol, scenario) if item.kind == "oracle"]

    assert change.title.endswith(": the price sources changed")
    assert SOURCES[0] in (change.after or "").split(", ")
    assert SOURCES[0] not in (change.before or "")


@pytest.mark.parametrize("protocol", sorted(MARKET))
def test_other_code_of_an_oracle(protocol: str) -> None:
    """The code of the oracle that a market names, or that its oracle asks, is watched for every protocol."""
    found = [item for item in changes_of(protocol, instance_with(ORACLE, code=UNKNOWN_CODE)) if item.kind == "code"]

    assert {UNKNOWN_CODE.hex()} == {item.after for item in found}
    assert all(ORACLE in item.title for item in found)


def test_an_oracle_that_nobody_foresaw_costs_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the form of an oracle breaks what is behind prices, the run goes on and says so."""

    def broken(*_: object) -> list[str]:
        raise ValueError("a form that nobody foresaw")

    monkeypatch.setattr(price_sources, "_sources", broken)
    status = document(runs_of("blend", lambda _: {}), "v1/system/status.json", SystemStatus)

    assert [] == status.unread
    assert any("a form that nobody foresaw" in notice for notice in status.notices)


def test_an_oracle_that_names_very_many() -> None:
    """Of an oracle that names more contracts than any real one, only the first are asked for."""
    many = [contract(f"source {number}") for number in range(1_000)]

    def written(network: RecordedNetwork) -> Written:
        aggregator = behind_an_aggregator(SOURCES[0])(network)
        oracles = vec(*(struct_map({"address": address(source)}) for source in many))
        return {**aggregator, **instance_with_oracles(oracles)}

    network = RecordedNetwork()
    network.close(written(network))
    with running(create_app(network)) as url:
        store = MemoryStore()
        code, _ = run(settings_for(None, url, **only("blend")), store)
    [own] = [item for item in document(store, "v1/changes.json", ChangeList).markets if item.market == BLEND_V2]

    assert 0 == code
    assert sorted(many)[: price_sources.MAX_SOURCES] == next(
        item.value for item in own.values if item.subject == "price sources"
    ).split(", ")


def instance_with_oracles(oracles: ScVal) -> Written:
    settings = {"Base": u32(0), "Decimals": u32(7), "MaxAge": u64(9), "Oracles": oracles}
    return dict([instance(AGGREGATOR, [(symbol(name), value) for name, value in settings.items()], bytes(32))])
