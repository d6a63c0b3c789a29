"""What a run's evidence says that is no entry of the ledger and follows from none.

Verifying names it as not proven.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import network_of
from exporter.errors import RefutedError
from exporter.job.evidence import Evidence
from exporter.job.reading import read_again
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint_proof import unlisted_notice, unlisted_validators
from exporter.past.archive.stellar_proof import Trust
from exporter.tree.values import SkipReason


def unproven_notices(evidence: Evidence, archives: Archives, trust: Trust) -> Iterator[str]:
    """The notices of the run that do not follow from the archives.

    A run from an archive has a notice of how many validators its list of trust lacks. It follows if these archives show
    at least as many that the same list lacks. The numbers can differ, because each archive has what its own node saw.
    """
    if evidence.notices:
        seen = unlisted_validators(archives, evidence.ledger, trust)
        shown = {unlisted_notice(count, trust.date) for count in range(1, seen + 1)}
        yield from (f"notice: {notice}" for notice in evidence.notices if notice not in shown)


def unproven_evidence(evidence: Evidence) -> Iterator[str]:
    """The parts of the evidence, except its notices, that are no entry and follow from none.

    Raises `RefutedError` for a part that contradicts the others.
    """
    network = network_of(evidence.passphrase)
    if evidence.contracts:
        read_contracts = {
            (reading.protocol, label, role, address)
            for reading in read_again(evidence)[0].protocols
            for (label, role), address in reading.contracts.items()
        }
        for item in evidence.contracts:
            if (item.protocol, item.label, item.role, item.address) not in read_contracts:
                yield f"contract: {item.role} {item.address} of {item.protocol} {item.label} follows from no entry"
    if not evidence.has_all_contracts:
        yield "looked: the run read a part of the ledger's contracts"
    yield from _unproven_skips(evidence, evidence.listings(network.deployments))
    if evidence.lists_compared != bool(network.deployments):
        denied = "" if evidence.lists_compared else "not "
        yield f"looked: the run says that it did {denied}compare the lists of known contracts"
    if not evidence.lists_compared:
        return
    tried = {(candidate.protocol, candidate.address) for candidate in evidence.candidates}
    for deployment in network.deployments:
        for address in deployment.markets:
            if (deployment.protocol, address) not in tried:
                yield f"candidate: {address} of {deployment.protocol}, a known market, was not looked for"


def _unproven_skips(evidence: Evidence, listings: MarketListings) -> Iterator[str]:
    """The listed markets that the operator excludes.

    A run always reads what is listed, whatever its budget, and excludes only what its configuration names. Raises
    `RefutedError` for any other listed market that was skipped.
    """
    for skipped in evidence.skipped:
        what = f"{skipped.market} of {skipped.protocol}"
        excluded = skipped.market in evidence.excluded
        if (skipped.reason is SkipReason.EXCLUDED) is not excluded:
            listing = "names it" if excluded else "does not name it"
            raise RefutedError(
                f"the evidence says that {what} was skipped ({skipped.reason}), and its list of what is excluded "
                f"{listing}"
            )
        if listings.is_listed(skipped.protocol, skipped.market):
            if not excluded:
                raise RefutedError(
                    f"the evidence says that {what} was skipped ({skipped.reason}), and a run reads every listed market"
                )
            yield f"skipped: {what}, a listed market, was not read ({skipped.reason})"
