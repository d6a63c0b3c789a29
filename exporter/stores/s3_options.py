"""Bounds on the requests of an S3 store: how long, how often, how many at once, and how long a hold lasts."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.errors import ConfigError


@dataclass(frozen=True, slots=True)
class S3Options:
    """Bounds; the defaults suit AWS S3, Cloudflare R2 and Ceph RADOS Gateway.

    Attributes:
        concurrency: bulk writes under way at once.
        in_flight_bytes: bytes of bulk writes that wait or are under way, together.
        connect_seconds: the longest a connection may take.
        read_seconds: the longest the server may be silent.
        tries: attempts for one request.
        pause_seconds: the pause after the first attempt; each further one is twice as long.
        longest_pause_seconds: the longest pause between two attempts.
        deadline_seconds: no further attempt begins so long after the first one.
        lease_seconds: how long a publisher that died keeps others out.
        use_obstore: send the bulk of the writes by obstore where it is installed; False: by boto3.
    """

    concurrency: int = 32
    in_flight_bytes: int = 64 * 1024 * 1024
    connect_seconds: float = 10.0
    read_seconds: float = 30.0
    tries: int = 6
    pause_seconds: float = 0.25
    longest_pause_seconds: float = 4.0
    deadline_seconds: float = 120.0
    lease_seconds: float = 300.0
    use_obstore: bool = True

    def __post_init__(self) -> None:
        """Check that the bounds fit together."""
        if self.concurrency < 1 or self.tries < 1:
            raise ConfigError("concurrency and tries must be at least 1")
        if not 2 * self.margin_seconds < self.lease_seconds <= MAX_LEASE_SECONDS:
            raise ConfigError(
                f"lease_seconds must be more than {2 * self.margin_seconds:g} (twice what a request may take) and at "
                f"most {MAX_LEASE_SECONDS}"
            )

    @property
    def margin_seconds(self) -> float:
        """So long before its hold ends a publisher begins no request that changes anything: more than one takes."""
        return 1.1 * (self.connect_seconds + self.read_seconds)


MAX_LEASE_SECONDS = 3600
"""A lease that claims to last longer is not believed."""
