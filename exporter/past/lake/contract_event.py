"""ContractEvent XDR, as a ledger's meta has it."""

from __future__ import annotations

import struct

from exporter.errors import DecodeError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.scval import ScVal, read_value
from exporter.ledger.events import ContractEvent

_MAX_TOPICS = 16


def decode_event(data: bytes, ledger: int) -> ContractEvent:
    """The event that the bytes are. Raises `DecodeError`, also for one that no contract published."""
    try:
        (there,) = struct.unpack_from(">I", data, 4)
        if there != 1:
            raise DecodeError("an event without a contract")
        (count,) = struct.unpack_from(">I", data, 48)
        if count > _MAX_TOPICS:
            raise DecodeError(f"an event with {count} topics")
        topics: list[ScVal] = []
        position = 52
        for _ in range(count):
            topic, position = read_value(data, position)
            topics.append(topic)
        value, position = read_value(data, position)
    except struct.error:
        raise DecodeError("the bytes end inside an event") from None
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes follow an event")
    return ContractEvent(strkey.encode_contract(data[8:40]), ledger, tuple(topics), value)
