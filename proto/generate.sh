#!/bin/sh
# Generates src/gen/agent.{js,d.ts} from agent.proto. `make check` runs it into a temporary folder and compares.
# 64-bit fields are plain numbers: each is a count or a time in units that stay below 2^53.
set -eu
out=${1:-$(dirname "$0")/src/gen}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")"
../node_modules/.bin/pbjs -t static-module -w esm --dependency protobufjs/minimal.js --force-number \
  --no-verify --no-convert --no-delimited --no-typeurl --no-service -d -o "$out/agent.js" agent.proto
