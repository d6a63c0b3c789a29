"""The publisher's own records in a tree: no reader is given them, but a server serves them all the same.

Each is taken apart by whoever writes it. One that follows from the tree is compared, and one that is in another form
than its writer gives it is named like the file of a stranger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from exporter.audit.unproven import Reason
from exporter.history.series import STATE_KEY, same_states
from exporter.job import lost_prices
from exporter.job.known_markets_file import MEMORY_KEY, is_memory
from exporter.publishing.sweep_record import SUPERSEDED_KEY, is_record
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Intent, SystemStatus
from exporter.tree.families import INTENT_KEY, JOURNAL_KEY

RECORDS: Final = (INTENT_KEY, SUPERSEDED_KEY, STATE_KEY, MEMORY_KEY, lost_prices.KEY, JOURNAL_KEY)
"""All records of a publisher but its hold, which is empty in a folder."""


def judge_records(
    found: Mapping[str, bytes], status: SystemStatus, derived_state: bytes | None, history_key: str, newest_before: int
) -> Iterator[tuple[Reason | None, str]]:
    """What each record that was found is: a statement (None), or unproven for a reason.

    ``derived_state`` is the state of the history as the repeated run left it, ``history_key`` the run's Parquet file,
    ``newest_before`` the newest ledger of the history without it.
    """
    for key, data in found.items():
        match key:
            case _ if key == INTENT_KEY:
                yield from _judge_intent(data, status, history_key, newest_before)
            case _ if key == SUPERSEDED_KEY:
                yield _stated("when runs were superseded", key, data, is_record(data))
            case _ if key == STATE_KEY:
                if derived_state is None or not same_states(data, derived_state):
                    yield Reason.HISTORY, f"{key} (the files of the history give another state)"
            case _ if key == MEMORY_KEY:
                yield _stated("which contracts earlier runs found", key, data, is_memory(data))
            case _ if key == lost_prices.KEY:
                yield _stated("which prices the run missed", key, data, lost_prices.is_lost_prices_file(data))
            case _ if key == JOURNAL_KEY:
                yield Reason.HISTORY, f"{key} (of a backfill that is under way)"


def _stated(what: str, key: str, data: bytes, has_its_form: bool) -> tuple[Reason | None, str]:
    if not has_its_form:
        return Reason.UNLISTED, key
    return None, f"{what} ({key}, SHA-256 {sha256(data).hexdigest()[:12]})"


def _judge_intent(
    data: bytes, status: SystemStatus, history_key: str, newest_before: int
) -> Iterator[tuple[Reason | None, str]]:
    intent = Intent(status.run_id, status.observed_ledger, status.generated_at, history_key, newest_before)
    with suppress(msgspec.DecodeError):
        intent = msgspec.structs.replace(intent, replaced_ledger=decode_json(data, Intent).replaced_ledger)
    if data != msgspec.json.encode(intent):
        yield Reason.EARLIER, f"{INTENT_KEY} (it names another run than the published one)"
    elif intent.replaced_ledger is not None:
        yield None, f"that the run replaced those from ledger {intent.replaced_ledger} on"
