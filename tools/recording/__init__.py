"""Makes the recording of the package: ``python -m tools.recording [PROTOCOL ...] [--data FOLDER]``.

Each protocol has a module here, whose function ``parts`` makes its entries (`tools.recording.parts`):

- from code alone, as ``alula`` and ``slender`` do, so that everybody who has the repository can make them again;
- or from ledger entries that were read from a chain or that a contract's own code wrote, as the others do. These need a
  folder of data.

`tools.recording.tokens` makes the tokens and their prices. docs/adding-a-protocol.md has the steps.
"""
