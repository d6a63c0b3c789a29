"""Makes the recording of the package from its sources: ``python -m tests.recording [FOLDER]``.

Each part keeps its entries as its source has them, but for what ``recording.md`` names: addresses, the clock, wasm
hashes that the source lacks, tokens and prices. What no source has, it takes from the recording that the package has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from exporter.deployments.networks import RECORDED_PASSPHRASE, derived_address, native_asset
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import decode_contract_data, encode_contract_data, is_instance_key
from exporter.ledger.codec.scval import WASM, ScVal
from exporter.ledger.codec.scval_encode import i128, symbol
from exporter.localnet.oracle import ORACLE
from exporter.localnet.recording import RecordedEntry, Recording, Rewriting, shipped
from tests.recording.sources import Part, k2, mainnet, peridot, testnet, xoxno

LEDGER, CLOSE_TIME = 65_000_000, 1_794_996_000
LIFE = 2_000_000

DECIMALS = {"USDT0": 6, "USST": 18}
"""Of tokens that do not have 7."""

OURS = [derived_address(f"recorded network {name}") for name in ("slender pool", "alula market", "alula manager")]
"""The contracts of the pools that no source has."""


def parts(folder: Path) -> list[Part]:
    """The parts that have a source, from the folder that has the snapshot of mainnet and the folder ``real``."""
    return [source(folder) for source in (mainnet, testnet, k2, xoxno, peridot)]


def recording(found: Sequence[Part]) -> Recording:
    """The whole recording, of all parts and of what is ours."""
    entries: dict[bytes, RecordedEntry] = {}
    answers = []
    for part in found:
        later = CLOSE_TIME - part.close_time
        rewriting = Rewriting(partial(address_of, part), later, part.close_time)
        for entry in _own_entries(part):
            written_entry = rewriting.entry(entry)
            entries[written_entry.key] = written_entry
        answers += [rewriting.answer(answer) for answer in part.answers]
    sourced = {strkey.decode(token_address(symbol))[1] for part in found for symbol in part.tokens.values()}
    ours = [strkey.decode(address)[1] for address in (*OURS, ORACLE)]
    for entry in shipped().entries:
        if any(name in entry.key for name in ours) or (entry.key[8:40] in sourced and is_instance_key(entry.key)):
            entries[entry.key] = entry
    return Recording(LEDGER, CLOSE_TIME, [entries[key] for key in sorted(entries)], answers)


def token_address(symbol: str) -> str:
    """Where a token is in the recording."""
    return native_asset(RECORDED_PASSPHRASE) if symbol == "XLM" else derived_address(f"recorded network token {symbol}")


def lists(found: Sequence[Part]) -> dict[str, str]:
    """By protocol: what is deployed in the recording, as `exporter.deployments` has it for every network."""
    texts = dict.fromkeys(sorted(part.protocol for part in found), "")
    for protocol in texts:
        lines = [f"# {protocol} in the recording of the package, written by python -m tests.recording."]
        lines.append(f'protocol = "{protocol}"')
        for part in found:
            if part.protocol != protocol:
                continue
            lines += ["", "[[deployment]]", f'label = "{part.label}"', 'source = "exporter.localnet"']
            lines += ["date = 2026-11-24", "contracts = ["]
            for old, (role, name) in part.roles.items():
                label = f', name = "{name}"' if name else ""
                code = f', wasm_hash = "{part.codes[old].hex()}"' if old in part.codes else ""
                lines.append(f'    {{ role = "{role}", address = "{address_of(part, old)}"{label}{code} }},')
            lines.append("]")
            if part.pools:
                lines.append("pools = [")
            for market, pool, token in part.pools:
                new, decimals = address_of(part, token), DECIMALS.get(part.tokens[token], 7)
                lines.append(
                    f'    {{ market = "{address_of(part, market)}", pool = "{pool.replace(token, new)}", '
                    f'token = "{new}", decimals = {decimals} }},'
                )
            lines += ["]"] if part.pools else []
        texts[protocol] = "\n".join([*lines, ""])
    return texts


def address_of(part: Part, old: str) -> str:
    """Where a contract of a part is in the recording."""
    if old in part.tokens:
        return token_address(part.tokens[old])
    if old in part.oracles:
        return ORACLE
    if not old.startswith("C"):
        return old
    return derived_address(f"recorded network {part.label} {old}")


def _own_entries(part: Part) -> Iterator[RecordedEntry]:
    """A part's entries, but for the instances of tokens and oracles; of tokens only balances are kept."""
    for key, entry in part.entries.items():
        data = decode_contract_data(entry.data)
        if data.contract in part.oracles or (data.contract in part.tokens and is_instance_key(key)):
            continue
        value = data.value
        if is_instance_key(key) and data.contract in part.codes:
            value = (scval.CONTRACT_INSTANCE, value[1]._replace(executable=WASM, wasm_hash=part.codes[data.contract]))
        value = _with_bounds(value)
        modified = max(LEDGER - (part.ledger - entry.last_modified), LEDGER - 500_000)
        yield RecordedEntry(key, encode_contract_data(data._replace(value=value)), modified, LEDGER + LIFE)


def _with_bounds(value: ScVal) -> ScVal:
    """XOXNO's bounds of a price, which its states have within a percent, around the prices that are ours."""
    if value[0] != scval.MAP or value[1] is None or symbol("max_sanity_price_wad") not in dict(value[1]):
        return value
    bounds = {"max_sanity_price_wad": i128(10**24), "min_sanity_price_wad": i128(10**14)}
    return (scval.MAP, tuple((key, bounds.get(str(key[1]), item)) for key, item in value[1]))
