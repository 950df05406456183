//! Exchanges of the RFCs, and clients that send something else.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::client::Client;
use super::*;

/// Its comma and its equals sign are encoded in the client's message.
const NAME: &str = "a,b=c@example.org";

fn exchange(mechanism: Mechanism) -> Exchange {
    Exchange::new(mechanism, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".into(), None)
}

fn keys_of(password: &str, salt: &[u8]) -> AccountKeys {
    let iterations = NonZeroU32::new(4096).unwrap();
    let keys = vec![derive_keys(password, salt, iterations)];
    AccountKeys { salt: salt.to_vec(), iterations: 4096, keys }
}

fn password(authorization: Option<&str>, name: &str, password: &str) -> Step {
    Step::Ask(Question::Password {
        authorization: authorization.map(Into::into),
        name: name.into(),
        password: password.into(),
    })
}

#[test]
fn plain_exchanges_of_rfc_4616() {
    let mut plain = exchange(Mechanism::Plain);
    assert_eq!(
        plain.begin(Some(b"\0tim\0tanstaaftanstaaf")),
        password(None, "tim", "tanstaaftanstaaf")
    );
    assert_eq!(plain.accept(), Step::Success(None));
    let mut plain = exchange(Mechanism::Plain);
    assert_eq!(plain.begin(None), Step::Challenge(Vec::new()));
    let step = plain.respond(b"Ursel\0Kurt\0xipj3plmq");
    assert_eq!(step, password(Some("Ursel"), "Kurt", "xipj3plmq"));
    assert_eq!(plain.reject(), Step::Failure(SaslFailure::Credentials));
}

#[test]
fn plain_refuses_malformed_responses() {
    let long = [b"\0a\0".as_slice(), &[b'p'; MAX_RESPONSE_BYTES]].concat();
    for response in [
        b"".as_slice(),
        b"tim",
        b"\0tim",
        b"\0tim\0",
        b"\0\0secret",
        b"\0tim\0secret\0",
        b"\0tim\0\xff\xfe",
        &long,
    ] {
        let step = exchange(Mechanism::Plain).begin(Some(response));
        assert_eq!(step, Step::Failure(SaslFailure::Malformed), "{}", response.escape_ascii());
    }
}

#[test]
fn login_asks_for_name_and_password_and_takes_no_initial_response() {
    let mut login = exchange(Mechanism::Login);
    assert_eq!(login.begin(None), Step::Challenge(b"Username:".to_vec()));
    assert_eq!(login.respond(b"ann@example.org"), Step::Challenge(b"Password:".to_vec()));
    assert_eq!(login.respond(b"s3cret"), password(None, "ann@example.org", "s3cret"));
    assert_eq!(login.accept(), Step::Success(None));
    let step = exchange(Mechanism::Login).begin(Some(b"ann"));
    assert_eq!(step, Step::Failure(SaslFailure::Malformed));
}

/// RFC 7677 §3.
#[test]
fn scram_exchange_of_rfc_7677() {
    let mut scram = exchange(Mechanism::ScramSha256);
    let step = scram.begin(Some(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"));
    assert_eq!(step, Step::Ask(Question::Keys { name: "user".into() }));
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let account = keys_of("pencil", &salt);
    let keys = account.keys[0].clone();
    let step = scram.challenge_with(account);
    let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert_eq!(step, Step::Challenge(challenge.into()));
    let step = scram.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
          p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    );
    let name = "user".into();
    assert_eq!(step, Step::Ask(Question::Proof { authorization: None, name, keys }));
    let last = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    assert_eq!(scram.accept(), Step::Success(Some(last.to_vec())));
}

/// Runs the client against an exchange that is given these keys. Returns the exchange's last step.
fn log_in(client: &Client, server: &mut Exchange, keys: AccountKeys) -> Step {
    match server.begin(Some(&client.first())) {
        Step::Ask(Question::Keys { name }) => assert_eq!(name, NAME),
        step => return step,
    }
    let Step::Challenge(challenge) = server.challenge_with(keys) else { panic!() };
    server.respond(&client.last(&challenge))
}

/// RFC 5802 §5.1: `=2C` and `=3D` in names, because `NAME` has a comma and an equals sign.
#[test]
fn scram_finds_which_of_several_passwords_the_client_has() {
    let mut keys = keys_of("one", b"salt");
    for other in ["two", "three"] {
        keys.keys.extend(keys_of(other, b"salt").keys);
    }
    for (password, key) in [("one", Some(0)), ("two", Some(1)), ("three", Some(2)), ("four", None)]
    {
        let mut server = exchange(Mechanism::ScramSha256);
        let client = Client::with_header("n,a=boss,", NAME, password);
        let expected = key.map_or(Step::Failure(SaslFailure::Credentials), |key| {
            let authorization = Some("boss".into());
            let (name, keys) = (NAME.into(), keys.keys[key].clone());
            Step::Ask(Question::Proof { authorization, name, keys })
        });
        assert_eq!(log_in(&client, &mut server, keys.clone()), expected, "{password}");
    }
    // An account without keys, or a name that no account has.
    let mut server = exchange(Mechanism::ScramSha256);
    let nobody = AccountKeys { keys: Vec::new(), ..keys };
    let step = log_in(&Client::with_header("n,,", NAME, "one"), &mut server, nobody);
    assert_eq!(step, Step::Failure(SaslFailure::Credentials));
}

#[test]
fn password_for_scram_is_prepared() {
    let mut server = exchange(Mechanism::ScramSha256);
    let client = Client::with_header("n,,", NAME, "p IX");
    let step = log_in(&client, &mut server, keys_of("p\u{a0}\u{2168}", b"salt"));
    assert!(matches!(step, Step::Ask(Question::Proof { .. })), "{step:?}");
}

/// RFC 5802 §6, RFC 9266.
#[test]
fn scram_is_bound_to_its_connection_if_client_and_server_can_do_so() {
    let exporter = ChannelBinding([7; 32]);
    let with = |mechanism, binding: Option<&ChannelBinding>| {
        Exchange::new(mechanism, "nonce".into(), binding.cloned())
    };
    let client = |header, binding: &[u8]| Client {
        binding: binding.to_vec(),
        ..Client::with_header(header, NAME, "pencil")
    };
    use Mechanism::{ScramSha256 as Bare, ScramSha256Plus as Plus};
    let refused = Step::Failure(SaslFailure::ChannelBinding);
    let wrong = Step::Failure(SaslFailure::Credentials);
    for (mechanism, server, client, expected) in [
        (Plus, Some(&exporter), client("p=tls-exporter,,", &[7; 32]), None),
        (Plus, Some(&exporter), client("p=tls-exporter,,", &[8; 32]), Some(&wrong)),
        (Plus, Some(&exporter), client("p=tls-exporter,,", &[]), Some(&wrong)),
        (Plus, Some(&exporter), client("p=tls-unique,,", &[7; 32]), Some(&refused)),
        (Plus, Some(&exporter), client("n,,", &[]), Some(&refused)),
        // Without bytes to be bound to, the mechanism is not offered.
        (Plus, None, client("p=tls-exporter,,", &[]), Some(&refused)),
        (Plus, None, client("p=tls-exporter,,", &[7; 32]), Some(&refused)),
        (Plus, None, client("n,,", &[]), Some(&refused)),
        (Bare, Some(&exporter), client("n,,", &[]), None),
        (Bare, Some(&exporter), client("n,,", &[7; 32]), Some(&wrong)),
        // The client was made to believe that there is no -PLUS.
        (Bare, Some(&exporter), client("y,,", &[]), Some(&refused)),
        (Bare, None, client("y,,", &[]), None),
        (Bare, None, client("p=tls-exporter,,", &[7; 32]), Some(&refused)),
    ] {
        let step = log_in(&client, &mut with(mechanism, server), keys_of("pencil", b"salt"));
        match expected {
            Some(expected) => assert_eq!(&step, expected, "{mechanism:?} {}", client.header),
            None => assert!(matches!(step, Step::Ask(Question::Proof { .. })), "{step:?}"),
        }
    }
    let offered = |binding| Mechanism::offered(binding).map(Mechanism::name).collect::<Vec<_>>();
    assert_eq!(offered(None), ["SCRAM-SHA-256", "OAUTHBEARER", "PLAIN", "LOGIN"]);
    assert_eq!(offered(Some(&exporter))[0], "SCRAM-SHA-256-PLUS");
}

#[test]
fn scram_refuses_malformed_messages() {
    for first in [
        "",
        "n",
        "n,,",
        "n,,n=,r=x",
        "n,,n=user",
        "n,,r=x,n=user",
        "n,,n=user,r=",
        "n,,n=us=er,r=x",
        "n,,n=us=2cer,r=x",
        "n,,m=ext,n=user,r=x",
        "n,x=1,n=user,r=x",
        "x,,n=user,r=x",
        "n,,n=user,r=\u{e9}",
        "n,a=,n=user,r=x",
    ] {
        let step = exchange(Mechanism::ScramSha256).begin(Some(first.as_bytes()));
        assert_eq!(step, Step::Failure(SaslFailure::Malformed), "{first}");
    }
    let good = Client::with_header("n,,", NAME, "pencil");
    let keys = keys_of("pencil", b"salt");
    for change in [
        |last: &str| last.replace(",p=", ",q="),
        |last: &str| last.replace("c=biws", "c=eSws"),
        |last: &str| last.replace("r=fyko", "r=fykO"),
        |last: &str| format!("{last}="),
        |last: &str| last[..last.len() - 8].to_owned(),
        |_: &str| String::new(),
    ] {
        let mut server = exchange(Mechanism::ScramSha256);
        drop(server.begin(Some(&good.first())));
        let Step::Challenge(challenge) = server.challenge_with(keys.clone()) else { panic!() };
        let last = String::from_utf8(good.last(&challenge)).unwrap();
        let step = server.respond(change(&last).as_bytes());
        assert_eq!(step, Step::Failure(SaslFailure::Credentials), "{}", change(&last));
        // An exchange that failed is over, even for the right message.
        assert_eq!(server.respond(last.as_bytes()), Step::Failure(SaslFailure::Malformed));
    }
}

/// RFC 7628 §4.1, §4.3.
#[test]
fn bearer_exchanges_of_rfc_7628() {
    let first = b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01\
                  auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01";
    let mut bearer = exchange(Mechanism::OAuthBearer);
    let question = Question::Token {
        authorization: Some("user@example.com".into()),
        token: "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==".into(),
    };
    assert_eq!(bearer.begin(Some(first)), Step::Ask(question));
    assert_eq!(bearer.accept(), Step::Success(None));
    // The failure comes as a challenge, which the client answers.
    let mut bearer = exchange(Mechanism::OAuthBearer);
    drop(bearer.begin(Some(first)));
    let Step::Challenge(error) = bearer.reject() else { panic!() };
    let error: serde_json::Value = serde_json::from_slice(&error).unwrap();
    assert_eq!(error["status"], "invalid_token");
    assert_eq!(bearer.respond(b"\x01"), Step::Failure(SaslFailure::Credentials));
    // The client asks how to get a token.
    let mut bearer = exchange(Mechanism::OAuthBearer);
    let step = bearer.begin(Some(b"n,a=user@example.com,\x01host=x\x01auth=\x01\x01"));
    assert!(matches!(step, Step::Challenge(_)), "{step:?}");
    assert_eq!(bearer.respond(b"\x01"), Step::Failure(SaslFailure::Credentials));
}

#[test]
fn bearer_refuses_malformed_responses() {
    for response in [
        "",
        "\u{1}",
        "n,,",
        "n,,\u{1}\u{1}",
        "n,,\u{1}auth=Bearer x\u{1}",
        "n,,\u{1}auth=Bearer \u{1}\u{1}",
        "n,,\u{1}auth=Basic x\u{1}\u{1}",
        "n,,\u{1}auth=Bearer x\u{1}auth=Bearer y\u{1}\u{1}",
        "n,,\u{1}=x\u{1}auth=Bearer x\u{1}\u{1}",
        "p=tls-exporter,,\u{1}auth=Bearer x\u{1}\u{1}",
    ] {
        let step = exchange(Mechanism::OAuthBearer).begin(Some(response.as_bytes()));
        assert_eq!(step, Step::Failure(SaslFailure::Malformed), "{}", response.escape_debug());
    }
}

#[test]
fn mechanisms_are_found_by_name() {
    assert_eq!(Mechanism::named("plain"), Some(Mechanism::Plain));
    assert_eq!(Mechanism::named("DIGEST-MD5"), None);
    for mechanism in Mechanism::ALL {
        assert_eq!(Mechanism::named(mechanism.name()), Some(mechanism));
    }
}

#[test]
fn credentials_are_not_in_debug_output() {
    let mut plain = exchange(Mechanism::Plain);
    let step = plain.begin(Some(b"\0tim\0tanstaaf"));
    assert_eq!(
        format!("{step:?} {plain:?}"),
        "Ask(Password(..)) Exchange { mechanism: Plain, .. }"
    );
    let keys = keys_of("pencil", b"salt");
    assert_eq!(format!("{keys:?} {:?}", keys.keys[0]), "AccountKeys(1 keys) ScramKeys(..)");
    assert_eq!(format!("{:?}", ChannelBinding([1; 32])), "ChannelBinding(..)");
}

proptest! {
    #[test]
    fn any_name_and_password_pass_through_plain(
        name in "[^\\x00]{1,40}",
        secret in "[^\\x00]{1,40}",
    ) {
        let response = format!("\0{name}\0{secret}");
        let step = exchange(Mechanism::Plain).begin(Some(response.as_bytes()));
        prop_assert_eq!(step, password(None, &name, &secret));
    }
}
