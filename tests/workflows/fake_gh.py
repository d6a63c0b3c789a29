"""A GitHub CLI that keeps its issues in a file: what scripts/alarm calls, and an error for everything else."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

_SOURCE = """#!{python} -IS
import json, os, sys
assert os.environ["GH_TOKEN"] and os.environ["GH_REPO"]
path = {state!r}
with open(path) as file:
    state = json.load(file)
state["calls"].append(sys.argv[1:])
words, options, rest = [], {{}}, sys.argv[1:]
while rest:
    word = rest.pop(0)
    if word == "--force":
        options[word] = True
    elif word.startswith("--"):
        options[word] = rest.pop(0)
    else:
        words.append(word)
def issue(): # the one that a command names
    return state["issues"][int(words[2]) - 1]
command = " ".join(words[:2])
if command == "issue list":
    assert set(options) == {{"--label", "--state", "--limit", "--json", "--jq"}} and options["--jq"] == ".[].number"
    assert (options["--state"], options["--json"]) == ("open", "number")
    found = [each for each in state["issues"] if each["open"] and options["--label"] in each["labels"]]
    for each in found[::-1][: int(options["--limit"])]:
        print(each["number"])
elif command == "issue view":
    assert options == {{"--json": "title", "--jq": ".title"}}
    print(issue()["title"])
elif command == "label create":
    assert len(options["--description"]) <= 100 and options["--force"]
    state["labels"][words[2]] = options["--description"]
elif command == "label list":
    assert set(options) == {{"--search", "--limit", "--json", "--jq"}} and options["--json"] == "name,description"
    assert options["--jq"] == ".[] | [.name, .description] | @tsv"
    for name, description in state["labels"].items():
        if options["--search"] in name:
            print(name, description, sep="\t")
elif command == "issue create":
    assert set(options) == {{"--title", "--body", "--label"}} and options["--label"] in state["labels"]
    state["issues"].append(dict(number=len(state["issues"]) + 1, title=options["--title"], body=options["--body"],
                                labels=[options["--label"]], comments=[], open=True))
elif command == "issue edit":
    assert set(options) <= {{"--title", "--body"}}
    issue().update({{key[2:]: value for key, value in options.items()}})
elif command == "issue comment":
    issue()["comments"].append(options["--body"])
elif command == "issue close":
    issue()["comments"].append(options["--comment"])
    issue()["open"] = False
elif words[0] == "api":
    assert options == {{"--method": "PUT"}} and words[1].endswith(".yml/enable")
else:
    sys.exit(f"unknown command {{command}}")
with open(path, "w") as file:
    json.dump(state, file)
"""


class FakeGitHub:
    """Issues of one repository. ``folder`` belongs on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._state = folder / "state.json"
        self.forget()
        command = folder / "gh"
        command.write_text(_SOURCE.format(python=sys.executable, state=str(self._state)))
        command.chmod(command.stat().st_mode | stat.S_IXUSR)

    def forget(self) -> None:
        """Begin again without issues and labels."""
        self._state.write_text(json.dumps({"issues": [], "labels": {}, "calls": []}))

    @property
    def issues(self) -> list[dict[str, Any]]:
        issues: list[dict[str, Any]] = json.loads(self._state.read_text())["issues"]
        return issues

    @property
    def open(self) -> list[dict[str, Any]]:
        return [issue for issue in self.issues if issue["open"]]

    @property
    def calls(self) -> list[list[str]]:
        calls: list[list[str]] = json.loads(self._state.read_text())["calls"]
        return calls
