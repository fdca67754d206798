#!/bin/sh
# Runs the published Python SDK of E2B against a daemon of this build: installs it into a temporary directory, starts
# the daemon, and prints a table. Needs root, python3 with venv, and a package index. VERSION=2.63.0 chooses the SDK.
set -eu
cd "$(dirname "$0")/.."
data=${DATA_DIR:-$PWD/.data}
work=$(mktemp -d /tmp/test-e2b.XXXXXX)
daemon=
finish() {
  [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "e2b${VERSION:+==$VERSION}"
"$work/venv/bin/pip" list 2>/dev/null | grep '^e2b '
mkdir "$work/data"
for part in agents kernels layers profiles; do
  [ ! -e "$data/$part" ] || cp -a --reflink=auto "$data/$part" "$work/data/"
done
port=$("$work/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
dist/sandboxd --listen "unix:$work/api.sock" --e2b-listen "127.0.0.1:$port" --data-dir "$work/data" \
  --run-dir "$work/run" --on-exit destroy --log-level warn &
daemon=$!
tries=0
until curl -fsS "http://127.0.0.1:$port/health" >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 600 ] && kill -0 "$daemon" || exit 1
  sleep 0.5
done
E2B_API_URL="http://127.0.0.1:$port" E2B_SANDBOX_URL="http://127.0.0.1:$port" \
  E2B_API_KEY="e2b_000000000000000000000000000000000000000000000000" "$work/venv/bin/python" test/e2b/smoke.py
