#!/bin/sh
# Installs what `make` needs to build on a Debian machine: system packages, then npm packages.
# Installs only missing packages, and calls neither apt nor npm when none is missing.
# usage: scripts/setup.sh [packages|npm|tests|deb|arm64]  (default: the first two; the others: Debian packages that only
# they need)
set -eu

cd "$(dirname "$0")/.."
LIST=scripts/packages.txt
STAMP=node_modules/.installed-lock
# Only `npm ci` runs on the machine's own Node; everything else runs on the pinned Node. Debian 12 has 18.
MIN_NODE_MAJOR=18
TAIL_LINES=20
ARCHITECTURE=$(dpkg --print-architecture 2>/dev/null || true)

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

LOG=
TICKER=
stop_ticker() {
  # Not TERM: the child would miss one that arrives before it has reset its parent's trap, and the wait would not end.
  [ -z "$TICKER" ] || kill -KILL "$TICKER" 2>/dev/null || true
  [ -z "$TICKER" ] || wait "$TICKER" 2>/dev/null || true
  TICKER=
  [ ! -t 2 ] || printf '\r\033[K' >&2
}
clean_up() {
  stop_ticker
  [ -z "$LOG" ] || rm -f "$LOG"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Once per second on a terminal, in one line that is rewritten; otherwise a line every ten seconds.
tick() {
  seconds=0
  # The script may be killed without running its trap; then this loop must end too.
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    seconds=$((seconds + 1))
    line="setup: $1 … $seconds s: $(tail -n 1 "$LOG" 2>/dev/null | cut -c 1-60)"
    if [ -t 2 ]; then
      printf '\r\033[K%s' "$line" >&2
    elif [ $((seconds % 10)) = 0 ]; then
      printf '%s\n' "$line" >&2
    fi
  done
}

# Runs a verbose command, shows a progress line, and prints the end of its output if it failed.
watched() {
  label=$1
  shift
  LOG=${LOG:-$(mktemp)}
  : >"$LOG"
  say "$label"
  # sudo's prompt must not be overwritten.
  case $1 in as_root | apt_get) as_root true ;; esac
  tick "$label" &
  TICKER=$!
  status=0
  "$@" >"$LOG" 2>&1 || status=$?
  stop_ticker
  # npm's line for each download shows progress, but not the cause of a failure; nor do its warnings.
  [ "$status" = 0 ] || grep -v -i -E '^npm (http|warn)' "$LOG" | tail -n "$TAIL_LINES" >&2
  return "$status"
}

# Names of the packages that are missing or older than the list allows, and Debian's Node where the machine has none.
missing_packages() {
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status} ${Version}\n' 2>/dev/null || true)
  while read -r name oldest _; do
    case $name in
      '' | '#'*) continue ;;
      *"[$ARCHITECTURE]") name=${name%"["*} ;;
      *']') continue ;;
    esac
    version=$(printf '%s\n' "$installed" | awk -v name="$name" '$1 == name && $2 == "installed" { print $3; exit }')
    if [ -z "$version" ] || dpkg --compare-versions "$version" lt "$oldest"; then echo "$name"; fi
  done <"$LIST"
  if needs_npm; then
    # Another Node is kept: Debian's package would shadow it or be refused.
    command -v node >/dev/null || echo nodejs
    command -v npm >/dev/null || echo npm
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "installing packages needs root: run as root or install sudo; missing: $(missing_packages | tr '\n' ' ')"
  fi
}

apt_get() {
  # Recommended packages would bring a desktop's worth of QEMU front ends.
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a LC_ALL=C.UTF-8 apt-get -q -y \
    -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
}

refresh_lists() {
  watched 'refreshing the package lists' as_root apt-get -q -o DPkg::Lock::Timeout=120 update ||
    die 'apt-get update failed (messages above): check the apt sources and the network'
}

# Whether the machine's package lists contain all of the given packages.
are_known() { apt-get -qq --simulate --no-install-recommends install "$@" >/dev/null 2>&1; }

install_packages() {
  missing=$(missing_packages | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null || die "this is not Debian: install by hand what $LIST names (missing: $missing)"
  # A new machine has no lists, and its first install must not start with errors.
  # shellcheck disable=SC2086
  are_known $missing || refresh_lists
  say "missing: $missing"
  # Outdated lists cause a failure.
  # shellcheck disable=SC2086
  if ! watched 'installing Debian packages' apt_get install $missing; then
    refresh_lists
    # shellcheck disable=SC2086
    watched 'installing Debian packages, again' apt_get install $missing ||
      die "apt-get could not install $missing(messages above): check the apt sources and the network, then run it again"
  fi
  still=$(missing_packages | tr '\n' ' ')
  [ -z "$still" ] || die "still missing or older than $LIST allows: $still(Debian 12 or newer is needed)"
}

lock_digest() { sha256sum package-lock.json | cut -d ' ' -f 1; }

# npm takes packages of one architecture as optional: it succeeds without them.
case $ARCHITECTURE in
  arm64) CPU=arm64 ;;
  *) CPU=x64 ;;
esac
has_runtime() {
  for name in node-linux-$CPU @biomejs/cli-linux-$CPU @lmdb/lmdb-linux-$CPU; do
    [ -d "node_modules/$name" ] || return 1
  done
}

needs_npm() { [ "$(cat "$STAMP" 2>/dev/null || true)" != "$(lock_digest)" ] || ! has_runtime; }

require_node() {
  for program in node npm; do
    command -v "$program" >/dev/null || die "$program is missing: as root, apt-get install nodejs npm"
  done
  major=$(node -p 'process.versions.node.split(".")[0]')
  [ "$major" -ge "$MIN_NODE_MAJOR" ] ||
    die "$(command -v node) is Node.js $(node -v), which is too old: remove it (Debian's is then installed), or install version $MIN_NODE_MAJOR or newer"
}

install_npm_packages() {
  needs_npm || return 0
  require_node
  # No install scripts: no package needs them. Warnings are hidden, because they concern tools that run on the pinned
  # Node.
  watched 'installing npm packages (npm ci)' \
    npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --no-progress --loglevel=http ||
    die 'npm ci failed (messages above): the registry is out of reach, or package-lock.json does not match package.json'
  has_runtime || die 'npm ci brought no packages for this kind of machine (node-linux, @biomejs/cli-linux, @lmdb/lmdb-linux): the registry did not give them, or there are none'
  lock_digest >"$STAMP"
}

case ${1:-all} in
  packages) install_packages ;;
  tests)
    LIST=scripts/test-packages.txt
    install_packages
    ;;
  deb)
    LIST=scripts/deb-packages.txt
    install_packages
    ;;
  arm64)
    LIST=scripts/arm64-packages.txt
    install_packages
    ;;
  npm) install_npm_packages ;;
  all)
    install_packages
    install_npm_packages
    ;;
  *) die "unknown argument \"$1\": packages, npm, tests, deb, arm64 or nothing" ;;
esac
