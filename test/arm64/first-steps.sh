#!/bin/bash
# What `make test-arm64` runs in the emulated arm64 host: the daemon with its jail, a guest, commands, a fork of it.
set -eu
API=http://127.0.0.1:7878
export SANDBOXD_HOST=$API PATH=$PWD/dist:$PATH

say() { echo "[$(cut -d ' ' -f 1 /proc/uptime) s] $*"; }
fail() {
  say "FAILED: $*"
  echo 'the end of the log of the daemon:'
  tail -n 30 /tmp/daemon.log
  for console in $(find /run/sandboxd /data /tmp -name console.log 2>/dev/null); do
    echo "$console:"
    tail -n 20 "$console"
  done
  exit 1
}
expect() { # expect WANTED COMMAND…
  wanted=$1
  shift
  seen=$(timeout 900 "$@" 2>&1) || fail "$*: $seen"
  [ "$seen" = "$wanted" ] || fail "$*: \"$seen\" instead of \"$wanted\""
  say "$* → $seen"
}

[ "$(uname -m)" = aarch64 ] || fail "this is $(uname -m)"
say "$(sandboxd --version)"
sandboxd --listen 127.0.0.1:7878 --data-dir /data/sandboxd --run-dir /run/sandboxd --image-path-allow /data/guests \
  --probe-timeout-s 600 --boot-timeout-s 1500 --resume-timeout-s 600 --watchdog-timeout-s 0 --template-disk-bytes 0 \
  --engine qemu --log-format json >/tmp/daemon.log 2>&1 &
daemon=$!
for _ in $(seq 600); do
  curl -sf -m 20 $API/healthz >/dev/null && break
  kill -0 $daemon || fail 'the daemon ended'
  sleep 1
done
say 'the daemon serves'
while curl -s -m 60 $API/profiles | grep -q '"state":"trying"'; do sleep 2; done
curl -s -m 60 $API/profiles | grep -o '"engine":{.*' | head -c 600
echo
grep -o '"msg":"[^"]*jail[^"]*"' /tmp/daemon.log || true

created=$(curl -s -m 3000 $API/sandboxes -d '{"image":{"path":"/data/guests/busybox.ext4"},"memory_mib":256,"vcpus":1}')
id=$(echo "$created" | grep -o 'sbx_[a-z0-9]*' | head -n 1) || fail "create: $created"
say "a sandbox booted: $id"
expect 'aarch64' sandbox exec "$id" uname -m
expect 'hello from arm64' sandbox exec "$id" sh -c 'echo hello from arm64 >/root/state; cat /root/state'
status=0
sandbox exec "$id" sh -c 'exit 3' || status=$?
[ "$status" = 3 ] || fail "the exit code is $status instead of 3"
say 'exit codes come through'
fork=$(timeout 1500 sandbox fork "$id" | tail -n 1) || fail 'fork'
say "a fork: $fork"
expect 'hello from arm64' sandbox exec "$fork" cat /root/state
timeout 900 sandbox rm -a || fail 'rm'
kill $daemon
wait $daemon || fail "the daemon ended with $?"
say 'all steps passed'
