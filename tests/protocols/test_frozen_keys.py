"""Keys that the network froze (CAP-77): no operation of a pool that needs one is possible."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import exporter
from exporter.errors import DecodeError
from exporter.ledger.codec.entries import code_key, instance_key
from exporter.localnet import rpc
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.protocols.frozen_keys import SETTING_KEY, UNKNOWN_FROZEN, decode_frozen_keys
from tests.job_runs import direct, read_tables, run, settings_for
from tests.localnet.recorded import only

pytestmark = pytest.mark.usefixtures("without_pages")

GATES = ["can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate"]


def setting(keys: Iterable[bytes]) -> bytes:
    """LedgerEntryData XDR of the setting."""
    items = list(keys)
    padded = (struct.pack(">I", len(key)) + key + bytes(-len(key) % 4) for key in items)
    return SETTING_KEY + struct.pack(">I", len(items)) + b"".join(padded)


def closed(pools: pl.DataFrame) -> set[str]:
    """The markets all of whose pools refuse every operation because of a frozen key."""
    frozen = pl.col("can_reason").str.contains("the network froze").fill_null(value=False)
    shut = ~pl.any_horizontal(pl.col(GATES).fill_null(value=True))
    by_market = pools.group_by("market").agg(((frozen & shut).all()).alias("closed"))
    assert pools.filter(frozen & ~shut).is_empty()
    return set(by_market.filter("closed")["market"])


def test_frozen_keys_close_every_operation_of_what_needs_them() -> None:
    """Instances and code of a market close it, a token's the pools of the token, for every protocol."""
    network = RecordedNetwork()
    before = read_tables(direct(network))
    markets = before.markets
    network.close({SETTING_KEY: setting([])})
    assert (
        before.pools.drop("observed_ledger", "ledger_close_time")
        .select(GATES)
        .equals(read_tables(direct(network)).pools.select(GATES))
    )

    for market, wasm_hash in markets.group_by("protocol").first().select("market", "wasm_hash").iter_rows():
        network.close({SETTING_KEY: setting([instance_key(market)])})
        assert market in closed(read_tables(direct(network)).pools)
        network.close({SETTING_KEY: setting([code_key(bytes.fromhex(wasm_hash))])})
        same = set(markets.filter(pl.col("wasm_hash") == wasm_hash)["market"])
        assert same <= closed(read_tables(direct(network)).pools)

    token = before.pools["token_address"][0]
    network.close({SETTING_KEY: setting([instance_key(token)])})
    pools = read_tables(direct(network)).pools
    shut = pools.filter(pl.col("can_reason").str.contains("the network froze an entry"))
    assert set(pools.filter(pl.col("token_address") == token)["pool"]) <= set(shut["pool"])
    assert shut.height < pools.height


def test_a_frozen_market_is_a_change_of_its_own_kind(tmp_path: Path) -> None:
    """Freezing and thawing a market's key are changes of the kind frozen, and a repeated run has them."""
    network = RecordedNetwork()
    market = read_tables(direct(network)).markets["market"][0]
    settings = settings_for(tmp_path, **only(market))
    for keys in ([], [instance_key(market)], []):
        network.close({SETTING_KEY: setting(keys)})
        run(settings, network=network)
    changes = json.loads((tmp_path / "v1/changes.json").read_bytes())["data"]

    assert [market, market] == [change["market"] for change in changes if change["kind"] == "frozen"]


def test_an_rpc_that_does_not_know_the_setting_spoils_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The RPC refuses requests with the key: everything else is read, with one notice, as in a repeated run."""
    answer, refused = rpc._METHODS["getLedgerEntries"], list[int]()

    def of_before(node: rpc.Node, params: Any) -> Any:
        if base64.b64encode(SETTING_KEY).decode() in params.keys:
            refused.append(len(params.keys))
            raise rpc.RpcError(-32602, "cannot unmarshal key value")
        return answer(node, params)

    monkeypatch.setitem(rpc._METHODS, "getLedgerEntries", of_before)
    network = RecordedNetwork(copies=2)  # the copies are not listed
    with running(create_app(network)) as url:
        code, _ = run(settings_for(tmp_path, url))
    status = json.loads((tmp_path / "v1/system/status.json").read_bytes())

    assert (0, [], [UNKNOWN_FROZEN]) == (code, status["skipped"], status["notices"])
    assert {1} == set(refused)
    assert len(refused) <= 2
    assert exporter.check_tree(str(tmp_path)).not_rerendered is None


def test_frozen_keys_come_back_and_damage_is_refused() -> None:
    """The keys come back; damage is refused with one kind of error."""
    keys = [b"\0\0\0\7" + bytes(32), b"\0\0\0\0\0\0\0\0" + bytes(32), b"\0\0\0\x06abc"]
    data = setting(keys)

    assert set(keys) == decode_frozen_keys(data)
    for damaged in (data[:-1], data[:7], data + bytes(4), b"\0\0\0\x07" + data[4:], data[:8] + b"\xff" * 4):
        with pytest.raises(DecodeError):
            decode_frozen_keys(damaged)
