"""Makes the recording of the package: ``python -m tools.recording [PROTOCOL ...] [--data FOLDER]``.

Each protocol has a module here with one of two functions, which gives its parts (`tools.recording.parts`):

- ``made()`` makes the entries from code alone, as that of ``alula`` and ``slender``. Everybody who has the repository
  can make them again.
- ``parts(folder)`` takes ledger entries that were read from a chain, or that a contract's own code wrote, from a folder
  of data.

`tools.recording.tokens` makes the tokens and their prices. docs/adding-a-protocol.md has the steps.
"""
