"""What a stand-in's view answers, as plain Python values."""

from __future__ import annotations

from typing import Any

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.localnet.contracts import Simulation


def plain(value: ScVal) -> Any:
    """A value as Python has it: structs as dicts, in the ledger's order."""
    kind, payload = value
    if kind == scval.MAP:
        return {name: plain(item) for (_, name), item in payload}
    return [plain(item) for item in payload] if kind == scval.VEC else payload


def result(simulation: Simulation) -> Any:
    """The result of a call that must not fail."""
    assert simulation.error is None
    assert simulation.result is not None
    return plain(decode_scval(simulation.result))
