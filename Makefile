# schedlab: what people and CI type. `make demo` is the main job.

.PHONY: demo test check bench

demo: ## boots the fleets, runs every feature, compares every snapshot
	cargo run --release --quiet --package schedlab -- run features

test: ## everything that must hold
	cargo test --workspace

check: ## what every commit passes
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings

bench: ## speed and size, as the README quotes them
	cargo bench --workspace
