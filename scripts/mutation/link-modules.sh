#!/bin/sh
# Links the npm packages and the built agent of the tree at $1 into the mutants' sandbox, except for its own workspaces.
set -eu
mkdir node_modules
for entry in "$1"/node_modules/* "$1"/node_modules/.bin; do ln -s "$entry" node_modules/; done
rm node_modules/@sandboxd
cp -a "$1"/node_modules/@sandboxd node_modules/
ln -s "$1"/dist dist
