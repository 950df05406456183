# `make run` starts a demonstration, `make test` runs every check. The scripts are under .ci/.
.PHONY: run test

run:
	@.ci/setup build
	@. .ci/env && cargo run --locked --ignore-rust-version -- demo

test:
	@.ci/setup test
	@.ci/check
