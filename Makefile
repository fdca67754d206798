# Daily commands of a developer. Every target builds its prerequisites; finished steps are skipped.
.DEFAULT_GOAL := help
SHELL := /bin/sh

# Everything after `setup` runs on the pinned Node, independent of the machine's own.
# npm's name of this machine's architecture
CPU      := $(if $(filter aarch64,$(shell uname -m)),arm64,x64)
NODE     := node_modules/node-linux-$(CPU)/bin/node
DATA_DIR ?= $(CURDIR)/.data
RUN_DIR  ?= /run/sandboxd
PREFIX   ?= /opt/sandboxd
LISTEN   ?= 127.0.0.1:7878
# Custom kernel and initramfs: make run KERNEL=/path/vmlinux INITRD=/path/initramfs
KERNEL   ?=
INITRD   ?=
export KERNEL INITRD
# Baking, network setup, guests and tests of the agent as root need root; building does not.
AS_ROOT  := $(shell test "$$(id -u)" = 0 || echo sudo -E)

.PHONY: help setup setup-tests build check test test-unit test-native test-http test-store mutation test-vm test-fleet test-kvm test-package test-docker test-arm64 test-egress-programs test-code test-e2b test-cloud-hypervisor need-cloud-hypervisor \
  bench run demo clean soak soak-load test-power client install deb apt-repo image test-images

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install missing Debian and npm packages
	@scripts/setup.sh

setup-tests: setup
	@scripts/setup.sh tests

build: setup ## compile dist/sandboxd and dist/sandbox-agent
	@scripts/build-agent.sh
	@$(NODE) scripts/build-sandboxd.ts

client: setup ## build the npm package of the client library and command in dist/client
	@$(NODE) scripts/build-client.ts

install: build ## install the build into PREFIX (/opt/sandboxd)
	@$(AS_ROOT) $(NODE) scripts/install.ts "$(PREFIX)"

deb: image ## build the Debian package, dist/sandboxd_<version>_<architecture>.deb
	@scripts/setup.sh deb
	@$(AS_ROOT) $(NODE) scripts/package/build-deb.ts --data-dir "$(DATA_DIR)"

apt-repo: ## make an apt repository in dist/apt of the built packages (KEY=, DEBS=, OUT=, URL=)
	@scripts/setup.sh deb
	@$(NODE) scripts/package/apt-repo.ts --key "$(KEY)" $(if $(OUT),--out "$(OUT)") $(if $(URL),--url "$(URL)") \
	  $(or $(DEBS),$(wildcard dist/sandboxd_*.deb))

image: build ## prepare the guest kernel and bake the base profile
	@$(AS_ROOT) dist/sandboxd profiles bake base --data-dir "$(DATA_DIR)"

test-images: image
	@$(AS_ROOT) dist/sandboxd profiles bake python-3.11 --data-dir "$(DATA_DIR)"

check: setup ## check format, lint, types, import direction, generated code, pages, comments
	@$(NODE) scripts/check.ts

test: setup-tests test-images deb ## run every test suite, with its prerequisites
	@scripts/build-sanitized.sh
	@echo 'not included: test-arm64, test-docker, test-egress-programs, test-code, test-kvm, test-cloud-hypervisor, and the booted Debian of test-package (hours on an emulated host, or an extra program)'
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) scripts/test.ts unit native contract http package vm

test-e2b: build ## run the published SDKs of E2B and their suites against this build (needs package indexes; VERSION=2.63.0)
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" VERSION="$(VERSION)" $(if $(REPOSITORY),REPOSITORY="$(REPOSITORY)") scripts/test-e2b.sh

test-unit: setup-tests build ## run unit tests, and engine tests against stand-ins of VMMs (ONLY=sandboxes)
	@$(AS_ROOT) $(NODE) scripts/test.ts unit contract $(if $(ONLY),--only "$(ONLY)")

test-native: build ## run the guest's C and C++ under the address and undefined-behaviour sanitizers
	@scripts/build-sanitized.sh
	@$(AS_ROOT) $(NODE) scripts/test.ts native

test-http: setup-tests build ## run tests of the REST interface without guests
	@$(NODE) scripts/test.ts http

test-store: setup-tests ## run the tests of the snapshot store against a real S3 server (S3=http://key:secret@host:port/bucket)
	@test -n "$(S3)" || { echo 'name an S3 server and an existing bucket: make test-store S3=http://key:secret@127.0.0.1:8333/bucket' >&2; exit 2; }
	@S3="$(S3)" $(NODE) test/unit/host-agent/snapshot-store/store.test.ts

test-vm: setup-tests test-images ## run tests in real guests
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) scripts/test.ts vm

test-docker: setup-tests test-images ## run tests of Debian's Docker in a guest
	@$(AS_ROOT) dist/sandboxd profiles bake docs/examples/docker-profile.json --data-dir "$(DATA_DIR)"
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) scripts/test.ts docker

test-arm64: build ## run the daemon and a guest in an emulated arm64 host: tens of minutes
	@scripts/setup.sh arm64
	@$(NODE) scripts/fetch-arm64.ts
	@SANDBOXD_TARGET=arm64 scripts/build-agent.sh
	@SANDBOXD_TARGET=arm64 $(NODE) scripts/build-sandboxd.ts
	@$(AS_ROOT) $(NODE) test/arm64/run.ts --data-dir "$(DATA_DIR)" --kernel-only
	@$(AS_ROOT) test/arm64/guests.sh "$(DATA_DIR)"
	@$(AS_ROOT) $(NODE) test/arm64/run.ts --data-dir "$(DATA_DIR)"

test-egress-programs: setup-tests test-images ## run tests of programs through inspected TLS in a guest (bakes Java, Go, Docker: minutes)
	@$(AS_ROOT) dist/sandboxd profiles bake test/egress-programs/profile.json --data-dir "$(DATA_DIR)"
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) scripts/test.ts egress-programs

test-code: setup-tests test-images ## run tests of the code interpreter in guests (bakes the profile code: minutes)
	@$(AS_ROOT) dist/sandboxd profiles bake code --data-dir "$(DATA_DIR)"
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) scripts/test.ts code

test-fleet: setup-tests test-images ## run tests of fleets, against a real cluster and bucket too (KUBE=kubeconfig S3= CHAOS=seconds KILLS=)
	@$(AS_ROOT) $(NODE) scripts/test.ts http --only fleet
	@$(AS_ROOT) env FLEET_CHAOS="$(or $(CHAOS),60)" $(NODE) test/fleet/chaos.test.ts
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(if $(KILLS),KILLS="$(KILLS)") $(if $(S3),S3="$(S3)") $(NODE) test/fleet/kills.test.ts
	@if [ -n "$(KUBE)" ]; then for name in fleet-contract fleet-e2b-templates; do \
		env KUBE="$(KUBE)" $(if $(S3),S3="$(S3)") $(NODE) test/http/$$name.test.ts || exit 1; \
	done; fi
	@if [ -n "$(S3)" ]; then S3="$(S3)" DATA_DIR="$(DATA_DIR)" $(NODE) test/fleet/drain.test.ts; fi
	@if [ -n "$(KUBE)" ] && [ -n "$(AGENT_SANDBOX)" ]; then \
		KUBE="$(KUBE)" AGENT_SANDBOX="$(AGENT_SANDBOX)" $(NODE) test/fleet/agent-sandbox.test.ts; fi

test-kvm: test-images ## run tests in guests under KVM, in an emulated host: some hours (ONLY=)
	@$(AS_ROOT) $(NODE) test/lab/run.ts --data-dir "$(DATA_DIR)" $(if $(ONLY),--only "$(ONLY)")

test-package: deb ## run lintian, and test the package in a Debian tree and in an emulated Debian (SUITE=bookworm)
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" SUITE="$(SUITE)" $(NODE) scripts/test.ts package
	@$(AS_ROOT) $(NODE) scripts/package/build-deb.ts --data-dir "$(DATA_DIR)" --version 99.0.0 --out dist/upgrade
	@$(AS_ROOT) $(NODE) test/package/run.ts --data-dir "$(DATA_DIR)" $(if $(SUITE),--suite "$(SUITE)") \
	  --old dist/sandboxd_[0-9]*_amd64.deb --new dist/upgrade/sandboxd_99.0.0_amd64.deb

test-cloud-hypervisor: need-cloud-hypervisor test-images ## run the tests of test-kvm on Cloud Hypervisor (CLOUD_HYPERVISOR=, ONLY=)
	@$(AS_ROOT) $(NODE) test/lab/run.ts --data-dir "$(DATA_DIR)" $(if $(ONLY),--only "$(ONLY)") \
	  --engine cloud-hypervisor --program "$(CLOUD_HYPERVISOR)"

need-cloud-hypervisor:
	@test -x "$(CLOUD_HYPERVISOR)" || { \
	  echo 'This target needs the cloud-hypervisor program, 53.0 or newer, which Debian does not package (docs/install.md):' >&2; \
	  echo '  make test-cloud-hypervisor CLOUD_HYPERVISOR=/path/to/cloud-hypervisor' >&2; exit 2; }

mutation: setup-tests build ## run mutation tests (MODULE=sandboxes or sandboxes/create.ts, SAMPLE=10 SEED=3)
	@$(AS_ROOT) $(NODE) scripts/mutation.ts $(MODULE) $(if $(SAMPLE),--sample "$(SAMPLE)") $(if $(SEED),--seed "$(SEED)")

bench: test-images ## run benchmarks and write docs/measurements/bench.md (ENGINE= selects another engine)
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(if $(ENGINE),SANDBOXD_TEST_ENGINE="$(ENGINE)") $(NODE) test/bench/run.ts

bench-fleet: setup-tests ## measure what a gateway adds to creates and execs
	@$(NODE) test/bench/fleet.ts

soak: setup-tests test-images ## run thousands of operations, then HOURS (1) of load with faults, and check for leaks
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) test/bench/soak.ts
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" SOAK=1 $(NODE) scripts/test.ts unit http vm
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) test/soak/many-sandboxes.test.ts
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) test/power/run.ts
	@$(MAKE) --no-print-directory soak-load

soak-load: setup-tests test-images ## run only the load with faults of a soak, and plot what it uses (HOURS=1)
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(if $(HOURS),HOURS="$(HOURS)") $(NODE) test/soak/run.ts

test-power: setup-tests test-images ## cut the power of a disk under load (CUTS=20 SECONDS=60 SEED= AT=)
	@$(AS_ROOT) env DATA_DIR="$(DATA_DIR)" $(NODE) test/power/run.ts $(if $(CUTS),--cuts "$(CUTS)") \
	  $(if $(SECONDS),--seconds "$(SECONDS)") $(if $(SEED),--seed "$(SEED)") $(if $(AT),--at "$(AT)")

run: image ## run the daemon in the foreground (LISTEN=, DATA_DIR=)
	@exec $(AS_ROOT) dist/sandboxd --listen "$(LISTEN)" --data-dir "$(DATA_DIR)" --run-dir "$(RUN_DIR)" \
	  $(if $(KERNEL),--kernel "$(KERNEL)") $(if $(INITRD),--initrd "$(INITRD)")

demo: image ## start a daemon, run a command in a microVM, and stop it again
	@$(AS_ROOT) $(NODE) scripts/demo.ts --data-dir "$(DATA_DIR)"

clean: ## remove the build (baked images in .data stay)
	rm -rf dist node_modules/.cache
