"""Peridot's part of the recording: a controller with four vaults, before anybody borrowed."""

from __future__ import annotations

from pathlib import Path

from exporter.ledger.codec.entries import variant_key
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import RawEntry
from tests.protocols.made_ledger import balance_at
from tools.recording.parts import RecordedPart, SourcedPart, code_of
from tools.recording.sources import contract_state, recorded_answers

VAULT_CODE = "5f35bc16b3262feb27fb77080fc007d3461a536bd62afd3b5580688ab4b004e1"
SYMBOLS = ("XLM", "USDC", "EURC", "wETH")


def parts(folder: Path) -> list[RecordedPart]:
    """The one deployment, from the folder with the states that the contracts' own code wrote."""
    return [sourced(folder).recorded()]


def sourced(folder: Path) -> SourcedPart:
    """Peridot's controller with four vaults, before anybody borrowed."""
    state, entries, calls = contract_state(folder, "peridot", "stored")
    pools, controller = state.reading.pools, str(state.answers["comp"])
    vaults = [pool.pool for pool in pools]
    tokens = dict(zip((pool.token_address for pool in pools), SYMBOLS, strict=True))
    roles = {controller: ("market", "controller")}
    roles |= {vault: ("vault", name) for vault, name in zip(vaults, tokens.values(), strict=True)}
    codes = {vault: bytes.fromhex(VAULT_CODE) for vault in vaults}
    codes[controller] = code_of("peridot controller")
    boosted = {vault for vault in vaults if entries.pop(variant_key(vault, "BoostedVault"), None) is not None}
    own = roles.keys() - boosted  # what a boost is worth could not be known when time passes
    kept = recorded_answers(calls, lambda call: call.contract in own and call.function != "get_price_usd")
    for vault, token in zip(vaults, tokens, strict=True):  # a vault that nobody used has no balance yet
        key = variant_key(token, "Balance", address(vault))
        entries.setdefault(key, RawEntry(balance_at(token, vault, 0)[1], state.snapshot.ledger, None))
    snapshot = state.snapshot
    oracles = {str(state.answers["oracle"])}
    return SourcedPart(
        "peridot", "peridot", snapshot.ledger, snapshot.close_time, entries, tokens, roles, oracles, codes, kept
    )
