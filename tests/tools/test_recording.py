"""How the recording of the package is made: from code, or from entries of a chain."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from exporter.deployments import MARKET
from exporter.errors import SnapshotFileError
from exporter.job.evidence import Evidence
from exporter.ledger.source import RawEntry
from exporter.localnet.recording import FOLDER, TOKENS_FILE
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.numbers import PoolNumbers
from tests.protocols.made_ledger import contract
from tests.protocols.world import World
from tools.recording.__main__ import LISTS, RECORDED, comes_from_code, main, parts_of
from tools.recording.parts import CLOSE_TIME, LEDGER, deployments_file, recording_of, recording_of_tokens
from tools.recording.sources import looked_at, part_of_run
from tools.recording.tokens import TOKENS

FROM_CODE = [protocol for protocol in PROTOCOLS if comes_from_code(protocol)]
"""The protocols whose part comes from code alone."""


def assert_repeated(protocol: str, folder: Path) -> None:
    """Compare the recording that is made of a protocol with the package's."""
    parts = parts_of(protocol, folder)
    assert RECORDED.joinpath(f"{protocol}.bin").read_bytes() == recording_of(parts).packed()
    assert LISTS.joinpath(f"{protocol}.toml").read_text("utf-8") == deployments_file(protocol, parts)


@pytest.mark.parametrize("protocol", FROM_CODE)
def test_a_part_from_code_can_be_repeated(protocol: str, tmp_path: Path) -> None:
    """Without any data, the file of the recording and the list come out byte for byte."""
    assert_repeated(protocol, tmp_path)


def test_the_tokens_can_be_repeated() -> None:
    """The tokens and their prices come out byte for byte."""
    assert RECORDED.joinpath(f"{TOKENS_FILE}.bin").read_bytes() == recording_of_tokens().packed()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", sorted(set(PROTOCOLS) - set(FROM_CODE)))
def test_a_part_with_a_source_can_be_repeated(protocol: str, real_data: Path, mainnet_snapshot_path: Path) -> None:
    """From its source, the file of the recording and the list come out byte for byte."""
    if not (real_data / "contract-states.tar.zst").is_file() or not (real_data / "archive-testnet").is_dir():
        pytest.skip(f"{real_data} lacks contract-states.tar.zst or archive-testnet")
    assert_repeated(protocol, mainnet_snapshot_path.parent)


def test_every_protocol_is_recorded() -> None:
    """The package has a file of each protocol and that of the tokens, and nothing else; all are small."""
    files = sorted(RECORDED.iterdir())

    assert sorted(f"{name}.bin" for name in (*PROTOCOLS, TOKENS_FILE)) == [file.name for file in files], (
        f"exporter/localnet/{FOLDER} has a file of each protocol: python -m tools.recording writes it"
    )
    assert sum(file.stat().st_size for file in files) < 300_000


def test_data_that_is_missing_is_named(tmp_path: Path) -> None:
    """Without its data, a protocol is not written, and the command says what to do."""
    result = CliRunner().invoke(main, ["blend", "--data", str(tmp_path)])

    assert 1 == result.exit_code
    assert "blend comes from data that is not here" in result.output
    assert "name the folder with --data, or name the protocols that come from code" in result.output


def test_a_part_from_the_evidence_of_a_run(tmp_path: Path) -> None:
    """What a run read becomes a part that has the same pools, under an address of the recording."""
    world = World("slender")
    market, reading = world.market, world.read().result
    roles = {each.address: (each.role, each.name) for item in world.deployments for each in item.contracts}
    named = {token.address: symbol for symbol, token in TOKENS.items()}
    file = tmp_path / "evidence.jsonl.gz"
    file.write_bytes(evidence_of(world).encode())

    part = part_of_run(file, "slender", roles=roles, tokens=named).recorded()

    (recorded,) = part.contracts
    assert (MARKET, "Slender") == (recorded.role, recorded.name)
    assert market != recorded.address
    entries = {item.key: RawEntry(item.data, item.last_modified, item.live_until) for item in part.entries}
    shared = {item.key: RawEntry(item.data, 1, None) for item in recording_of_tokens().entries}
    candidates = [Candidate("slender", recorded.address, Origin.SNAPSHOT)]
    _, again = looked_at(entries | shared, LEDGER, CLOSE_TIME, candidates, ())
    assert numbers_of(reading) == numbers_of(again)


def test_evidence_without_the_market(tmp_path: Path) -> None:
    """A run that did not read the market gives no part of it."""
    file = tmp_path / "evidence.jsonl.gz"
    file.write_bytes(evidence_of(World("slender")).encode())

    with pytest.raises(SnapshotFileError, match="the run did not read all of"):
        part_of_run(file, "slender", roles={contract("other"): (MARKET, "")}, tokens={})


def evidence_of(world: World) -> Evidence:
    """The evidence of a run that reads the market of a world."""
    world.read()
    source = world.source
    entries = {key: source.chain.entry(key, source.chain.latest) for key in source.asked}
    calls = {call: asyncio.run(source.simulate(call)) for call in list(source.calls)}
    candidates = [Candidate(world.protocol, world.market, Origin.DEPLOYMENT)]
    return Evidence("a chain", source.chain.latest, world.time, entries, calls, candidates)


def numbers_of(reading: ProtocolReading) -> list[tuple[str, PoolNumbers]]:
    """Each pool's token and numbers. A share token is left out, because its address is another."""
    project = PROTOCOLS[reading.protocol].project
    return [(pool.token_address, replace(project(pool, CLOSE_TIME), share_token=None)) for pool in reading.pools]
