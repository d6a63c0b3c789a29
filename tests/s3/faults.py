"""What can happen to a call of a bucket: refused, reset, never answered, half answered, held up."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Answer:
    """The call has no effect and is answered with this status; with ``writes``, only if it would change something."""

    status: int
    code: str = ""
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset, before or after the call took effect."""

    after: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """The call is not answered before the client gives up; it takes effect at once or never."""

    after: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """The call takes effect, and its answer breaks off in the middle."""


@dataclass(frozen=True, slots=True)
class Stall:
    """The call waits for an event (or the longest hang), then goes on as if nothing had been; ``reached`` is set."""

    until: threading.Event
    reached: threading.Event = field(default_factory=threading.Event)


Fault = Answer | Reset | Hang | Cut | Stall

PASSING: dict[str, Fault] = {
    "refused with 503": Answer(503),
    "refused with 500": Answer(500),
    "refused with 409": Answer(409, "ConditionalRequestConflict", writes=True),
    "reset": Reset(),
    "answer lost": Reset(after=True),
    "answer cut off": Cut(),
    "no answer": Hang(),
    "no answer, done": Hang(after=True),
}
"""What a publisher does not notice where it happens once."""
