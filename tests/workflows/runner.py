"""Runs the jobs of a workflow as GitHub would: the `run` steps in a shell, with the environment that the workflow
defines and nothing else; what `uses` an action is done by a stand-in, or only noted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.workflows.expressions import evaluate, looks_at_status, substitute

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"

PYTHON_VERSION = "3.13"

Action = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""A stand-in for an action: from its inputs to the environment variables that it sets for later steps."""


def load(name: str) -> dict[str, Any]:
    """The workflow of a name, as data."""
    content: dict[str, Any] = msgspec.yaml.decode((WORKFLOWS / f"{name}.yml").read_bytes())
    return content


@dataclass(slots=True)
class JobRun:
    """How a job ended: ``success``, ``failure`` or ``skipped``; ``actions`` with their inputs in order."""

    result: str = "success"
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    printed: str = ""
    actions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass(slots=True)
class Runner:
    """A machine with a checkout of the repository.

    Attributes:
        checkout: the folder that the steps work in.
        scratch: a folder for the files that GitHub lends to steps.
        path: the PATH of every step.
        environment: what the machine itself gives, beside PATH.
        actions: stand-ins by the action's name without its version.
    """

    checkout: Path
    scratch: Path
    path: str
    environment: Mapping[str, str] = field(default_factory=dict)
    actions: Mapping[str, Action] = field(default_factory=dict)
    vars: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    event: str = "schedule"
    server: str = "https://github.example"

    def run(self, name: str) -> dict[str, JobRun]:
        """Run the jobs of a workflow in the order in which they stand."""
        workflow = load(name)
        done: dict[str, JobRun] = {}
        for job_name, job in workflow["jobs"].items():
            done[job_name] = self._job(workflow, job, done)
        return done

    def _context(self, workflow: Mapping[str, Any], needs: Mapping[str, JobRun]) -> dict[str, Any]:
        return {
            "vars": self.vars,
            "secrets": self.secrets,
            "github": {
                "event_name": self.event,
                "workflow": workflow["name"],
                "repository": "operator/markets",
                "server_url": self.server,
                "run_id": "1234",
                "run_attempt": "1",
                "token": "a-token",
            },
            "needs": {name: {"result": run.result, "outputs": run.outputs} for name, run in needs.items()},
            "steps": {},
            "failed": any(run.result != "success" for run in needs.values()),
        }

    def _job(self, workflow: Mapping[str, Any], job: Mapping[str, Any], done: Mapping[str, JobRun]) -> JobRun:
        needed = job.get("needs", [])
        context = self._context(
            workflow, {name: done[name] for name in ([needed] if isinstance(needed, str) else needed)}
        )
        if not _applies(job.get("if", ""), context):
            return JobRun("skipped")
        run = JobRun()
        context["failed"] = False
        machine = {"CI": "true", "GITHUB_ACTIONS": "true", "PATH": self.path, **self.environment}
        inherited = {**machine, **_environment(job.get("env", {}), context)}
        for index, step in enumerate(job["steps"]):
            if not _applies(step.get("if", ""), context):
                continue
            if "uses" in step:
                action = step["uses"].partition("@")[0]
                inputs = {key: substitute(str(value), context) for key, value in step.get("with", {}).items()}
                run.actions.append((action, inputs))
                if action in self.actions:
                    inherited |= self.actions[action](inputs)
                continue
            files = {name: self.scratch / f"{name}-{index}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
            for file in files.values():
                file.write_text("")
            lent = {name: str(path) for name, path in files.items()}
            environment = {**inherited, **_environment(step.get("env", {}), context), **lent}
            code, printed = _shell(step["run"], self.checkout, environment)
            run.printed += printed
            run.summary += files["GITHUB_STEP_SUMMARY"].read_text()
            outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
            if "id" in step:
                context["steps"][step["id"]] = {"outputs": outputs}
            if code:
                run.result, context["failed"] = "failure", True
        run.outputs = {key: substitute(text, context) for key, text in job.get("outputs", {}).items()}
        return run


def _applies(condition: str, context: Mapping[str, Any]) -> bool:
    if not looks_at_status(condition) and context["failed"]:
        return False
    return bool(evaluate(condition, context)) if condition else True


def _environment(defined: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, str]:
    return {name: substitute(str(value), context) for name, value in defined.items()}


def _shell(script: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """GitHub's shell for a step that names none."""
    ran = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return ran.returncode, ran.stdout


def copy_repository(root: Path, target: Path) -> Path:
    """What a checkout of the repository, as it stands now, would be."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout.decode()
    for name in filter(None, names.split("\0")):
        source = root / name
        if source.is_file():
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    return target


def stand_in_for_python(folder: Path) -> Path:
    """A folder for the PATH with the Python that the workflows set up; here it is the one that runs the tests."""
    folder.mkdir(exist_ok=True)
    command = folder / f"python{PYTHON_VERSION}"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    command.chmod(0o755)
    return folder


def clean_path(*first: Path) -> str:
    """A PATH of the system's own folders, after those given."""
    return os.pathsep.join((*map(str, first), "/usr/local/bin", "/usr/bin", "/bin"))
