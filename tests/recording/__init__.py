"""Makes the recording of the package from its sources: ``python -m tests.recording [FOLDER]``.

Each part keeps its entries as its source has them, but for what ``recording.md`` names: addresses, the clock, wasm
hashes that the source lacks, tokens and prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from exporter.deployments.networks import derived_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import decode_contract_data, encode_contract_data, is_instance_key
from exporter.ledger.codec.scval import WASM, ScVal
from exporter.ledger.codec.scval_encode import i128, symbol
from exporter.localnet.oracle import ORACLE, RECORDS, RESOLUTION, instance, price_entries
from exporter.localnet.recording import RecordedEntry, Recording, Rewriting
from tests.recording.sources import Part, k2, mainnet, peridot, testnet, xoxno
from tests.recording.written import TOKENS, written

LEDGER, CLOSE_TIME = 65_000_000, 1_794_996_000
LIFE = 2_000_000


def parts(folder: Path) -> list[Part]:
    """All parts, from the folder that has the snapshot of mainnet and the folder ``real``."""
    found = [source(folder) for source in (mainnet, testnet, k2, xoxno, peridot)]
    return [*found, written("slender", CLOSE_TIME), written("alula", CLOSE_TIME)]


def recording(found: Sequence[Part]) -> Recording:
    """The whole recording, of all its parts."""
    entries: dict[bytes, RecordedEntry] = {}
    answers = []
    for part in found:
        later = CLOSE_TIME - part.close_time
        rewriting = Rewriting(partial(address_of, part), later, part.close_time)
        for entry in _own_entries(part):
            written_entry = rewriting.entry(entry)
            entries[written_entry.key] = written_entry
        answers += [rewriting.answer(answer) for answer in part.answers]
    ours = [token.entry() for token in TOKENS.values()]
    stamp = CLOSE_TIME // RESOLUTION * RESOLUTION
    prices = [token.price for token in TOKENS.values()]
    ours.append(instance([token.address for token in TOKENS.values()], stamp))
    for ago in range(RECORDS):
        ours += price_entries(prices, stamp - ago * RESOLUTION)
    for key, data in ours:
        entries[key] = RecordedEntry(key, data, LEDGER - 60, LEDGER + LIFE)
    return Recording(LEDGER, CLOSE_TIME, [entries[key] for key in sorted(entries)], answers)


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
                new, decimals = address_of(part, token), TOKENS[part.tokens[token]].decimals
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
        return TOKENS[part.tokens[old]].address
    if old in part.oracles:
        return ORACLE
    if not old.startswith("C") or part.label in ("slender", "alula"):
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
