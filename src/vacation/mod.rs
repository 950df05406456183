//! L2: who is answered, how, how often; pure.
