"""An unmodified stellar-rpc over the state of the real testnet archive (`tests.rpc.core` plays its core)."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from starlette.staticfiles import StaticFiles
from stellar_sdk import xdr

from exporter.localnet.server import running
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from tests.localnet.conformance import OLDEST, TESTNET
from tests.past.archive.archive_snapshot import state_at
from tests.rpc.core import State, save

PROGRAM = "STELLAR_RPC"
"""The environment variable that names the program."""
PROTOCOL = "STELLAR_RPC_PROTOCOL"
"""The environment variable that names the protocol of the ledgers, where the program does not say its version."""
ARCHIVES = ("archive-testnet", "checkpoint-testnet")
"""Folders of the real data: the whole archive, or one checkpoint of it, which can be fetched."""
START_SECONDS = 120.0
ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG_SETTINGS = [(8).to_bytes(4, "big") + number.to_bytes(4, "big") for number in range(32)]

StartServer = Callable[[float, int], str]
"""Starts a server whose ledgers close after some seconds, up to a last ledger (0: without end); gives its URL."""


@pytest.fixture(scope="session")
def start_server(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Starts servers, which end with the tests."""
    program = os.environ.get(PROGRAM)
    if not program:
        pytest.skip("scripts/test-rpc runs these tests: they need the program stellar-rpc")
    folder = next((place for name in ARCHIVES if (place := real_data / name).is_dir()), None)
    if folder is None:
        pytest.skip(f"{real_data} has no archive of a testnet: {' or '.join(ARCHIVES)}")
    state = tmp_path_factory.mktemp("state") / "state"
    save(archive_state(folder), state)
    with ExitStack() as stack:
        archive = stack.enter_context(running(StaticFiles(directory=folder)))

        def start(seconds: float, last: int) -> str:
            place = tmp_path_factory.mktemp("rpc")
            environment = os.environ | {"STATE": str(state), "SECONDS": str(seconds), "LAST": str(last)}
            environment |= {"PROTOCOL": str(protocol_of(program))}
            return stack.enter_context(_running(program, place, archive, environment))

        yield start


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
    """What a server with a host of protocol 23 or later needs, and the archive of protocol 22 lacks: it counts fees."""
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
            _wait(url, process, int(environment["LAST"]), place / "log")
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


def _wait(url: str, process: subprocess.Popen[bytes], last: int, log: Path) -> None:
    """Wait until a server is healthy, and at its last ledger where there is one."""
    question = {"jsonrpc": "2.0", "id": 1, "method": "getHealth"}
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            answer = httpx.post(url, json=question, timeout=5).json().get("result", {})
        except httpx.HTTPError:
            answer = {}
        if answer.get("status") == "healthy" and answer["latestLedger"] >= max(last, OLDEST + 1):
            return
        time.sleep(0.2)
    pytest.fail(f"stellar-rpc did not start:\n{log.read_text()[-3_000:]}")
