"""Hides packages of the development environment that httpx imports where they are, and that no installation brings."""

import sys

sys.modules["rich"] = sys.modules["pygments"] = None  # type: ignore[assignment]
