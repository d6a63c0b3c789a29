"""Runs a workflow of a repository with `act` on this machine, without a container and without a network.

`act` reads workflow and action as GitHub does: `if`, `continue-on-error`, outputs, environments, posts. The actions of
others that a workflow names are not fetched. Each has a stand-in that notes its inputs, and keeps what it is given to
upload; it can be told to fail.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.workflows.scripts import SYSTEM_PATH

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "act" / "act"
REPOSITORY = "operator/markets"

_STAND_IN = """
inputs=$(tr '\\n' ' ' <<<"$INPUTS")
printf '{"job": "%s", "action": "%s", "inputs": %s}\\n' "$GITHUB_JOB" "$ACTION" "$inputs" >>"$NOTES"
case $ACTION in *upload*)
  rm -rf "$KEPT/$KEEP"
  mkdir -p "$(dirname "$KEPT/$KEEP")"
  [ ! -e "$KEEP" ] || cp -a "$KEEP" "$KEPT/$KEEP"
esac
"""


@dataclass(slots=True)
class JobRun:
    """How a job ended: ``success``, ``failure`` or ``skipped``; ``actions`` are those of others, in order."""

    result: str = "skipped"
    printed: str = ""
    summary: str = ""
    actions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def used(self, action: str) -> list[dict[str, Any]]:
        """The inputs of each use of an action."""
        return [inputs for name, inputs in self.actions if name == action]


@dataclass(frozen=True, slots=True)
class Act:
    """A machine that runs the workflows of a checkout.

    Attributes:
        checkout: the repository; each job gets a copy of it.
        scratch: a folder of this machine's own. Under ``kept`` in it is what was uploaded, by its path.
        path: folders that come first on the PATH.
        environment: what the machine gives to every step, next to PATH and HOME.
        secrets: the repository's secrets.
        actions: for an action's name without its version, the shell lines that its stand-in also runs.
        repositories: for actions that run as they are, the folder of each by its name and version.
    """

    checkout: Path
    scratch: Path
    path: tuple[Path, ...]
    environment: Mapping[str, str]
    secrets: Mapping[str, str]
    actions: Mapping[str, str]
    repositories: Mapping[str, Path]

    @property
    def kept(self) -> Path:
        return self.scratch / "kept"

    def run(self, name: str) -> dict[str, JobRun]:
        """Run a workflow; gives its jobs by their id."""
        workflow = msgspec.yaml.decode((self.checkout / ".github" / "workflows" / f"{name}.yml").read_bytes())
        notes = self.scratch / "notes"
        notes.write_text("")
        options = {
            "--secret": {"GITHUB_TOKEN": "a-token", **self.secrets},
            "--env": {
                **self.environment,
                # GitHub sets it, and act does not.
                "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/{name}.yml@refs/heads/main",
                "NOTES": str(notes),
                "KEPT": str(self.kept),
            },
            "--local-repository": {
                **{uses: str(folder) for uses, folder in self.repositories.items()},
                **self._stand_ins(steps_of(workflow, self.repositories)),
            },
        }
        pairs = [(option, f"{name}={value}") for option, values in options.items() for name, value in values.items()]
        ran = subprocess.run(
            [
                *(PROGRAM, "schedule", "--directory", self.checkout, "--workflows", f".github/workflows/{name}.yml"),
                *("--platform", "ubuntu-24.04=-self-hosted", "--no-cache-server", "--insecure-secrets", "--json"),
                *(part for pair in pairs for part in pair),
            ],
            env={
                "PATH": ":".join((*map(str, self.path), SYSTEM_PATH)),
                "HOME": str(self.scratch),
                "XDG_CACHE_HOME": str(self.scratch / "cache"),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        jobs = {job: JobRun() for job in workflow["jobs"]}
        for line in (ran.stdout + ran.stderr).splitlines():
            said = json.loads(line) if line.startswith("{") else {}
            if (job := jobs.get(said.get("jobID", ""))) is None:
                continue
            job.result = said.get("jobResult", job.result)
            if said.get("raw_output"):
                job.printed += said["msg"]
            elif said.get("command") == "summary":
                job.summary += said["content"]
        for line in notes.read_text().splitlines():
            note = json.loads(line)
            inputs = {key: value for key, value in note["inputs"].items() if value}
            jobs[note["job"]].actions.append((note["action"], inputs))
        assert ran.returncode == 0 or "failure" in {job.result for job in jobs.values()}, ran.stderr[-4_000:]
        return jobs

    def _stand_ins(self, steps: Collection[Mapping[str, Any]]) -> dict[str, str]:
        """The folder of a stand-in for each action; each is a git repository, as act wants it."""
        inputs = {key: {"description": key} for step in steps for key in step.get("with", {})}
        folders = {}
        for step in steps:
            action = step["uses"].partition("@")[0]
            folders[step["uses"]] = str(folder := self.scratch / "actions" / action)
            own = {
                "shell": "bash",
                "env": {"ACTION": action, "INPUTS": "${{ toJSON(inputs) }}", "KEEP": "${{ inputs.path }}"},
                "run": _STAND_IN + self.actions.get(action, ""),
            }
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            described = {"name": action, "description": "A stand-in", "inputs": inputs}
            (folder / "action.yml").write_text(
                json.dumps({**described, "runs": {"using": "composite", "steps": [own]}})
            )
            commit_all(folder)
        return folders


def steps_of(workflow: Mapping[str, Any], repositories: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The steps of a workflow, and of the actions that run as they are, which use actions of others."""
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    for folder in repositories.values():
        steps += msgspec.yaml.decode((folder / "action.yml").read_bytes())["runs"]["steps"]
    return [step for step in steps if "uses" in step and step["uses"] not in repositories]


def git(folder: Path, *arguments: str) -> str:
    """Call git in a folder; gives what it printed."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "gc.auto=0")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def commit_all(folder: Path, *, remote: str | None = None) -> None:
    """Make a folder a git repository that holds all of it."""
    git(folder, "init", "--quiet", "--initial-branch", "main")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All")


def copy_repository(root: Path, target: Path) -> Path:
    """Copy the repository as a checkout of its present state would be."""
    names = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    commit_all(target)
    return target
