# shellcheck shell=bash
# Sourced by the other scripts, never run: the project's root, the caller's folder, a Python to build on, and .venv.

caller=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit
venv=.venv

# Prints a path that may be relative to the caller's folder, as an absolute one. A URL, nothing, and a path in a home
# stay as they are: the exporter itself reads ~, which nobody expands in a file of settings.
from_caller() {
  case $1 in '' | /* | '~'* | *://*) printf '%s' "$1" ;; *) printf '%s/%s' "$caller" "$1" ;; esac
}

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# Prints the first Python that is at least 3.11, really runs (a version manager's shim may exist and fail) and
# can make a virtual environment. PYTHON=... names another one.
find_python() {
  local candidate without_pip=
  for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
    if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return 0
    fi
    without_pip=${without_pip:-$candidate}
  done
  if [ -n "$without_pip" ]; then
    die "$without_pip has no ensurepip, so it cannot make a virtual environment;" \
      "on Debian and Ubuntu: apt-get install python3-venv (or the package of that version, such as python3.12-venv)"
  fi
  if [ -n "${PYTHON:-}" ]; then
    die "PYTHON=$PYTHON does not run, or is older than Python 3.11"
  fi
  die "no Python 3.11 or newer runs here (tried python3.13, python3.12, python3.11, python3);" \
    "install one, or name one: PYTHON=path/to/python $0"
}

# What an environment is made from. The stamp of an environment is this text, whole.
stamp_text() {
  printf 'root %s\n' "$root"
  cat "$@" pyproject.toml exporter/__init__.py
}

# EXPORT_WHEELS may name a folder that keeps the wheels; each is checked by its hash when it is installed.
# ensure_venv KIND LOCK...: .venv holds exactly pinned packages and the `exporter` command; quick when it already does.
# A stamp is written last, so an installation that was cut short is taken up again by the next call.
ensure_venv() {
  local kind=$1 stamp="$venv/exporter-$1.stamp" python lock
  shift
  if [ -f "$stamp" ] && [ -x "$venv/bin/exporter" ] && stamp_text "$@" | cmp -s - "$stamp"; then
    return 0
  fi

  # The scripts inside an environment hold its path: one that was copied or moved here is replaced.
  if [ -f "$venv/exporter-root" ] && [ "$(cat "$venv/exporter-root")" != "$root" ]; then
    say "$venv belongs to another folder; replacing it"
    rm -rf "$venv"
  fi
  if [ ! -e "$venv" ]; then
    python=$(find_python)
    say "Making $venv with $("$python" --version 2>&1) ..."
    "$python" -m venv "$venv" || { rm -rf "$venv"; die "$python -m venv failed"; }
    printf '%s\n' "$root" >"$venv/exporter-root"
  fi
  "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 ||
    die "$venv/bin/python does not run, or is older than Python 3.11; remove $venv and try again"
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 ||
    die "$venv has no pip; remove $venv and try again"

  say "Installing the pinned packages ($kind) ..."
  rm -f "$stamp"
  local requirements=()
  for lock in "$@"; do requirements+=(-r "$lock"); done
  # Wheels only: a source package would fetch build tools that no lock pins.
  local locked=(--quiet --quiet --disable-pip-version-check --require-hashes --only-binary :all: "${requirements[@]}")
  if [ -z "${EXPORT_WHEELS:-}" ]; then
    "$venv/bin/python" -m pip install --no-compile "${locked[@]}" ||
      die "the pinned packages could not be installed; pip's message above says why"
  elif ! "$venv/bin/python" -m pip install --no-compile --no-index --find-links "$EXPORT_WHEELS" "${locked[@]}" >/dev/null 2>&1; then
    # The folder is new, or a wheel in it is missing or not the pinned one: then all of them are fetched again.
    rm -rf "$EXPORT_WHEELS"
    "$venv/bin/python" -m pip download --dest "$EXPORT_WHEELS" "${locked[@]}" ||
      die "the pinned packages could not be fetched; pip's message above says why"
    "$venv/bin/python" -m pip install --no-compile --no-index --find-links "$EXPORT_WHEELS" "${locked[@]}" ||
      die "the pinned packages could not be installed; pip's message above says why"
  fi
  # pip compiles with one core, which takes half of the installation. A file that is no Python of this version is left.
  "$venv/bin/python" -m compileall -qq -j 0 "$venv"/lib/python3*/site-packages >/dev/null 2>&1 || true
  # The build backend is one of the pinned packages, so nothing is fetched here.
  "$venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation \
    --editable . || die "the project itself could not be installed; pip's message above says why"
  stamp_text "$@" >"$stamp"
}

# To run the product: its packages, and the build backend that installs it.
ensure_runtime() { ensure_venv runtime requirements/runtime.lock requirements/build.lock; }

# To work on it: the development lock holds the two others.
ensure_dev() { ensure_venv dev requirements/dev.lock; }

# ensure_npm PROJECT FOLDER: FOLDER has exactly the packages that PROJECT's package-lock.json pins; quick when it already
# does. npm writes .package-lock.json last, so an installation that was cut short is taken up again by the next call.
ensure_npm() {
  local project=$1 installed=$2 tool
  for tool in node npm; do
    command -v "$tool" >/dev/null || die "$tool is not installed; $project needs Node 20 or newer with npm"
  done
  if [ -f "$installed/node_modules/.package-lock.json" ] && cmp -s "$project/package-lock.json" "$installed/package-lock.json"; then
    return 0
  fi
  say "Installing what $project/package.json names ..."
  rm -rf "$installed"
  mkdir -p "$installed"
  cp "$project/package.json" "$project/package-lock.json" "$installed/"
  npm ci --prefix "$installed" --ignore-scripts --no-audit --no-fund >&2 ||
    die "the packages of $project could not be installed; npm's message above says why"
}

# Writes PROJECT's package-lock.json again. The lock pins names, versions and hashes, and names no host: not where
# packages come from, nor who takes donations.
lock_npm() (
  cd "$1"
  rm -f package-lock.json
  npm install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund
  node -e '
    const fs = require("node:fs");
    const lock = JSON.parse(fs.readFileSync("package-lock.json", "utf8"));
    for (const locked of Object.values(lock.packages)) delete locked.funding;
    const text = JSON.stringify(lock, null, 2) + "\n";
    if (text.includes("://")) throw new Error("the lock holds an address");
    fs.writeFileSync("package-lock.json", text);'
)
