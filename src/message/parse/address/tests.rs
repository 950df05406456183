use proptest::prelude::*;

use super::*;
use crate::message::parse::addresses;

fn parsed(value: &str) -> String {
    let one = |person: EmailAddress| match person.name {
        Some(name) => format!("{name}|{}", person.email),
        None => person.email,
    };
    addresses(value.as_bytes()).into_iter().map(one).collect::<Vec<_>>().join("; ")
}

#[test]
fn control_characters_of_quoted_strings_are_dropped() {
    for (value, wanted) in [
        ("\"a\u{1}b\"@x", "ab@x"),
        ("Ann <\"a\\\u{1}\u{85} b\"@x>", "Ann|\"a b\"@x"),
        ("\"A\u{1}nn\" <a@x>", "Ann|a@x"),
    ] {
        assert_eq!(parsed(value), wanted, "{value:?}");
    }
}

#[test]
fn phrase_keeps_one_blank_between_words() {
    for (value, wanted) in [
        (" First \"M.\" Last <a@x>", "First M. Last|a@x"),
        ("\"First\" \"Last\" <a@x>", "First Last|a@x"),
        ("=?utf-8?q?J=C3=BC?= \"M.\" =?utf-8?q?L?= =?utf-8?q?ee?= <a@x>", "Jü M. Lee|a@x"),
        ("John Q. Public <a@x>", "John Q. Public|a@x"),
        ("=?utf-8?Q?Smith,_John?= <a@x>, b@x", "Smith, John|a@x; b@x"),
        ("=?utf-8?q?Joe?=<a@x>", "Joe|a@x"),
        ("\"=?utf-8?q?J=C3=BC?=, B\" <a@x>", "Jü, B|a@x"),
        ("=?iso-2022-jp?B?GyRCJTkbKEI=?= =?iso-2022-jp?B?GyRCJVElYBsoQg==?= <a@x>", "スパム|a@x"),
        ("A\t B   C <a@x>", "A B C|a@x"),
    ] {
        assert_eq!(parsed(value), wanted, "{value}");
    }
}

/// RFC 8621 §4.1.2.3 takes the name from the comment.
#[test]
fn comment_after_an_unnamed_address_is_its_name() {
    for (value, wanted) in [
        ("Ann <a@x> (home)", "Ann|a@x"),
        ("Ann (home) <a@x>", "Ann|a@x"),
        ("(home) a@x", "a@x"),
        ("(no) a@x (Ann (B) \\) =?utf-8?q?=C3=BC?=) (no)", "Ann (B) ) ü|a@x"),
        ("<a@x> (Ann)", "Ann|a@x"),
        ("root (Cron Daemon)", "Cron Daemon|root"),
    ] {
        assert_eq!(parsed(value), wanted, "{value}");
    }
}

#[test]
fn unusual_addresses_are_parsed_as_meant() {
    for (value, wanted) in [
        ("<@relay.example,@b.example:a@x>", "a@x"),
        ("Ann <@relay.example:a@x>, b@x", "Ann|a@x; b@x"),
        ("\"a\\\"b\"@x, c@x", "\"a\\\"b\"@x; c@x"),
        ("B <\"a\\\\\\\"b\"@x>", "B|\"a\\\\\\\"b\"@x"),
        ("\"a b\"@x, \"c\"@x, B <\"d e\"@x>, <\"f\"@x>", "\"a b\"@x; c@x; B|\"d e\"@x; f@x"),
        ("<=?utf-8?q?a?=@x>, =?utf-8?q?b?=@x", "=?utf-8?q?a?=@x; =?utf-8?q?b?=@x"),
        ("a@x>, Ann <<b@x>>", "a@x; Ann|b@x"),
        ("< a(c)@ x >, a @ x . y", "a@x; a@x.y"),
        ("a@[IPv6:2001:db8::1], b@[192.0.2.1]", "a@[IPv6:2001:db8::1]; b@[192.0.2.1]"),
        ("Ann <a@x, Bob <b@x>, <c@x", "Ann|a@x; Bob|b@x; c@x"),
        ("John Smith j@x", "John Smith|j@x"),
        ("jürgen@bücher.example", "jürgen@bücher.example"),
        ("draft, A B", "draft; A B|"),
        ("\"draft\"", "draft|"),
        ("a@x (open", "open|a@x"),
    ] {
        assert_eq!(parsed(value), wanted, "{value}");
    }
}

/// Regression test: the second mailbox of `Ann <a@x> Bob <b@x>` was lost, and no reply went to it.
#[test]
fn mailboxes_without_commas_are_all_parsed() {
    for (value, wanted) in [
        ("Ann <a@x> Bob <b@x>", "Ann|a@x; Bob|b@x"),
        ("<a@x><b@x>", "a@x; b@x"),
        ("\"A, B\" <a@x> (home) \"C, D\" <b@x> (Dan), e@x", "A, B|a@x; C, D|b@x; e@x"),
        ("<a@x> (Ann) (old) <b@x> Bob", "Ann|a@x; Bob|b@x"),
        ("Ann <a@x> b@y", "Ann|a@x; b@y"),
        ("a@x b@y", "a@x; b@y"),
        ("John Smith j@x (work) \"B\" b@y (no) \"c d\"@z", "John Smith|j@x; B|b@y; \"c d\"@z"),
        ("Team: Ann <a@x> Bob <b@x>;, c@x", "Ann|a@x; Bob|b@x; c@x"),
        // These are one mailbox. After an address in brackets, `b @ y` is not taken for another.
        ("<a@x> (Ann) Bob b @ y", "Ann|a@x"),
        ("ann@x <a@x>", "ann@x|a@x"),
        ("ann@x bob@y <a@x>", "ann@x bob@y|a@x"),
        ("\"b@y\" <a@x>", "b@y|a@x"),
        ("a@x <a@x> <a@x>", "a@x|a@x"),
        ("a@x a@x", "a@x"),
        ("a@x [b@y]", "[b@y]|a@x"),
        ("a@x \"b@y\"", "b@y|a@x"),
        ("a@x (b@y)", "b@y|a@x"),
        ("<a@x> Ann B", "Ann B|a@x"),
        ("a@x Ann", "Ann|a@x"),
    ] {
        assert_eq!(parsed(value), wanted, "{value}");
    }
}

/// Regression test: `a@x on behalf of b@y` was read as two mailboxes, the first of which wrote
/// nothing.
#[test]
fn on_behalf_of_is_one_mailbox() {
    for (value, wanted) in [
        ("a@x on behalf of b@y", "a@x on behalf of b@y|b@y"),
        ("a@x On Behalf Of B <b@y>", "a@x On Behalf Of B|b@y"),
        ("List <a@x> on behalf of B C <b@y>", "List <a@x> on behalf of B C|b@y"),
        ("<a@x> on behalf of <b@y>", "<a@x> on behalf of b@y|b@y"),
        ("a@x im Auftrag von B b@y", "a@x im Auftrag von B|b@y"),
        ("a@x on behalf of \"c d\"@z", "a@x on behalf of \"c d\"@z|\"c d\"@z"),
        ("a@x on behalf of b@y, c@z", "a@x on behalf of b@y|b@y; c@z"),
        // Other words, or not between two addresses.
        ("on behalf of a@x b@y", "on behalf of|a@x; b@y"),
        ("a@x b@y on behalf of", "a@x; on behalf of|b@y"),
        ("a@x on behalf b@y", "a@x; on behalf|b@y"),
        ("\"a@x on behalf of b@y\" <c@z>", "a@x on behalf of b@y|c@z"),
        ("a@x (on behalf of) b@y", "on behalf of|a@x; b@y"),
    ] {
        assert_eq!(parsed(value), wanted, "{value}");
    }
}

#[test]
fn encoded_words_with_blanks_are_decoded_in_names() {
    for (value, wanted) in [
        ("=?utf-8?Q?John Sm=C3=AEth?= <a@x>", "John Sm\u{ee}th|a@x"),
        ("=?utf-8?Q?Sm=C3=AEth, John?= <a@x>, b@x", "Sm\u{ee}th, John|a@x; b@x"),
        ("=?utf-8?Q?Who??= =?utf-8?Q?Me, I?= <a@x>", "Who?Me, I|a@x"),
        ("\"=?utf-8?Q?John Smith?=\" <a@x>", "John Smith|a@x"),
        // A broken encoded word must not hide an address.
        ("=?utf-8?q?a <b@x>, c?= <d@x>", "=?utf-8?q?a|b@x; c?=|d@x"),
        ("=?utf-8?q?a b@x, c?= <d@x>", "=?utf-8?q?a|b@x; c?=|d@x"),
    ] {
        assert_eq!(parsed(value), wanted, "{value}");
    }
}

/// Quadratic time would be noticed: each list has `limits::MAX_FIELD_BYTES`.
#[test]
fn hostile_lists_take_linear_time() {
    for part in [
        "<",
        "<,",
        "\"",
        "\\\"",
        "(",
        "a@",
        "@ ",
        ". a@",
        "<a,\"",
        "=?utf-8?q?a?= ",
        "[ ",
        "@[ ",
        "g:;",
        "(a)",
        "=?us?q??=",
        "=?us?q??=x",
        "=?us?q?a ",
        "<a>",
        "<a>(",
        "a@b ",
        "a@b (c)",
    ] {
        let (groups, _) = groups(&part.repeat(limits::MAX_FIELD_BYTES / part.len()));
        let cost = |group: &Group| usize::from(group.name.is_some()) + group.addresses.len();
        assert!(groups.iter().map(cost).sum::<usize>() <= limits::MAX_FIELD_ADDRESSES, "{part}");
    }
}

proptest! {
    #[test]
    fn parsed_addresses_have_a_name_or_an_email(value in "[a@<>\"(),:;\\\\ \\[\\].=?ü]{0,60}") {
        for person in addresses(value.as_bytes()) {
            let has_name = person.name.as_deref().is_some_and(|name| !name.is_empty());
            prop_assert!(!person.email.is_empty() || has_name);
        }
    }

    /// A written address parses unchanged, both in angle brackets after a name, and alone.
    #[test]
    fn written_address_parses_unchanged(
        local in "[a-z .\"\\\\@<>()ü]{1,20}",
        name in "[a-z .\"\\\\@<>()ü]{0,20}",
    ) {
        let address = Address::from_parts(local.trim(), "x.example").to_string();
        prop_assume!(!local.trim().is_empty());
        let name = name.trim();
        let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
        let unnamed = EmailAddress { name: None, email: address.clone() };
        let name = Some(name.to_owned()).filter(|name| !name.is_empty());
        let wanted = EmailAddress { name, email: address.clone() };
        prop_assert_eq!(addresses(format!("\"{escaped}\" <{address}>").as_bytes()), [wanted]);
        prop_assert_eq!(addresses(address.as_bytes()), [unnamed]);
    }
}
