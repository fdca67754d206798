#!/bin/sh
# Brings a Debian machine to the point where `make` can build: system packages, then npm packages.
# Does only what is missing, and calls neither apt nor npm when nothing is.
# usage: scripts/setup.sh [packages|npm]      (default: both)
set -eu

cd "$(dirname "$0")/.."
LIST=scripts/packages.txt
STAMP=node_modules/.installed-lock
MIN_NODE_MAJOR=20
# Needs nothing but Debian's mirrors and the npm registry. Debian 12's own Node is 18.
GET_NODE='apt-get install nodejs npm && npm install -g node@22'

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# Names of the packages that are absent or older than the list allows.
missing_packages() {
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status} ${Version}\n' 2>/dev/null || true)
  while read -r name oldest _; do
    case $name in '' | '#'*) continue ;; esac
    version=$(printf '%s\n' "$installed" | awk -v name="$name" '$1 == name && $2 == "installed" { print $3; exit }')
    if [ -z "$version" ] || dpkg --compare-versions "$version" lt "$oldest"; then echo "$name"; fi
  done <"$LIST"
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

# Says nothing but what goes wrong: hundreds of lines about packages would bury the rest.
apt_get() {
  # Recommended packages would bring a desktop's worth of QEMU front ends.
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a apt-get -qq -y \
    -o DPkg::Lock::Timeout=120 --no-install-recommends "$@" >/dev/null
}

refresh_lists() {
  say 'refreshing the package lists'
  apt_get update || die 'apt-get update failed: check the apt sources and the network (messages above)'
}

# Whether the package lists that the machine has name all of the given packages.
are_known() { apt-get -qq --simulate --no-install-recommends install "$@" >/dev/null 2>&1; }

install_packages() {
  missing=$(missing_packages | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null || die "this is no Debian: install by hand what $LIST names (missing: $missing)"
  # A new machine has no lists, and its first install must not begin with errors.
  # shellcheck disable=SC2086
  are_known $missing || refresh_lists
  say "installing $missing"
  # Lists that are too old show as a failure.
  # shellcheck disable=SC2086
  if ! apt_get install $missing; then
    refresh_lists
    say "trying again to install $missing"
    apt_get install $missing || die "apt-get could not install: $missing (messages above)"
  fi
  still=$(missing_packages | tr '\n' ' ')
  [ -z "$still" ] || die "still missing or older than $LIST allows: $still(Debian 12 or newer is needed)"
}

# Before anything is installed: what a person has to do first is said first.
require_node() {
  command -v node >/dev/null || die "Node.js is missing: install version $MIN_NODE_MAJOR or newer, as root for example: $GET_NODE"
  command -v npm >/dev/null || die "npm is missing: it comes with Node.js, only Debian's nodejs needs: apt-get install npm"
  major=$(node -p 'process.versions.node.split(".")[0]')
  [ "$major" -ge "$MIN_NODE_MAJOR" ] || die "Node.js $(node -v) is too old: install version $MIN_NODE_MAJOR or newer, as root for example: $GET_NODE"
}

install_npm_packages() {
  lock=$(sha256sum package-lock.json | cut -d ' ' -f 1)
  if [ "$(cat "$STAMP" 2>/dev/null || true)" = "$lock" ]; then return 0; fi
  say 'npm ci'
  # Its warnings name developer tools, which run on the pinned Node, and install scripts, which nothing needs.
  npm ci --no-audit --no-fund --no-update-notifier --loglevel=error >&2 ||
    die 'npm ci failed (messages above): the registry is out of reach, or package-lock.json does not match package.json'
  echo "$lock" >"$STAMP"
}

case ${1:-all} in
  packages) install_packages ;;
  npm)
    require_node
    install_npm_packages
    ;;
  all)
    require_node
    install_packages
    install_npm_packages
    ;;
  *) die "unknown argument \"$1\": packages, npm or nothing" ;;
esac
