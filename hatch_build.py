"""Gives a built package the addresses of the repository that builds it: [project.urls], and the links of its README.

GitHub sets the three variables in the release workflow. Without them, links stay relative and no URLs are stated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def completed(text: str, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the README with absolute links, and the project's URLs."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    server, repository, commit = (environment.get(name, "") for name in names)
    if not (server and repository and commit):
        return text, {}
    home = f"{server}/{repository}"
    text = re.sub(r"!\[([^\]]*)\]\((?!https?:|#)", rf"![\1]({home}/raw/{commit}/", text)
    text = re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)", rf"[\1]({home}/blob/{commit}/", text)
    urls = {
        "Homepage": home,
        "Documentation": f"{home}/tree/main/docs",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
        "Security": f"{home}/security/policy",
    }
    return text, urls


class CustomMetadataHook(MetadataHookInterface):
    """What hatchling calls for the dynamic fields."""

    def update(self, metadata: dict[str, Any]) -> None:
        text, urls = completed((Path(self.root) / "README.md").read_text(encoding="utf-8"), os.environ)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls
