"""Regular expressions of the dates and times that documents and keys have. They match no date that is impossible.

So a document with 30 February cannot be decoded, and whoever parses a decoded time never fails. Years are 1970 to 9999.
JSON Schema understands the expressions, too.
"""

from __future__ import annotations

from typing import Final

_YEAR: Final = "(?:19[7-9][0-9]|[2-9][0-9]{3})"
_LEAP_YEAR: Final = (
    "(?:19(?:[79][26]|8[048])|[2-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:2[048]|[468][048]|[3579][26])00)"
)

MONTH: Final = f"{_YEAR}-(?:0[1-9]|1[0-2])"

DAY: Final = (
    f"(?:{_YEAR}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    f"|{_LEAP_YEAR}-02-29)"
)

TIME: Final = f"{DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
"""A time in UTC, to the second (RFC 3339)."""
