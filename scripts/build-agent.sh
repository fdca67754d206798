#!/bin/sh
# Builds the guest agent into dist/agent/, which every guest has at /.sandbox/: the executable, the native addon, and
# the dynamic loader with the libraries of both. Also builds dist/guest-init, the initramfs's init. Does nothing when
# no input has changed. SANDBOXD_TARGET=arm64 builds for that architecture on another one, into dist/arm64.
set -eu
cd "$(dirname "$0")/.."

case $(uname -m) in
  aarch64) host=arm64 ;;
  *) host=x64 ;;
esac
target=${SANDBOXD_TARGET:-$host}
case $target in
  arm64) loader=ld-linux-aarch64.so.1 ;;
  x64) loader=ld-linux-x86-64.so.2 ;;
  *) target=unknown ;;
esac
if [ "$target" != "$host" ] && [ "$target" != arm64 ]; then
  echo "build-agent: SANDBOXD_TARGET=${SANDBOXD_TARGET:-}: only arm64 can be built on another architecture" >&2
  exit 1
fi
builder=node_modules/node-linux-$host/bin/node
# `tools`: before the names of compilers. `runs`: whether what is built runs here.
if [ "$target" = "$host" ]; then
  dist=dist modules=node_modules tools='' runs=1
else
  dist=dist/$target modules=dist/$target/npm/node_modules tools=aarch64-linux-gnu- runs=''
fi
node_package=$modules/node-linux-$target
node=$node_package/bin/node
out=$dist/agent
work=$dist/.agent-build

init_source=rootfs-builder/initramfs/init.c
init_options='-std=gnu11 -static -Os -s -Wall -Wextra -Werror'
init_stamp=$dist/.guest-init-stamp
init_wanted=$({ cat rootfs-builder/initramfs/*; echo "$init_options"; "${tools}gcc" --version; } | sha256sum)
if [ ! -x $dist/guest-init ] || [ "$(cat $init_stamp 2>/dev/null)" != "$init_wanted" ]; then
  echo "building the guest's init" >&2
  mkdir -p $dist
  # Static, because an initramfs has no libraries.
  # shellcheck disable=SC2086
  "${tools}gcc" $init_options -o $dist/.guest-init.tmp $init_source
  mv $dist/.guest-init.tmp $dist/guest-init
  printf '%s\n' "$init_wanted" > $init_stamp
fi

# Path of a library of the target.
library() { "${tools}gcc" -print-file-name="$1"; }

fingerprint() {
  {
    find guest-agent/native guest-agent/src proto/src guest-agent/sea.json scripts/build-agent.sh -type f | LC_ALL=C sort | xargs sha256sum
    cat $node_package/package.json node_modules/esbuild/package.json
    "${tools}g++" --version
    stat -L -c '%s %Y' "$(library libc.so.6)"
  } | sha256sum | cut -d' ' -f1
}

wanted=$(fingerprint)
if [ -f $out/.stamp ] && [ "$(cat $out/.stamp)" = "$wanted" ]; then
  exit 0
fi
if [ ! -f $node ]; then
  echo "build-agent: $node is missing; run 'npm ci' first" >&2
  exit 1
fi
echo "building the guest agent" >&2
rm -rf $work
mkdir -p $work/lib

echo "  native addon" >&2
"${tools}g++" -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -shared -fno-exceptions -fno-rtti -fvisibility=hidden -s \
  -isystem node_modules/node-api-headers/include -isystem $node_package/include/node \
  guest-agent/native/*.cc -o $work/agent.node

echo "  bundle" >&2
node_modules/.bin/esbuild guest-agent/src/main.ts --bundle --platform=node --target=node26 --format=cjs \
  --minify-syntax --minify-whitespace --legal-comments=none --external:long --log-level=warning --outfile=$work/main.cjs

# A runtime without symbols: stripping the finished executable would break it. Cached, because it takes seconds.
runtime=$dist/.runtime/node-$(sha256sum $node_package/package.json | cut -c1-16)
if [ ! -x "$runtime" ]; then
  echo "  runtime" >&2
  mkdir -p $dist/.runtime
  "${tools}strip" -o "$runtime.tmp" $node
  [ -z "$runs" ] || "$runtime.tmp" -e 0
  mv "$runtime.tmp" "$runtime"
fi

echo "  executable" >&2
# Code of another architecture cannot be compiled here.
if [ -n "$runs" ]; then builder=$runtime cache=true; else cache=false; fi
sed "s|RUNTIME|$runtime|; s|WORK|$work|g; s|\"useCodeCache\": true|\"useCodeCache\": $cache|" guest-agent/sea.json > $work/sea.json
"$builder" --build-sea $work/sea.json > $work/sea.log 2>&1 || { cat $work/sea.log >&2; exit 1; }
chmod 755 $work/sandbox-agent

echo "  libraries" >&2
# Node needs all libraries that these libraries need.
list_libraries() {
  if [ -n "$runs" ]; then
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\/.*ld-linux/ { print $1 }'
  else
    "${tools}readelf" -d "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | while read -r name; do library "$name"; done
  fi
}
list_libraries $work/sandbox-agent $work/agent.node | sort -u | while read -r library; do cp -L "$library" $work/lib/; done
[ -x $work/lib/$loader ] || { echo "build-agent: the dynamic loader was not found" >&2; exit 1; }

rm -rf $work/main.cjs $work/sea.json $work/sea.log
printf '%s\n' "$wanted" > $work/.stamp
rm -rf $out
mv $work $out
ln -sfn agent/sandbox-agent $dist/sandbox-agent
du -sh $out | sed 's/^/  /' >&2
