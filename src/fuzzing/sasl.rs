//! The fuzz body of logins with SASL.

use super::{InputRng, bounded};
use crate::model::ScramKeys;
use crate::wire::sasl::{
    AccountKeys, ChannelBinding, Exchange, MAX_RESPONSE_BYTES, Mechanism, Question, Step,
};

/// Logs in with each mechanism and with any responses, one a line. Each exchange ends, its
/// challenges are bounded, and it succeeds only after its credentials were accepted.
pub fn sasl(data: &[u8]) {
    let data = bounded(data);
    let mut rng = InputRng::of(data);
    for mechanism in Mechanism::ALL {
        for binding in [None, Some(ChannelBinding([7; 32]))] {
            log_in(data, mechanism, binding, &mut rng);
        }
    }
}

/// Logs in with one mechanism. The lines of `data` are the responses of the client, of which the
/// first may be the initial one.
fn log_in(data: &[u8], mechanism: Mechanism, binding: Option<ChannelBinding>, rng: &mut InputRng) {
    let mut responses = data.split(|byte| *byte == b'\n');
    let is_refused = mechanism == Mechanism::ScramSha256Plus && binding.is_none();
    let mut exchange = Exchange::new(mechanism, "nonce".into(), binding);
    let with_initial = rng.upto(1) == 1;
    let initial = if with_initial { responses.next() } else { None };
    let mut step = exchange.begin(initial);
    let (mut accepted, mut challenges) = (false, 0);
    loop {
        step = match step {
            Step::Challenge(challenge) => {
                challenges += 1;
                // Most mechanisms have one or two challenges.
                assert!(challenges <= 3, "{mechanism:?} does not end");
                assert!(challenge.len() <= MAX_RESPONSE_BYTES + 200, "a long challenge");
                // The client has gone.
                let Some(response) = responses.next() else { return };
                exchange.respond(response)
            }
            Step::Ask(Question::Keys { name }) => {
                assert!(!is_refused, "there is nothing that the login could be bound to");
                check_text(&name);
                let keys = ScramKeys { stored_key: [1; 32], server_key: [2; 32] };
                let (salt, iterations) = (b"salt".to_vec(), 4096);
                exchange.challenge_with(AccountKeys { salt, iterations, keys: vec![keys] })
            }
            Step::Ask(Question::Proof { .. }) => panic!("nobody has a password with these keys"),
            Step::Ask(Question::Password { name, password, .. }) => {
                check_text(&name);
                check_text(&password);
                accepted = rng.upto(1) == 1;
                if accepted { exchange.accept() } else { exchange.reject() }
            }
            Step::Ask(Question::Token { token, .. }) => {
                check_text(&token);
                accepted = rng.upto(1) == 1;
                if accepted { exchange.accept() } else { exchange.reject() }
            }
            Step::Success(_) => {
                assert!(accepted, "{mechanism:?} succeeds without credentials");
                return;
            }
            Step::Failure(_) => {
                assert!(matches!(exchange.respond(b"x"), Step::Failure(_)), "a failure is final");
                assert!(matches!(exchange.accept(), Step::Failure(_)), "a failure is final");
                return;
            }
        };
    }
}

/// Checks a name, a password or a token: it is not empty, and not longer than a response.
fn check_text(text: &str) {
    assert!((1..=MAX_RESPONSE_BYTES).contains(&text.len()), "{} bytes", text.len());
}
