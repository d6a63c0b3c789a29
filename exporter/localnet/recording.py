"""A recording of lending markets: the entries at one ledger, and what contracts answered at it (``recording.md``)."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import ContractData, data_key, decode_contract_data, encode_contract_data
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.source import ContractCall

FOLDER: Final = "recorded"
"""The folder of the package with the files of the recording: one of each protocol, and that of the tokens."""

TOKENS_FILE: Final = "tokens"
"""The name of the file with the tokens and the oracle's prices."""

NOT_TIMES: Final = frozenset({"eps"})
"""Names of 64-bit fields that look like times, but are none."""

_MAX_TIME_DISTANCE_SECONDS = 12 * 366 * 86_400
"""Largest distance from the recorded close time for a number that counts as a time."""
_CONTRACT_TEXT = re.compile(rb"C[A-Z2-7]{55}")


class RecordedEntry(msgspec.Struct, array_like=True, frozen=True):
    """An entry with its LedgerKey, the ledger of its last change, and the last ledger of its life."""

    key: bytes
    data: bytes
    last_modified: int
    live_until: int | None


class RecordedAnswer(msgspec.Struct, array_like=True, frozen=True):
    """A recorded answer to a call: ``arguments`` and ``result`` are XDR, ``error`` is the host's text."""

    contract: str
    function: str
    arguments: list[bytes]
    result: bytes | None
    error: str | None = None


class Recording(msgspec.Struct, frozen=True):
    """The state after a ledger, its close time in unix seconds, and answers of contracts at exactly that ledger."""

    ledger: int
    close_time: int
    entries: list[RecordedEntry]
    answers: list[RecordedAnswer]

    def packed(self) -> bytes:
        return lzma.compress(msgspec.msgpack.encode(self), preset=9 | lzma.PRESET_EXTREME)


@cache
def shipped() -> Recording:
    """The packaged recording, of all its files."""
    folder = files("exporter.localnet").joinpath(FOLDER)
    contents = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(".bin")}
    recordings = [msgspec.msgpack.decode(lzma.decompress(contents[name]), type=Recording) for name in sorted(contents)]
    entries = {entry.key: entry for recording in recordings for entry in recording.entries}
    answers = [answer for recording in recordings for answer in recording.answers]
    ledger, close_time = recordings[0].ledger, recordings[0].close_time
    return Recording(ledger, close_time, [entries[key] for key in sorted(entries)], answers)


class AnswerKey(NamedTuple):
    """What identifies a recorded answer: the contract, the function, and the arguments as XDR, those of maps sorted."""

    contract: str
    function: str
    arguments: tuple[bytes, ...]


def answer_key(call: ContractCall) -> AnswerKey:
    """What identifies a call. The tokens that ``quotes`` is asked for may be in any order, because it returns a map."""
    arguments = call.arguments
    if call.function == "quotes":
        arguments = tuple((kind, tuple(sorted(keys, key=repr))) for kind, keys in arguments)
    return AnswerKey(call.contract, call.function, tuple(map(encode_scval, arguments)))


class Rewriting(Struct, frozen=True):
    """Rewrites values: with other addresses, and with times that are ``seconds`` later.

    A number counts as a time if it is near ``now``, in unix seconds or milliseconds.
    """

    address: Callable[[str], str]
    seconds: int
    now: int

    def entry(self, entry: RecordedEntry) -> RecordedEntry:
        if entry.key[:4] != b"\0\0\0\x06":
            return entry
        old = decode_contract_data(entry.data)
        new = ContractData(self.address(old.contract), self.value(old.key), old.durability, self.value(old.value))
        key = data_key(new.contract, new.key, new.durability)
        return RecordedEntry(key, encode_contract_data(new), entry.last_modified, entry.live_until)

    def answer(self, answer: RecordedAnswer) -> RecordedAnswer:
        return RecordedAnswer(
            self.address(answer.contract),
            answer.function,
            [encode_scval(self.value(scval.decode_scval(each))) for each in answer.arguments],
            None if answer.result is None else encode_scval(self.value(scval.decode_scval(answer.result))),
            answer.error,
        )

    def value(self, value: ScVal, name: str = "") -> ScVal:
        kind, content = value
        if content is None:
            return value
        if kind == scval.ADDRESS:
            return (kind, self.address(content))
        if kind == scval.STRING:
            return (kind, _CONTRACT_TEXT.sub(self._text, content))
        if kind in (scval.U64, scval.TIMEPOINT):
            return (kind, content if name in NOT_TIMES else self._time(content))
        if kind == scval.VEC:
            return (kind, tuple(map(self.value, content)))
        if kind == scval.MAP:
            return (kind, self._pairs(content))
        if kind == scval.CONTRACT_INSTANCE:
            storage = None if content.storage is None else self._pairs(content.storage)
            return (kind, ContractInstance(content.executable, content.wasm_hash, content.external, storage))
        return value

    def _pairs(self, pairs: tuple[tuple[ScVal, ScVal], ...]) -> tuple[tuple[ScVal, ScVal], ...]:
        written = [(self.value(key), self.value(item, str(key[1]))) for key, item in pairs]
        if all(key[0] == scval.ADDRESS for key, _ in written):
            written.sort(key=lambda pair: encode_scval(pair[0]))
        return tuple(written)

    def _text(self, match: re.Match[bytes]) -> bytes:
        text = match[0].decode()
        return self.address(text).encode() if strkey.is_contract(text) else match[0]

    def _time(self, number: int) -> int:
        for unit in (1, 1_000):
            if abs(number - self.now * unit) < _MAX_TIME_DISTANCE_SECONDS * unit:
                return number + self.seconds * unit
        return number
