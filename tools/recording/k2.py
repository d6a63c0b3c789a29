"""K2's part of the recording: four reserves, which have all kinds of tokens."""

from __future__ import annotations

from pathlib import Path

from exporter.ledger.codec.scval_encode import symbol, vec
from tools.recording.parts import RecordedPart, SourcedPart, code_of
from tools.recording.sources import by_decimals, contract_state, recorded_answers, storage_of

SYMBOLS = {7: ["XLM", "USDC"], 6: ["USDT0"], 18: ["USST"]}
"""The symbols that tokens get, by their decimals."""


def parts(folder: Path) -> list[RecordedPart]:
    """The one deployment, from the folder with the states that the contracts' own code wrote."""
    return [sourced(folder).recorded()]


def sourced(folder: Path) -> SourcedPart:
    """K2's four reserves with all kinds of tokens."""
    state, entries, calls = contract_state(folder, "k2", "reserves")
    router = state.answers["router"]
    tokens = by_decimals(state.reading.pools, SYMBOLS)
    oracle = str(dict(storage_of(entries, router))[symbol("ORACLE")][1])
    oracles = {str(dict(storage_of(entries, oracle))[vec(symbol("ReflectorContract"))][1])}
    codes = {router: code_of("k2 router"), oracle: code_of("k2 oracle")}
    roles = {router: ("market", "K2 Lend"), oracle: ("oracle", "")}
    answers = recorded_answers(
        calls, lambda call: call.contract not in tokens and call.contract not in {oracle, *oracles}
    )
    snapshot = state.snapshot
    return SourcedPart(
        "k2", "k2", snapshot.ledger, snapshot.close_time, entries, tokens, roles, oracles, codes, answers
    )
