"""The parameters that are shown beside a pool."""

from __future__ import annotations

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import symbol
from exporter.protocols.parameters import Parameter, parameters_of


def test_numbers_are_shown_and_the_rest_is_left_out() -> None:
    """Numbers and yes or no are taken in the given order with their scale; what is missing or no number is left out.

    The largest number of a kind is told to be no limit.
    """
    fields = Fields(
        (
            (symbol("cap"), (scval.I128, 10**30)),
            (symbol("enabled"), (scval.BOOL, True)),
            (symbol("name"), symbol("pool")),
            (symbol("util"), (scval.U32, 8_000_000)),
            (symbol("since"), (scval.U64, 2**63)),
            (symbol("positions"), (scval.U32, 2**32 - 1)),
            (symbol("most"), (scval.I128, 2**127 - 1)),
        ),
        "ResConfig",
    )
    scales = {"util": 7, "enabled": 0, "gone": 7, "name": 0, "cap": 18, "since": 0, "positions": 0, "most": 7}

    assert [
        Parameter("util", 8_000_000, 7),
        Parameter("enabled", 1, 0),
        Parameter("cap", 10**30, 18),
        Parameter("since", 2**63, 0),
        Parameter("positions", 2**32 - 1, 0, no_limit=True),
        Parameter("most", 2**127 - 1, 7, no_limit=True),
    ] == list(parameters_of(fields, scales))
