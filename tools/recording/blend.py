"""Blend's parts of the recording: a v1 market of mainnet, and a v2 market of testnet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from exporter.deployments import deployments_of
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, decode_contract_data, encode_contract_data, variant_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, struct_map, symbol, vec
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.protocols.base import Candidate, Origin
from tests.past.archive.archive_snapshot import state_at
from tests.protocols.made_ledger import Written, entry, instance
from tools.recording.parts import RecordedPart, SourcedPart
from tools.recording.sources import deployment_of, looked_at, storage_of

MAINNET_POOL = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
TESTNET_POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
CHECKPOINT = 10_047
POOL_CODE = bytes.fromhex("baf978f10efdbcd85747868bef8832845ea6809f7643b67a4ac0cd669327fc2c")
FACTORY_CODE = bytes.fromhex("0287f4ad7350935b83d94e046c0bcabc960b233dbce1531008c021b71d406a1d")


def parts(folder: Path) -> list[RecordedPart]:
    """Both deployments, from the folder with mainnet's snapshot and the testnet archive."""
    return [mainnet(folder).recorded(), testnet(folder).recorded()]


def mainnet(folder: Path) -> SourcedPart:
    """Mainnet's Blend pool with its rewards and its backstop, at ledger 55,261,759."""
    snapshot = LedgerSnapshot.load(folder / "mainnet-55261759.json")
    deployments = [item for item in deployments_of("mainnet") if item.protocol == "blend" and item.label == "v1"]
    candidates = [Candidate("blend", MAINNET_POOL, Origin.SNAPSHOT)]
    entries, _ = looked_at(snapshot.entries, snapshot.ledger, snapshot.close_time, candidates, deployments)
    tokens = {
        "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA": "XLM",
        "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75": "USDC",
        "CD25MNVTZDL4Y3XBCPCJXGXATV5WUHHOWMYFF4YBEGU5FCPGMYTVG5JY": "BLND",
    }
    for token in tokens:
        key = variant_key(token, "Balance", address(MAINNET_POOL))
        entries |= {key: snapshot.entries[key]} if key in snapshot.entries else {}
    roles = {each.address: (each.role, each.name) for each in deployments[0].contracts if each.role != "market"}
    for key, data in _factory(deployments[0].address("factory") or "", deployments[0].backstop or ""):
        entries[key] = RawEntry(data, 50_000_000, None)
    key = data_key(deployments[0].backstop or "", symbol("RZ"))
    zone = decode_contract_data(entries[key].data)._replace(value=vec(address(MAINNET_POOL)))
    entries[key] = replace(entries[key], data=encode_contract_data(zone))
    return SourcedPart(
        "mainnet",
        "blend",
        snapshot.ledger,
        snapshot.close_time,
        entries,
        tokens,
        roles | {MAINNET_POOL: ("market", "Fixed XLM-USDC")},
        {"CATKK5ZNJCKQQWTUWIUFZMY6V6MOQUGSTFSXMNQZHVJHYF7GVV36FB3Y"},
    )


def _factory(factory: str, backstop: str) -> Iterator[Written]:
    """The factory, which the snapshot lacks: its code, and its record that it deployed the pool."""
    blnd = "CD25MNVTZDL4Y3XBCPCJXGXATV5WUHHOWMYFF4YBEGU5FCPGMYTVG5JY"
    pool_code: ScVal = (scval.BYTES, POOL_CODE)
    meta = struct_map({"backstop": address(backstop), "blnd_id": address(blnd), "pool_hash": pool_code})
    pairs = [(symbol("IsInit"), (scval.BOOL, True)), (symbol("PoolMeta"), meta)]
    yield instance(factory, pairs, FACTORY_CODE)
    yield entry(factory, vec(symbol("Contracts"), address(MAINNET_POOL)), (scval.BOOL, True))


def testnet(folder: Path) -> SourcedPart:
    """Testnet's Blend v2 pool of June 2025, from the buckets of the history archive's checkpoint 10,047."""
    archive = HistoryArchive(FolderFiles(folder / "real" / "archive-testnet"))
    state = state_at(archive, CHECKPOINT)
    close_time = state.checkpoint.header.close_time
    storage = {str(key[1]): value for key, value in storage_of(state.entries, TESTNET_POOL)}
    config = {str(key[1]): value[1] for key, value in storage["Config"][1]}
    backstop = str(storage["Backstop"][1])
    found = {str(key[1]): str(value[1]) for key, value in storage_of(state.entries, backstop)}
    roles = {
        backstop: ("backstop", ""),
        found["PoolFact"]: ("factory", ""),
        TESTNET_POOL: ("market", "TestnetV2"),
    }
    candidates = [Candidate("blend", TESTNET_POOL, Origin.SNAPSHOT)]
    known = [deployment_of("blend", roles)]
    entries, reading = looked_at(state.entries, CHECKPOINT, close_time, candidates, known)
    tokens = dict(zip((pool.token_address for pool in reading.pools), ("XLM", "wETH", "wBTC", "USDC"), strict=True))
    for token in tokens:
        key = variant_key(token, "Balance", address(TESTNET_POOL))
        entries |= {key: state.entries[key]} if key in state.entries else {}
    tokens[found["BLNDTkn"]] = "BLND"
    oracles = {str(config["oracle"])}
    return SourcedPart("testnet", "blend", CHECKPOINT, close_time, entries, tokens, roles, oracles)
