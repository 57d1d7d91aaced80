# Commands for developers and CI. `make demo` runs all features.

.PHONY: targets demo test test-features test-matrix test-control-plane test-differential test-crashes check book bench dist control-plane kind-test docker-test kwok-test

SCRIPTS := $(shell git grep -lE '^.!/(bin|usr/bin)/|shellcheck shell' .ci kind-configs)

demo: ## tells one story in ten seconds, then runs every feature on the emulator and compares every snapshot
	cargo run --profile demo --quiet --package schedlab --no-default-features -- demo --suite

test: ## all tests, and every feature
	cargo test --workspace
	@$(MAKE) --no-print-directory test-control-plane test-crashes

test-features: ## every feature on the emulator
	cargo run --quiet --package schedlab -- run features --results results/emulator

CRASH_BEFORE = every:29

test-crashes: ## gang and reclaim features with scheduler crashes violate no rule (CRASH_BEFORE=each: before each write)
	cargo run --quiet --package schedlab -- run features/gang features/reclaim --crash-before $(CRASH_BEFORE) \
	  --results results/crashes

# VERSION=1.35.4 chooses another version than the newest, here and in control-plane.
CONTROL_PLANE = $(or $(KUBEBUILDER_ASSETS),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/schedlab/control-plane/$(shell VERSION=$(VERSION) kind-configs/control-plane/build --version))

AREAS = borrowing devices gang lab placement priority quota reclaim robustness upgrade

test-control-plane: test-features ## features on a real control plane, if it is built, with the outcomes of the emulator
	@if [ -x "$(CONTROL_PLANE)/kube-apiserver" ]; then set -e; \
	  cargo run --quiet --package schedlab -- run $(AREAS:%=features/%) \
	    --cluster control-plane --assets "$(CONTROL_PLANE)" --retries 2 --results results/control-plane \
	    --baseline results/emulator/latest --expected-differences docs/reference/cluster-differences.md; \
	elif [ -n "$(findstring control-plane,$(SCHEDLAB_REQUIRE))" ]; then echo "no control plane in $(CONTROL_PLANE): run make control-plane"; exit 1; \
	else echo "skipped: features on a control plane (make control-plane builds one)"; fi

MATRIX_TARGETS = kube-scheduler kai kueue yunikorn
MATRIX_PART = quota.limit quota.limit-raised gang.waits-whole gang.starts-whole gang.none-without-room preemption.order \
  fairness.reclaim fairness.within-quota-safe placement.taint placement.node-affinity devices.one-node robustness.running-recreated

test-matrix: ## a part of the profile with schedulers that make targets built: what passed in docs/conformance passes again
	@set -e; for target in $(MATRIX_TARGETS); do \
	  cargo run --quiet --package schedlab -- conform --target $$target $(MATRIX_PART:%=--only %) --retries 2 \
	    --baseline-report docs/conformance/$$target/conformance.yaml --report results/matrix/$$target; done

check: ## the checks that every commit must pass
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; \
	else echo "skipped: cargo deny check (cargo install cargo-deny --locked)"; fi
	@if typos --version >/dev/null 2>&1; then typos; \
	else echo "skipped: typos (cargo install typos-cli --locked)"; fi
	@if shellcheck --version >/dev/null 2>&1; then shellcheck $(SCRIPTS); \
	else echo "skipped: shellcheck (apt-get install shellcheck)"; fi

book: ## the docs as a book, in target/book
	@if mdbook --version >/dev/null 2>&1; then mdbook build docs; \
	else echo "skipped: book (cargo install mdbook --locked)"; fi

bench: ## speed and memory, as docs/benchmarks.md quotes them
	cargo bench --quiet --package schedlab --bench figures
	cargo bench --quiet --package schedlab --bench binding
	cargo bench --quiet --package schedlab --bench gangs

dist: ## release archives with checksums, manual pages and completions, in target/dist
	@kind-configs/dist

test-differential: ## responses of the emulator and of the real kube-apiserver (VERSION=1.35: of that version)
	KUBEBUILDER_ASSETS="$(CONTROL_PLANE)" SCHEDLAB_REQUIRE=control-plane cargo test --quiet --package schedlab-emulator --test real

control-plane: ## builds etcd, kube-apiserver and the other control plane programs into the user's cache, once
	@VERSION=$(VERSION) kind-configs/control-plane/build

targets: ## builds the schedulers of other projects for `schedlab conform` (TARGETS="kai kueue": only these)
	@kind-configs/targets/build $(TARGETS)

kind-test: ## the main areas on a kind cluster with the scheduler as a Deployment; builds its prerequisites
	@kind-configs/test

docker-test: ## the main areas in a container of our own image, and kind-test; skipped if docker cannot run
	@kind-configs/docker-test

kwok-test: ## features on a control plane whose nodes kwok simulates; builds its prerequisites
	@kind-configs/kwok-test
