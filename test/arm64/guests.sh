#!/bin/bash
# Guests for arm64 of a daemon on x86-64: boot, commands, fork, pause. It needs what `make test-arm64` has built.
# usage: test/arm64/guests.sh [data directory]
set -eu
cd "$(dirname "$0")/../.."
lab=$(realpath "${1:-.data}")/lab/arm64
work=$(mktemp -d)
mkdir -p "$work/data" "$work/run" "$work/guests"
ln -s "$lab/kernels" "$work/data/kernels"
node=$(echo "$PWD"/node_modules/node-linux-*/bin/node)
socket=$work/daemon.sock
daemon=
clean_up() {
  [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon" || true; }
  rm -rf "$work"
}
trap clean_up EXIT

"$node" -e "import('$PWD/test/arm64/image.ts').then((m) => m.makeGuestRoot('$lab', '$work/guests/busybox.ext4', '$work/tree'))"
"$node" test/arm64/foreign-guests.ts --listen "unix:$socket" --data-dir "$work/data" --run-dir "$work/run" \
  --image-path-allow "$work/guests" --engine qemu --template-disk-bytes 0 --on-exit destroy \
  --boot-timeout-s 600 --probe-timeout-s 600 >"$work/log" 2>&1 &
daemon=$!
for _ in $(seq 60); do [ -S "$socket" ] && break; sleep 1; done
expect() {
  wanted=$1
  shift
  seen=$(SANDBOXD_HOST=unix:$socket dist/sandbox "$@" 2>&1) || true
  [ "$seen" = "$wanted" ] || { echo "FAILED: $*: \"$seen\" instead of \"$wanted\""; tail -n 20 "$work/log"; exit 1; }
  echo "ok $*"
}
created=$(curl -s --unix-socket "$socket" http://localhost/sandboxes \
  -d "{\"image\":{\"path\":\"$work/guests/busybox.ext4\"},\"name\":\"one\",\"memory_mib\":256}")
id=$(echo "$created" | grep -o 'sbx_[a-z0-9]*' | head -n 1) || { echo "FAILED: $created"; tail -n 20 "$work/log"; exit 1; }
expect aarch64 exec one -- uname -m
expect kept exec one -- sh -c 'echo kept >/root/state; cat /root/state'
expect 3 exec one -- sh -c 'sh -c "exit 3"; echo $?'
SANDBOXD_HOST=unix:$socket dist/sandbox fork --name two "$id" >/dev/null
expect kept exec two -- cat /root/state
SANDBOXD_HOST=unix:$socket dist/sandbox pause one >/dev/null
expect kept exec one -- cat /root/state
echo 'guests for arm64: all steps passed'
