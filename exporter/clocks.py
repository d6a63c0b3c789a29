"""How far a machine's clock may be from other clocks."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

UNNOTICED_CLOCK_ERROR: Final = timedelta(minutes=5)
"""Difference between two clocks up to which nothing is said. Beyond it, one of the two is called wrong."""

MAX_CLOCK_ERROR: Final = timedelta(hours=1)
"""Difference between a machine's clock and a ledger's close time up to which the machine's times are believed.

Usually the ledger closed minutes ago. If the difference is larger than this, the clock is wrong or the ledger is an old
one. Then the age of a file cannot be known, and a run cannot have been published when it says so.
"""
