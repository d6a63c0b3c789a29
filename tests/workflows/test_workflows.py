"""Rules for every workflow: who may do what, and what is run."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import exporter
from exporter.config import ENVIRONMENT, Settings
from tests.workflows.scripts import call

ROOT = Path(__file__).parents[2]
WORKFLOWS, ACTION = ROOT / ".github" / "workflows", ROOT / "action.yml"
NAMES = sorted(path.stem for path in WORKFLOWS.glob("*.yml"))
PUBLISHING = ["export", "pages"]
TEMPLATE = ROOT / "templates" / "repository" / ".github" / "workflows" / "markets.yml"


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.yaml.decode((WORKFLOWS / f"{name}.yml").read_bytes())
    return content


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in load(name)["jobs"].values() for step in job["steps"]]


def action_steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.yaml.decode(ACTION.read_bytes())["runs"]["steps"]
    return found


def triggers_of(workflow: dict[Any, Any]) -> dict[str, Any]:
    """The events that start a workflow. YAML 1.1 reads the key `on` as true."""
    triggers: dict[str, Any] = workflow["on"] if "on" in workflow else workflow[True]
    return triggers


@pytest.mark.parametrize("name", NAMES)
def test_rights_are_given_job_by_job(name: str) -> None:
    """A workflow has no rights of its own, each job states its own, and none may both write issues and publish."""
    workflow = load(name)

    assert {} == workflow["permissions"]
    for job in workflow["jobs"].values():
        writes = {right for right, level in job["permissions"].items() if level == "write"}
        assert "issues" not in writes or {"actions", "issues"} >= writes


@pytest.mark.parametrize("name", [*NAMES, "action"])
def test_steps_call_scripts(name: str) -> None:
    """A step of a workflow or the action can be run by hand: one script, with nothing of GitHub in its text."""
    own = action_steps() if name == "action" else steps(name)
    script = r'"\$GITHUB_ACTION_PATH/(scripts/[a-z-]+)"' if name == "action" else "(scripts/[a-z-]+)"
    commands = [step["run"] for step in own if "run" in step]

    assert commands
    for command in commands:
        match = re.fullmatch(f"{script}( [a-z/-]+)*", command)
        assert match is not None, command
        assert (ROOT / match[1]).is_file()


@pytest.mark.parametrize("name", PUBLISHING)
def test_publishing_waits_and_is_never_cancelled(name: str) -> None:
    """Runs that publish queue, off the full and the half hour, and run and proof leave the job five minutes."""
    workflow = load(name)
    triggers = triggers_of(workflow)

    assert {"group": name, "cancel-in-progress": False} == workflow["concurrency"]
    assert {"schedule", "workflow_dispatch", "repository_dispatch"} == set(triggers)
    minutes = [int(minute) for entry in triggers["schedule"] for minute in entry["cron"].split()[0].split(",")]
    assert set() == set(minutes) & {0, 15, 30, 45}
    script = (ROOT / "scripts" / "export").read_text()
    (run,) = re.findall(r"EXPORT_TIME_LIMIT:-(\d+)m", script)
    (proof,) = re.findall(r"--kill-after=1m (\d+)m", script)
    assert int(run) + int(proof) + 2 + 5 <= workflow["jobs"]["export"]["timeout-minutes"]


@pytest.mark.parametrize(
    "path", [*(WORKFLOWS / f"{name}.yml" for name in PUBLISHING), TEMPLATE], ids=lambda path: path.stem
)
def test_the_interval_is_that_of_the_schedule(path: Path) -> None:
    """The interval that a workflow promises is the longest time between two starts by its cron lines, in minutes."""
    workflow = msgspec.yaml.decode(path.read_bytes())
    (promised,) = re.findall(r'interval-minutes: "(\d+)"$', path.read_text(), re.MULTILINE)
    starts = list[int]()
    for entry in triggers_of(workflow)["schedule"]:
        minutes, *others = entry["cron"].split()
        assert ["*"] * 4 == others, "this test knows hourly schedules"
        starts += [int(minute) for minute in minutes.split(",")]

    starts.sort()
    assert int(promised) == max(
        after - before for before, after in zip(starts, [*starts[1:], starts[0] + 60], strict=True)
    )


def test_the_action_sets_what_is_read() -> None:
    """Every EXPORTER_ variable that the action sets is one that the exporter knows, and its Python the one set up."""
    (version,) = [step["with"]["python-version"] for step in action_steps() if "setup-python" in step.get("uses", "")]
    values = [pair for step in action_steps() for pair in step.get("env", {}).items()]

    names = {name for name, _ in values if name.startswith("EXPORTER_")}
    assert set() == names - set(ENVIRONMENT) - {"EXPORTER_CONFIG"}
    assert {f"python{version}"} == {value for name, value in values if name == "PYTHON"}


def test_the_template_gives_what_the_action_asks_for() -> None:
    """The workflow of the template has inputs that exist, every right that it needs, and time for its limits."""
    workflow = msgspec.yaml.decode(TEMPLATE.read_bytes())
    job = workflow["jobs"]["publish"]
    inputs = msgspec.yaml.decode(ACTION.read_bytes())["inputs"]

    assert set(job["steps"][-1]["with"]) <= set(inputs)
    assert {"out", "interval-minutes"} == {name for name, entry in inputs.items() if entry.get("required")}
    assert {"out", "interval-minutes"} <= set(job["steps"][-1]["with"])
    assert {"actions", "contents", "id-token", "issues", "pages"} == {
        right for right, level in job["permissions"].items() if level == "write"
    }
    assert load("pages")["jobs"]["export"]["timeout-minutes"] == job["timeout-minutes"]
    settings = tomllib.loads((TEMPLATE.parents[2] / "exporter.toml").read_text())
    assert {} == {key: value for key, value in settings.items() if key not in Settings.__struct_fields__}


def test_the_weekly_suites() -> None:
    """Each suite that has a script runs weekly; those of a fork wait until somebody starts them."""
    jobs = load("slow")["jobs"]
    suites = sorted(path.name for path in (ROOT / "scripts" / "suites").iterdir())

    assert suites == jobs["suite"]["strategy"]["matrix"]["suite"]
    assert "github.event_name != 'schedule' || !github.event.repository.fork" == jobs["suite"]["if"]
    assert "needs.suite.result != 'skipped'" in jobs["summary"]["if"]


def test_only_what_was_checked_is_published() -> None:
    """The job that may publish waits for an approval, runs nothing of the repository, and comes after the checks."""
    jobs = load("release")["jobs"]

    assert ("check", "pypi") == (jobs["publish"]["needs"], jobs["publish"]["environment"]["name"])
    assert [] == [step for step in jobs["publish"]["steps"] if "run" in step]
    assert ["publish"] == [name for name, job in jobs.items() if "write" in job["permissions"].values()]


@pytest.mark.parametrize(
    ("tag", "changelog", "says"),
    [
        ("v{}", "## [Unreleased]\n\n## [{}] - 2026-11-22\n\n- New.\n", ""),
        ("v9.9.9", "## [Unreleased]\n\n## [{}] - 2026-11-22\n", "the tag is v9.9.9"),
        ("v{}", "## [Unreleased]\n\n## [9.9.9] - 2026-11-22\n", "the newest release"),
        ("v{}", "## [Unreleased]\n\n## [{}] - soon\n", "the newest release"),
        ("v{}", "## [Unreleased]\n\n- New.\n\n## [{}] - 2026-11-22\n", "under Unreleased"),
    ],
)
def test_a_tag_must_fit(project_root: Path, tmp_path: Path, tag: str, changelog: str, says: str) -> None:
    """Only a tag that names the version of the package and of the newest entry of the changelog is released."""
    for name in ("scripts/dist", "scripts/_common.sh", "exporter/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(project_root / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(changelog.format(exporter.__version__))
    code, said = call(tmp_path, "dist", "compare", RELEASE_TAG=tag.format(exporter.__version__))

    assert (1 if says else 0) == code, said
    assert says in said


def test_no_key_of_aws_is_stored() -> None:
    """The bucket is written with a role that GitHub vouches for; no secret of AWS is read."""
    secrets = {name for path in WORKFLOWS.glob("*.yml") for name in re.findall(r"secrets\.(\w+)", path.read_text())}

    assert {"EXPORTER_RPC_HEADERS", "EXPORTER_RPC_URLS", "IMAGE_TOKEN"} == secrets


def named(where: object, kind: str) -> set[str]:
    """The names after a word in a part's expressions, such as the steps whose outputs they take."""
    return set(re.findall(rf"\b{kind}\.([\w-]+(?:\.outputs\.[\w-]+)?)", str(where)))


@pytest.mark.parametrize("name", PUBLISHING)
def test_a_publishing_workflow_is_wired(name: str) -> None:
    """The workflow runs the action with inputs that exist, if that is set up or asked for. The alarm gets its end."""
    export, alarm = (load(name)["jobs"][job] for job in ("export", "alarm"))
    run = export["steps"][-1]
    inputs = msgspec.yaml.decode(ACTION.read_bytes())["inputs"]
    variable = {"export": "vars.EXPORTER_OUT != ''", "pages": "vars.EXPORTER_PAGES == 'true'"}[name]

    assert f"{variable} || github.event_name != 'schedule'" == export["if"]
    assert ("./", "run", {"exit-code": "${{ steps.run.outputs.exit-code }}"}) == (
        *(run["uses"], run["id"]),
        export["outputs"],
    )
    assert {"out", "interval-minutes"} <= set(run["with"]) <= set(inputs)
    assert "${{ secrets.EXPORTER_RPC_URLS || vars.EXPORTER_RPC_URLS }}" == run["with"]["rpc-urls"]
    assert "${{ secrets.EXPORTER_RPC_HEADERS }}" == run["with"]["rpc-headers"]  # never a variable
    assert ("export", "always() && needs.export.result != 'skipped'") == (alarm["needs"], alarm["if"])
    environment = alarm["steps"][-1]["env"]
    assert "${{ needs.export.result }}" == environment["RUN_RESULT"]
    assert "${{ needs.export.outputs.exit-code }}" == environment["RUN_EXIT_CODE"]


def test_the_action_is_wired() -> None:
    """Expressions name what exists; report and alarm follow any end, and the tree is kept after a success alone."""
    action = msgspec.yaml.decode(ACTION.read_bytes())
    ids = {step["id"] for step in action_steps() if "id" in step}
    last = {step.get("name") or step["uses"].partition("@")[0]: step for step in action_steps()}
    after = [name for name, step in last.items() if step.get("if", "").startswith("always()")]
    order = [name for name in last if "Export" == name or last[name].get("if") == "inputs.out == 'pages'"]

    assert {name.partition(".")[0] for name in named(action, "steps")} <= ids
    assert named(action, "inputs") <= set(action["inputs"])
    assert ["Keep the run report", "Open or close the issue, and keep the schedule"] == after == [*last][-2:]
    # What comes after publishing, and is not publishing, cannot turn a run red. A broken alarm may: it has to be seen.
    assert ["Keep the run report"] == [name for name, step in last.items() if step.get("continue-on-error")]
    assert [
        "Fetch the tree as the last run left it",
        "Export",
        "Keep the tree for the next run",
        "actions/upload-pages-artifact",
        "Deploy",
    ] == order
    site = last["actions/upload-pages-artifact"]["with"]["path"]
    assert f"inputs.out == 'pages' && '{site}' || inputs.out" in last["Export"]["env"]["EXPORTER_OUT"]
    assert {"restore build/site", "save build/site"} == {
        last[order[index]]["run"].partition('site-branch" ')[2] for index in (0, 2)
    }
