"""What moves money without moving a number: who decides, which code runs, who gives the prices, run after run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
import pytest

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import (
    TEMPORARY,
    ContractData,
    data_key,
    decode_contract_data,
    encode_contract_data,
    instance_key,
)
from exporter.ledger.codec.fields import named
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, u64, vec
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.protocols.blend.layout import reserve_config_key
from exporter.protocols.collector import in_words
from exporter.stores.memory import MemoryStore
from exporter.tree.documents import ChangeList, MarketSummary, RunChange
from exporter.tree.pools import AssetDetail, PendingChange
from tests.jobs import run, settings_for
from tests.localnet.recorded import BLEND_V2, LISTED, only, pools_of, without_oracle
from tests.protocols.made_ledger import UNKNOWN_CODE, account, changed

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
        variants = held.storage is not None and held.storage[0][0][0] == scval.VEC
        missing = storage.keys() - named(held.storage).keys()
        pairs += [(vec(symbol(name)) if variants else symbol(name), storage[name]) for name in sorted(missing)]
        changed = ContractInstance(held.executable, code or held.wasm_hash, None, tuple(pairs))
        return {key: encode_contract_data(data._replace(value=(scval.CONTRACT_INSTANCE, changed)))}

    return written


def runs_of(protocol: str, *scenarios: Scenario) -> MemoryStore:
    """The tree after a run, and one more after each of these was written in a ledger of its own."""
    network, store = RecordedNetwork(), MemoryStore()
    with running(create_app(network)) as url:
        settings = settings_for(None, url, **only(protocol))
        run(settings, store)
        for scenario in scenarios:
            network.close(scenario(network))
            run(settings, store)
    return store


def document(store: MemoryStore, key: str, model: type[Document]) -> Document:
    stored = store.get(key)
    assert stored is not None
    return msgspec.json.decode(stored.data, type=model)


def changes_of(protocol: str, *scenarios: Scenario) -> list[RunChange]:
    """What the runs after the first say that changed, the newest first."""
    return document(runs_of(protocol, *scenarios), "v1/changes.json", ChangeList).data


def temporary(contract: str, key: ScVal, value: ScVal | None) -> Written:
    """A temporary entry as it is written, or removed."""
    data = None if value is None else encode_contract_data(ContractData(contract, key, TEMPORARY, value))
    return {data_key(contract, key, TEMPORARY): data}


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
        return temporary(BLEND_V2, vec(symbol("ResInit"), address(POOL)), queued)

    return written


def no_queued_reserve(_network: RecordedNetwork) -> Written:
    return temporary(BLEND_V2, vec(symbol("ResInit"), address(POOL)), None)


def proposed_admin(_network: RecordedNetwork) -> Written:
    return temporary(BLEND_V2, symbol("PropAdmin"), address(SOMEBODY))


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


def test_a_proposed_admin_of_blend() -> None:
    """Whoever has to accept to be a pool's admin is named for the market and each of its pools, without a time."""
    store = runs_of("blend", proposed_admin)
    detail = document(store, f"v1/assets/{BLEND_V2}/{POOL}.json", AssetDetail)

    assert [PendingChange(None, "admin", SOMEBODY, None)] == detail.pending
    page = store.get(f"pools/{BLEND_V2}/{POOL}.html")
    assert page is not None
    assert f"Another admin, no time is set</b>: {SOMEBODY}" in page.data.decode()


@pytest.mark.parametrize(
    ("scenario", "value"),
    [
        (queued_reserve((scval.U32, 7)), "its entry cannot be read: ResInit: expected map, found u32"),
        (queued_reserve(struct_map({"unlock_time": u64(1)})), "its entry cannot be read: ResInit: field new_config"),
        (queued_reserve(struct_map({"new_config": u32(1), "unlock_time": u64(1)})), "its entry cannot be read: "),
        (queued_reserve(decimals=u32(2**32 - 1)), "its entry cannot be read: ResInit.new_config: field decimals is"),
        (queued_reserve(unlocks=2**64 - 1), "the same as now; its time is after the year 9999"),
        (queued_reserve(c_factor=(scval.SYMBOL, "much")), "its entry cannot be read: ResInit.new_config: field c_fact"),
    ],
    ids=["another kind", "a field less", "no struct", "decimals", "a time that never is", "no number"],
)
def test_what_is_queued_in_another_form_costs_its_text_alone(scenario: Scenario, value: str) -> None:
    """An entry that nobody understands is named as queued, without a time; the pool is read as ever."""
    store = runs_of("blend", scenario)
    [pending] = document(store, f"v1/assets/{BLEND_V2}/{POOL}.json", AssetDetail).pending

    assert pending.value.startswith(value)
    assert pending.takes_effect is None
