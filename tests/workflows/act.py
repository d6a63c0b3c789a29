"""Runs whole workflows with `act` on this machine, without a container and without a network.

Actions of others are not fetched: each has a stand-in that notes its inputs and keeps the files that it was given.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
ACTION = ROOT / "action.yml"
PROGRAM = ROOT / "build" / "act" / "act"

PYTHON_VERSION = "3.13"

_STAND_IN = """
printf '{"job": "%s", "action": "%s", "inputs": %s}\\n' "$GITHUB_JOB" "$ACTION" "$(tr '\\n' ' ' <<<"$INPUTS")" \\
  >>"$NOTES"
case $ACTION in *upload*)
  rm -rf "$KEPT/$NAME/$KEEP"
  mkdir -p "$(dirname "$KEPT/$NAME/$KEEP")"
  [ ! -e "$KEEP" ] || cp -a "$KEEP" "$KEPT/$NAME/$KEEP"
esac
"""


def load(name: str, folder: Path = WORKFLOWS) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.yaml.decode((folder / f"{name}.yml").read_bytes())
    return content


def clean_path(*first: Path) -> str:
    """A PATH of the system's own folders, after those given."""
    return os.pathsep.join((*map(str, first), "/usr/local/bin", "/usr/bin", "/bin"))


@dataclass(slots=True)
class JobRun:
    """How a job ended: ``success``, ``failure`` or ``skipped``; ``actions`` with their inputs in order."""

    result: str = "skipped"
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    printed: str = ""
    actions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass(slots=True)
class Act:
    """A machine that runs the workflows of a checkout.

    Attributes:
        checkout: the repository; each job gets a copy of it.
        scratch: a folder of this machine's own. What an action was given to keep is under ``kept`` in it.
        path: folders that come first on the PATH.
        environment: what the machine gives to every step, next to PATH and HOME.
        actions: for an action's name without its version, the shell lines that its stand-in also runs.
        workflows: the folder that holds the workflows to run.
        repositories: for actions that run as they are, the folder of each by its name and version.
    """

    checkout: Path
    scratch: Path
    path: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    actions: Mapping[str, str] = field(default_factory=dict)
    vars: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    event: str = "schedule"
    workflows: Path = WORKFLOWS
    repositories: Mapping[str, Path] = field(default_factory=dict)

    @property
    def kept(self) -> Path:
        """The files that uploads were given, under the artifact's name if it has one, then by their path."""
        return self.scratch / "kept"

    def run(self, name: str) -> dict[str, JobRun]:
        """Run a workflow; gives its jobs by their id."""
        workflow = load(name, self.workflows)
        notes = self.scratch / "notes"
        notes.write_text("")
        given = {
            "--var": self.vars,
            "--secret": {"GITHUB_TOKEN": "a-token", **self.secrets},
            "--env": {
                **self.environment,
                # GitHub sets it, and act does not.
                "GITHUB_WORKFLOW_REF": f"operator/markets/.github/workflows/{name}.yml@refs/heads/main",
                "NOTES": str(notes),
                "KEPT": str(self.kept),
            },
            "--local-repository": {
                **self._stand_ins(workflow),
                **{name: str(folder) for name, folder in self.repositories.items()},
            },
        }
        ran = subprocess.run(
            [
                *(PROGRAM, self.event, "--directory", self.checkout, "--workflows", f".github/workflows/{name}.yml"),
                *("--platform", "ubuntu-24.04=-self-hosted", "--no-cache-server", "--insecure-secrets", "--json"),
                *(part for option in given for pair in given[option].items() for part in (option, "=".join(pair))),
            ],
            env={
                "PATH": clean_path(*self.path),
                "HOME": self.environment.get("HOME", str(self.scratch)),
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
            if job.result != "failure":  # of a matrix, each part says its own
                job.result = said.get("jobResult", job.result)
            if said.get("raw_output"):
                job.printed += said["msg"]
            elif said.get("command") == "set-output":
                job.outputs[said["name"]] = said["arg"]
            elif said.get("command") == "summary":
                job.summary += said["content"]
        for line in notes.read_text().splitlines():
            note = json.loads(line)
            inputs = {key: value for key, value in note["inputs"].items() if value}
            jobs[note["job"]].actions.append((note["action"], inputs))
        assert ran.returncode == 0 or "failure" in {job.result for job in jobs.values()}, ran.stderr[-4_000:]
        return jobs

    def _stand_ins(self, workflow: Mapping[str, Any]) -> dict[str, str]:
        """The folder of a stand-in for each action of a workflow; each is a repository, as act wants it."""
        folders = {}
        own = msgspec.yaml.decode(ACTION.read_bytes())["runs"]["steps"]
        steps = [step for job in workflow["jobs"].values() for step in job["steps"]] + own
        steps = [step for step in steps if "uses" in step and step["uses"] not in {"./", *self.repositories}]
        inputs = {key: {"description": key} for step in steps for key in step.get("with", {})}
        for step in steps:
            action = step["uses"].partition("@")[0]
            folder = self.scratch / "actions" / action
            step_of_stand_in = {
                "shell": "bash",
                "env": {
                    "ACTION": action,
                    "INPUTS": "${{ toJSON(inputs) }}",
                    "NAME": "${{ inputs.name }}",
                    "KEEP": "${{ inputs.path }}",
                },
                "run": _STAND_IN + self.actions.get(action, ""),
            }
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "action.yml").write_text(
                json.dumps(
                    {
                        "name": action,
                        "description": "A stand-in",
                        "inputs": inputs,
                        "runs": {"using": "composite", "steps": [step_of_stand_in]},
                    }
                )
            )
            commit_all(folder)
            folders[step["uses"]] = str(folder)
        return folders


def commit_all(folder: Path, *, remote: str | None = None) -> None:
    """Make a folder a git repository that holds all of it."""
    git = ("git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "gc.auto=0")
    subprocess.run([*git, "init", "--quiet"], check=True, timeout=60)
    if remote:
        subprocess.run([*git, "remote", "add", "origin", remote], check=True, timeout=60)
    subprocess.run([*git, "add", "--all"], check=True, timeout=60)
    subprocess.run([*git, "commit", "--quiet", "--message", "All"], check=True, timeout=60)


def copy_repository(root: Path, target: Path) -> Path:
    """What a checkout of the repository, as it is now, would be."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=root, capture_output=True, timeout=60, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    commit_all(target, remote="https://github.com/operator/markets")
    return target


def stand_in_for_python(folder: Path) -> Path:
    """A folder for the PATH with the Python that the workflows set up; here it is the one that runs the tests."""
    folder.mkdir(exist_ok=True)
    command = folder / f"python{PYTHON_VERSION}"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    command.chmod(0o755)
    return folder
