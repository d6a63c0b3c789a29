"""XOXNO's part of the recording: a controller with four pools."""

from __future__ import annotations

from pathlib import Path

from exporter.ledger.codec.entries import decode_contract_data, instance_key, is_instance_key
from tools.recording.parts import RecordedPart, SourcedPart, code_of
from tools.recording.sources import by_decimals, contract_state, recorded_answers

SYMBOLS = {7: ["USDC", "EURC"], 6: ["USDT0"], 18: ["USST"]}
"""The symbols that tokens get, by their decimals."""


def parts(folder: Path) -> list[RecordedPart]:
    """The one deployment, from the folder with the states that the contracts' own code wrote."""
    return [sourced(folder).recorded()]


def sourced(folder: Path) -> SourcedPart:
    """XOXNO's controller with four pools."""
    state, entries, calls = contract_state(folder, "xoxno", "stored", "bulk")
    answers, read = state.answers, state.reading.pools
    tokens = by_decimals(read, SYMBOLS)
    controller, pool, aggregator = (str(answers[name]) for name in ("ctrl", "pool", "agg"))
    roles = {controller: ("market", "XOXNO Lending"), pool: ("pool", ""), aggregator: ("price_aggregator", "")}
    codes = {controller: code_of("xoxno controller"), pool: code_of("xoxno pool")}
    codes[aggregator] = code_of("xoxno price aggregator")
    entries[instance_key(pool)] = state.snapshot.entries[instance_key(pool)]
    oracles = {
        data.contract
        for key, entry in entries.items()
        if is_instance_key(key)
        for data in [decode_contract_data(entry.data)]
        if data.contract not in {*roles, *tokens}
    }
    pools = [(controller, each.pool, each.token_address) for each in read]
    kept = recorded_answers(calls, lambda call: call.contract in {controller, pool})
    snapshot = state.snapshot
    return SourcedPart(
        "xoxno", "xoxno", snapshot.ledger, snapshot.close_time, entries, tokens, roles, oracles, codes, kept, pools
    )
