"""JSON that others may have written: what the store holds, and what a server sends of a tree.

Everything that a run reads from its store goes through here, so that no bytes there, however made, end it with anything
but an error that names their key.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

_Model = TypeVar("_Model")


def decode_json(data: bytes, model: type[_Model]) -> _Model:
    """Take a value of a model out of JSON.

    Raises:
        msgspec.DecodeError: whatever is wrong: no JSON, no UTF-8, nested too deep, or not of the model.
    """
    try:
        return msgspec.json.decode(data, type=model)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deep") from None
