//! L0: tracing set-up; names of spans and fields; no message content.
