#!/bin/sh
# Runs the published SDKs of E2B against a daemon of this build, and prints tables: a tour of the Python SDK, then the
# SDKs' own suites. All that is fetched or installed is in a temporary directory, which is removed. Needs root, python3
# with venv, openssl, git, npm, package indexes, Debian's mirror for the profile e2b-base, and:
#   VERSION=2.63.0      the Python SDK
#   REPOSITORY=URL      the source of the suites; empty: the tour only
#   PYTHON_TAG, JS_TAG  the suites; an empty tag leaves that one out
#   TESTS=…             which tests of the Python suite
#   PAGE=FILE           the page whose tables are replaced, docs/e2b.md unless set
#   KEEP=DIR            logs and results are kept there
#   SANDBOXD=PATH       the daemon, dist/sandboxd unless set
set -eu
cd "$(dirname "$0")/.."
data=${DATA_DIR:-$PWD/.data}
repository=${REPOSITORY-https://github.com/e2b-dev/E2B}
python_tag=${PYTHON_TAG-@e2b/python-sdk@2.45.1}
js_tag=${JS_TAG-e2b@2.45.0}
here=$PWD/test/e2b
node=$(ls node_modules/node-linux-*/bin/node)
sandboxd=${SANDBOXD:-$PWD/dist/sandboxd}
work=$(mktemp -d /tmp/test-e2b.XXXXXX)
daemon=
model=
finish() {
  [ -z "$model" ] || kill "$model" 2>/dev/null || true
  [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && cp "$work"/*.xml "$work"/*.log "$KEEP"; } 2>/dev/null || true
  [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
python3 -m venv "$work/venv"
python=$work/venv/bin/python
"$work/venv/bin/pip" install --quiet "e2b${VERSION:+==$VERSION}"
"$work/venv/bin/pip" list 2>/dev/null | grep '^e2b '

mkdir "$work/data"
for part in agents kernels layers profiles; do
  [ ! -e "$data/$part" ] || cp -a --reflink=auto "$data/$part" "$work/data/"
done
"$sandboxd" profiles bake e2b-base --data-dir "$work/data"
# The images of the suites' own templates.
for image in alpine:latest debian:stable ubuntu:22.04 ubuntu:24.04 ubuntu:latest; do
  "$sandboxd" templates set "$image=e2b-base" --data-dir "$work/data" >/dev/null
done

# Port URLs are https, below a domain of their own.
names=DNS:localhost,DNS:box.test,DNS:*.box.test,IP:127.0.0.1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test-e2b \
  -keyout "$work/ca.key" -out "$work/ca.pem" -addext basicConstraints=critical,CA:TRUE 2>"$work/openssl.log"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -keyout "$work/tls.key" -out "$work/tls.pem" -CA "$work/ca.pem" -CAkey "$work/ca.key" \
  -addext "subjectAltName=$names" -addext basicConstraints=critical,CA:FALSE 2>"$work/openssl.log"
free_port() {
  "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
port=$(free_port)
api_port=$(free_port)
"$sandboxd" --listen "127.0.0.1:$api_port" --e2b-listen "127.0.0.1:$port" --e2b-domain "https://box.test:$port" \
  --tls-cert "$work/tls.pem" --tls-key "$work/tls.key" --network-internet on --data-dir "$work/data" \
  --run-dir "$work/run" --on-exit destroy --log-level warn &
daemon=$!
tries=0
until curl -fsS --cacert "$work/ca.pem" "https://127.0.0.1:$port/health" >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 600 ] && kill -0 "$daemon" || exit 1
  sleep 0.5
done
export E2B_API_URL="https://127.0.0.1:$port" E2B_SANDBOX_URL="https://127.0.0.1:$port"
export E2B_API_KEY=e2b_000000000000000000000000000000000000000000000000
export SSL_CERT_FILE="$work/ca.pem" NODE_EXTRA_CA_CERTS="$work/ca.pem"
status=0
"$python" "$here/tour.py" || status=$?
# The example of an agent, with a model that follows a script.
"$node" test/support/scripted-model.ts >"$work/model" &
model=$!
until [ -s "$work/model" ]; do sleep 0.1; done
OPENAI_BASE_URL=$(cat "$work/model") MODEL=scripted "$python" docs/examples/agent_e2b.py add 40 and 2 | grep -x 'sum: 42' || status=$?
kill "$model"
SANDBOXD_HOST="https://127.0.0.1:$api_port" \
  "$python" "$here/latency.py" "$node" 30 >"$work/latency.log" || status=$?
cat "$work/latency.log"
[ -n "$repository" ] || exit "$status"

fetch() {
  git init --quiet "$work/$1"
  git -C "$work/$1" fetch --quiet --depth 1 "$repository" "refs/tags/$2"
  git -C "$work/$1" checkout --quiet FETCH_HEAD
}
export TEST_E2B_DOMAIN=box.test TEST_E2B_PORT="$port" TEST_E2B_SETUP="$here/loopback-names.mjs"
results=
if [ -n "$python_tag" ]; then
  fetch python-suite "$python_tag"
  # Elsewhere, or the package of the checkout would be imported in place of the installed one.
  mkdir "$work/python"
  cp -r "$work/python-suite/packages/python-sdk/tests" "$work/python-suite/packages/python-sdk/pytest.ini" \
    "$work/python/"
  env -u SSL_CERT_FILE "$work/venv/bin/pip" install --quiet pytest pytest-asyncio pytest-timeout pytest-dotenv
  (
    cd "$work/python"
    # Names of files without an extension of their own are those of tests, so the list is split at spaces.
    # shellcheck disable=SC2086
    PYTHONPATH=$here "$work/venv/bin/pytest" -v -p no:cacheprovider -p loopback_names \
      --continue-on-collection-errors --timeout 120 --junitxml "$work/python.xml" ${TESTS:-tests} \
      >"$work/python.log" 2>&1 || true
  )
  results="Python=$work/python.xml"
fi

if [ -n "$js_tag" ]; then
  fetch js-suite "$js_tag"
  (
    cd "$work/js-suite/packages/js-sdk"
    cp "$here/vitest.config.mts" vitest.config.mts
    # Only what the tests need of what its developers need.
    node "$here/test-dependencies.mjs" package.json
    npm install --no-audit --no-fund --ignore-scripts --loglevel error
    # Tests of the others ask nothing, or a server of their own.
    grep -rlE 'sandboxTest|buildTemplateTest|isDebug|Sandbox\.create\(' tests >"$work/asking"
    grep -LE 'setupServer' $(cat "$work/asking") >"$work/js-files.log"
    node_modules/.bin/vitest run --reporter junit --outputFile "$work/js.xml" >"$work/js.log" 2>&1 || true
  )
  results="$results JavaScript=$work/js.xml:$work/js-files.log"
fi
cat >"$work/about.md" <<EOF
Written by a run of \`make test-e2b\` on $(date -u +%Y-%m-%d), on a host of $(nproc) processors: the suites of
E2B's repository at ${python_tag:-no tag} with the package e2b $("$work/venv/bin/pip" show e2b | sed -n 's/^Version: //p'), and at ${js_tag:-no tag}.
Of a command, and of many sandboxes: $(paste -sd ';' "$work/latency.log" | sed 's/;/; /g').
EOF
# shellcheck disable=SC2086
"$python" "$here/table.py" "${PAGE:-docs/e2b.md}" "$work/about.md" $results || status=$?
exit "$status"
