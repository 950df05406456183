//! L4: one message in, as many outcomes out as it has recipients.
