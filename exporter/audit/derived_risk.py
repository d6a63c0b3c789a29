"""Derives the risk that a run shows once more, from all positions of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from exporter.audit.fetched_tree import FetchedTree
from exporter.audit.risk_tally import RiskTally
from exporter.config import MarketSettings, NetworkSettings, Settings
from exporter.errors import ArchiveError, RefutedError
from exporter.job.evidence import Evidence
from exporter.ledger.codec.entries import instance_key
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint_proof import NotProvableError, make_proof
from exporter.past.archive.stellar_proof import Trust, check_proof
from exporter.past.archive_source import open_state
from exporter.protocols.base import Origin
from exporter.tree.decoding import decode_json
from exporter.tree.documents import SystemStatus
from exporter.tree.families import RISK, RISK_TABLE
from exporter.tree.risk_documents import RiskDocument


def is_unshown_risk(key: str, status: SystemStatus) -> bool:
    """Whether a file has figures of risk that the run does not show, so that only the publisher vouches for them."""
    return key == RISK_TABLE.only_key or (RISK.pattern.fullmatch(key) is not None and key != status.risk_key)


def judge_risk(
    tree: FetchedTree,
    evidence: Evidence,
    archives: Archives,
    trust: Trust,
    folder: Path,
    *,
    complete: bool,
) -> Iterator[str]:
    """Derive the shown figures again, and yield what could not be derived, so that only the publisher vouches for it.

    Without ``complete`` nothing is derived. Figures of a market that was not listed for the run cannot be derived.
    Raises `RefutedError` if the checkpoint gives other figures.
    """
    key = str(tree.status.risk_key)
    if not complete:
        yield f"{key} (--complete derives it again)"
        return
    try:
        theirs = decode_json(tree.risk or b"", RiskDocument)
    except msgspec.DecodeError as error:
        raise RefutedError(f"{key} cannot be understood: {error}") from None
    try:
        ours = _derive(theirs.checkpoint, _with_configured(evidence), archives, trust, folder)
    except (NotProvableError, ArchiveError) as error:
        yield f"{key}: checkpoint {theirs.checkpoint} could not be read: {error}"
        return
    if (theirs.header, theirs.checkpoint_close_time) != (ours.header, ours.checkpoint_close_time):
        raise RefutedError(f"{key} is not of the network's checkpoint {theirs.checkpoint}")
    derived = {item.market: item for item in ours.data}
    for item in theirs.data:
        if item.market not in derived:
            yield f"{key}: the figures of {item.market}, which was not listed for the run"
        elif item != derived[item.market]:
            raise RefutedError(f"{key}: the figures of {item.market} are not what its positions give")
    left_out = {item.market for item in theirs.left_out}
    for market in derived.keys() - {item.market for item in theirs.data}:
        if market in left_out:
            raise RefutedError(f"{key}: it leaves out {market}, whose positions can be read")
        yield f"{key}: it lacks {market}, which is listed for the run"


def _with_configured(evidence: Evidence) -> Settings:
    """Settings with the run's network, and the markets that its operator configured, which makes them listed."""
    named = (item for item in evidence.candidates if item.origin is Origin.CONFIGURATION)
    markets = tuple(MarketSettings(protocol=item.protocol, address=item.address) for item in named)
    return Settings(network=NetworkSettings(passphrase=evidence.passphrase), markets=markets)


def _derive(checkpoint: int, settings: Settings, archives: Archives, trust: Trust, folder: Path) -> RiskDocument:
    """Derive the risk document of a checkpoint from its whole state. ``folder`` keeps what is read of it."""
    state, proof = make_proof(archives, checkpoint, trust)
    risk_folder = folder / "risk"
    risk_folder.mkdir()
    with open_state(archives, state, risk_folder, settings.passphrase) as (index, source):
        bare = ((address, instance._replace(storage=None)) for address, instance in index.instances())
        instances = sorted(bare, key=lambda item: instance_key(item[0]))
        tally = RiskTally(settings, index, source, instances, check_proof(proof, trust))
        for _ in tally.passing(index.contract_data()):
            pass
        return tally.document()
