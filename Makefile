# Everything is in plain scripts under .ci/; `make run` shows the program at work, `make test` proves it.
.PHONY: run test

run:
	@.ci/setup build
	@. .ci/env && cargo run --locked --ignore-rust-version -- demo

test:
	@.ci/setup test
	@.ci/check
