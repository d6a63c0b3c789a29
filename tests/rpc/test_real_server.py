"""The exporter over an unmodified stellar-rpc, which serves the state of the real testnet archive: runs, and getters.

`tests.rpc.core` plays the server's core.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.staticfiles import StaticFiles
from stellar_sdk import xdr

from exporter.ledger.rpc import wire
from exporter.ledger.rpc.client import MAX_CALLS_PER_REQUEST, RpcCounters, RpcSource
from exporter.ledger.rpc.endpoints import RpcLimits
from exporter.ledger.source import ContractCall, SimulationAnswer
from exporter.localnet.server import running
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from tests.job_runs import on_chain, run, settings_for
from tests.localnet.conformance import OLDEST, TESTNET
from tests.past.archive.archive_snapshot import state_at
from tests.rpc.core import State, save

PROGRAM = "STELLAR_RPC"
"""The environment variable that names the program."""
PROTOCOL = "STELLAR_RPC_PROTOCOL"
"""The environment variable that names the protocol of the ledgers, if the program does not say its version."""
ARCHIVES = ("archive-testnet", "checkpoint-testnet")
"""Folders of the real data: the whole archive, or one checkpoint of it, which can be fetched."""
START_SECONDS = 120.0
ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG_SETTINGS = [(8).to_bytes(4, "big") + number.to_bytes(4, "big") for number in range(32)]

MARKET = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
ACCRUING = {"accrued_to", "supply_index", "borrow_index", "backstop_credit", "total_supplied", "total_borrowed"}
PRICES = {"native": "0.2500000", "USDC": "1.0000000", "wBTC": "100000.0000000", "wETH": "3000.0000000"}


@pytest.fixture(scope="module")
def closing(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose ledgers close every second."""
    program = os.environ.get(PROGRAM)
    if not program:
        pytest.skip("scripts/suite rpc runs these tests: they need the program stellar-rpc")
    folder = next((place for name in ARCHIVES if (place := real_data / name).is_dir()), None)
    if folder is None:
        pytest.skip(f"{real_data} has no archive of a testnet: {' or '.join(ARCHIVES)}")
    place = tmp_path_factory.mktemp("rpc")
    save(archive_state(folder), place / "state")
    environment = os.environ | {"STATE": str(place / "state"), "PROTOCOL": str(protocol_of(program))}
    with running(StaticFiles(directory=folder)) as archive, _running(program, place, archive, environment) as url:
        yield url


def flags() -> dict[str, Any]:
    return {"network__name": "testnet", "markets": [{"protocol": "blend", "address": MARKET}]}


def test_runs_while_ledgers_close(closing: str, tmp_path: Path) -> None:
    """Each run publishes all four pools with their prices, all at one ledger, which is later at each run."""
    ledgers = list[int]()
    for _ in range(3):
        time.sleep(1.5)
        code, facts = run(settings_for(tmp_path, closing, **flags()), now=datetime.now(UTC))
        page = json.loads((tmp_path / "v1" / "assets" / "index.json").read_bytes())["data"]

        assert (0, [], []) == (code, facts["unread"], facts["unpriced"])
        assert PRICES == {pool["symbol"]: pool["oracle_price_usd"] for pool in page}
        ledgers += {pool["observed_ledger"] for pool in page}
    assert 3 == len(ledgers)
    assert ledgers == sorted(set(ledgers))


def test_getters_of_the_deployed_contracts(closing: str) -> None:
    """All 72 fields of the contracts' getters agree, but for what accrued until a server before 27.1 ran the calls."""
    found = on_chain(settings_for(None, closing, **flags()))

    assert (72, 4, [], []) == (found.compared, found.pools, found.failed, found.notices)
    assert {difference.field for difference in found.differences} <= ACCRUING


def test_the_server_answers_each_of_ten_calls_alone(closing: str) -> None:
    """The server takes ten calls in one request, and answers each as if it were alone, one that fails included."""
    functions = ("get_config", "get_reserve_list", "get_admin", "no_such_function")
    calls = [ContractCall(MARKET, functions[number % 4]) for number in range(10)]

    async def ask() -> tuple[list[SimulationAnswer], list[SimulationAnswer], RpcCounters]:
        async with RpcSource([closing], TESTNET, limits=RpcLimits(requests_per_second=100)) as source:
            together = await source.simulate_together(calls)
            return together, [await source.simulate(call) for call in calls[:4]], source.counters

    together, alone, counters = asyncio.run(ask())

    assert ({"getNetwork": 1, "simulateTransaction": 1 + len(alone)}, {}) == (counters.requests, counters.errors)
    for number, answer in enumerate(together):
        single = alone[number % 4]
        assert (single.result, single.footprint) == (answer.result, answer.footprint)
        assert (single.error is None) == (answer.error is None)
        assert OLDEST < answer.ledger <= single.ledger
    assert [True, True, True, False] == [answer.error is None for answer in alone]


def test_batches_that_are_too_large(closing: str) -> None:
    """Beyond 512 KiB the server refuses a batch with status 500, which a batch of our size is far below."""
    call = {"transaction": wire.invocation_envelope(ContractCall(MARKET, "get_config"))}
    body = wire.encode_batch([str(number) for number in range(2_500)], "simulateTransaction", [call] * 2_500)

    refused = httpx.post(closing, content=body, headers={"content-type": "application/json"}, timeout=60)

    assert (500, "http: request body too large") == (refused.status_code, refused.text.strip())
    assert MAX_CALLS_PER_REQUEST * len(body) / 2_500 < 512 * 1024 / 10


def protocol_of(program: str) -> int:
    """The protocol that a server runs, its major version; that of the archive for a build without a version."""
    said = subprocess.run([program, "version"], capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"stellar-rpc v?(\d+)\.\d", said)
    return int(os.environ.get(PROTOCOL) or (found[1] if found else 22))


def archive_state(folder: Path) -> State:
    """Contract data, code and the network's settings at an archive's checkpoint."""
    archive = HistoryArchive(FolderFiles(folder))
    found = state_at(archive, OLDEST, others=CONFIG_SETTINGS)
    expiring = {
        key: (entry.last_modified.to_bytes(4, "big") + entry.data + bytes(4), entry.live_until)
        for key, entry in found.entries.items()
    }
    settings = {key: (entry, None) for key, entry in found.others.items()}
    return State(found.checkpoint.header.content, TESTNET, expiring | _later_setting() | settings)


def _later_setting() -> dict[bytes, tuple[bytes, int | None]]:
    """An entry for fees that a server of protocol 23 or later needs, and the archive of protocol 22 lacks."""
    number = xdr.ConfigSettingID.CONFIG_SETTING_CONTRACT_LEDGER_COST_EXT_V0
    costs = xdr.ConfigSettingContractLedgerCostExtV0(xdr.Uint32(100), xdr.Int64(3_500))
    setting = xdr.ConfigSettingEntry(number, contract_ledger_cost_ext=costs)
    data = xdr.LedgerEntryData(xdr.LedgerEntryType.CONFIG_SETTING, config_setting=setting)
    entry = xdr.LedgerEntry(xdr.Uint32(OLDEST), data, xdr.LedgerEntryExt(0))
    return {CONFIG_SETTINGS[number.value]: (entry.to_xdr_bytes(), None)}


@contextmanager
def _running(program: str, place: Path, archive: str, environment: Mapping[str, str]) -> Iterator[str]:
    core = place / "core"
    core.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tests.rpc.core "$@"\n')
    core.chmod(0o755)
    port, admin, core_port, query_port = _free_ports(4)
    (place / "core.cfg").write_text(
        f'NETWORK_PASSPHRASE="{TESTNET}"\nUNSAFE_QUORUM=true\nFAILURE_SAFETY=0\n'
        '[[HOME_DOMAINS]]\nHOME_DOMAIN="example.org"\nQUALITY="LOW"\n'
        '[[VALIDATORS]]\nNAME="local"\nHOME_DOMAIN="example.org"\nADDRESS="127.0.0.1"\n'
        'PUBLIC_KEY="GDKXE2OZMJIPOSLNA6N6F2BVCI3O777I2OOC4BV7VOYUEHYX7RTRYA7Y"\n'
    )
    (place / "rpc.toml").write_text(
        f'ENDPOINT="127.0.0.1:{port}"\nADMIN_ENDPOINT="127.0.0.1:{admin}"\nNETWORK_PASSPHRASE="{TESTNET}"\n'
        f'STELLAR_CORE_BINARY_PATH="{core}"\nSTELLAR_CORE_URL="http://127.0.0.1:{core_port}"\n'
        f'CAPTIVE_CORE_CONFIG_PATH="{place / "core.cfg"}"\nCAPTIVE_CORE_STORAGE_PATH="{place}"\n'
        f"STELLAR_CAPTIVE_CORE_HTTP_PORT={core_port}\nSTELLAR_CAPTIVE_CORE_HTTP_QUERY_PORT={query_port}\n"
        f'HISTORY_ARCHIVE_URLS=["{archive}"]\nDB_PATH="{place / "rpc.sqlite"}"\n'
        'PREFLIGHT_WORKER_COUNT=2\nMAX_HEALTHY_LEDGER_LATENCY="24h"\nSTRICT=true\n'
    )
    url = f"http://127.0.0.1:{port}"
    with (place / "log").open("w") as log:
        process = subprocess.Popen(
            [program, "--config-path", str(place / "rpc.toml")], env=environment, stdout=log, stderr=log
        )
        try:
            _wait(url, process, place / "log")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    """Ports that are free, below those that the system gives to connections (the server's own could take one)."""
    found = list[int]()
    for port in random.sample(range(20_000, 30_000), 200):
        with suppress(OSError), socket.socket() as trial:
            trial.bind(("127.0.0.1", port))
            found.append(port)
    return found[:count]


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server is healthy."""
    question = {"jsonrpc": "2.0", "id": 1, "method": "getHealth"}
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            answer = httpx.post(url, json=question, timeout=5).json().get("result", {})
        except httpx.HTTPError:
            answer = {}
        if answer.get("status") == "healthy" and answer["latestLedger"] > OLDEST:
            return
        time.sleep(0.2)
    pytest.fail(f"stellar-rpc did not start:\n{log.read_text()[-3_000:]}")
