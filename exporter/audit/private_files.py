"""Judges the private files of a tree, which the publisher keeps for itself.

Nothing leads readers to them, but a web server serves them. A private file that follows from the tree is compared with
it. One that is not in the form in which the publisher writes it is named like somebody else's file. Any other one is a
statement of the publisher.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from exporter.audit.unproven import UnprovenReason
from exporter.history.series import OLDER_KEY, STATE_KEY, same_states
from exporter.job import lost_prices
from exporter.job.known_markets_file import MEMORY_KEY, is_memory
from exporter.publishing.sweep_state import SWEEP_STATE_KEY, is_sweep_state
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Intent, SystemStatus
from exporter.tree.families import INTENT_KEY, JOURNAL_KEY
from exporter.tree.same_values import same_values

PRIVATE_KEYS: Final = (INTENT_KEY, SWEEP_STATE_KEY, STATE_KEY, OLDER_KEY, MEMORY_KEY, lost_prices.KEY, JOURNAL_KEY)
"""The keys of all private files, except the lock or lease."""


def judge_private_files(
    files: Mapping[str, bytes],
    status: SystemStatus,
    derived_state: bytes | None,
    derived_older: bytes | None,
    history_key: str,
    newest_before: int,
) -> Iterator[tuple[UnprovenReason | None, str]]:
    """Judge each private file, and yield a text with the reason why it is unproven; None for a statement.

    Args:
        files: the private files of the tree, by key.
        status: the status document of the published run.
        derived_state: the state of the histories as the repeated run left it; None if no run was repeated.
        derived_older: the older days that belong to it; None if there are none.
        history_key: the key of the run's Parquet file.
        newest_before: the newest ledger of the history before the run.
    """
    for key, data in files.items():
        match key:
            case _ if key == INTENT_KEY:
                yield from _judge_intent(data, status, history_key, newest_before)
            case _ if key == SWEEP_STATE_KEY:
                yield _stated("when runs were superseded", key, data, is_sweep_state(data))
            case _ if key == STATE_KEY:
                if derived_state is None or not same_states(data, derived_state):
                    yield UnprovenReason.HISTORY, f"{key} (the files of the history give another state)"
            case _ if key == OLDER_KEY:
                if derived_older is None or not same_values(".parquet", data, derived_older):
                    yield UnprovenReason.HISTORY, f"{key} (the files of the history give other days)"
            case _ if key == MEMORY_KEY:
                yield _stated("which contracts earlier runs found", key, data, is_memory(data))
            case _ if key == lost_prices.KEY:
                yield _stated("which prices the run missed", key, data, lost_prices.is_lost_prices_file(data))
            case _ if key == JOURNAL_KEY:
                yield UnprovenReason.HISTORY, f"{key} (of a backfill that is under way)"


def _stated(what: str, key: str, data: bytes, has_its_form: bool) -> tuple[UnprovenReason | None, str]:
    """The statement that a private file makes; if it does not have its form, the file as one that no run lists."""
    if not has_its_form:
        return UnprovenReason.UNLISTED, key
    return None, f"{what} ({key}, SHA-256 {sha256(data).hexdigest()[:12]})"


def _judge_intent(
    data: bytes, status: SystemStatus, history_key: str, newest_before: int
) -> Iterator[tuple[UnprovenReason | None, str]]:
    intent = Intent(status.run_id, status.observed_ledger, status.generated_at, history_key, newest_before)
    with suppress(msgspec.DecodeError):
        intent = msgspec.structs.replace(intent, replaced_ledger=decode_json(data, Intent).replaced_ledger)
    if data != msgspec.json.encode(intent):
        yield UnprovenReason.EARLIER, f"{INTENT_KEY} (it names another run than the published one)"
    elif intent.replaced_ledger is not None:
        yield None, f"that the run undid those from ledger {intent.replaced_ledger} on"
