#!/usr/bin/env bash
# Says in one line each which system package is missing, and whether the folder has a name that cannot be used, before
# anything is installed.
set -u
python=${1:-python3}
missing=0
# make, which builds the simulators, takes these characters for something else; as in sim/harness/build.py.
case "$PWD" in
  *[[:space:]\"\#\$%\&\'\(\)\*:\;\<\>\?\[\\\]\`\{\|\}\!]*)
    echo "atoll: '$PWD': make cannot build simulators in a folder of this name: move it to one without spaces and \"#\$%&'()*:;<>?[\\]\`{|}!" >&2
    missing=1;;
esac
need() { command -v "$1" >/dev/null 2>&1 || { echo "atoll: '$1' is missing: install the system package '$2'" >&2; missing=1; }; }
need "$python" python3
need make make
need perl perl
if command -v "$python" >/dev/null 2>&1; then
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || { echo "atoll: $("$python" --version) is too old: Python 3.11 or newer is needed" >&2; missing=1; }
  "$python" -c 'import ensurepip, venv' 2>/dev/null \
    || { echo "atoll: Python has no venv: install the system package 'python3-venv'" >&2; missing=1; }
fi
exit "$missing"
