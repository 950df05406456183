//! The plan for one account: where the message goes, and whether it is answered. Pure: all that it needs was read before.

use crate::message::auto::Facts;
use crate::model::{Address, Identity, ToldKey, UtcMillis, VacationResponse};
use crate::vacation::{Input, Outcome, Reply, Settings, decide, reply};

/// What was read for the plan.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) now: UtcMillis,
    pub(super) sender: Option<&'a Address>,
    pub(super) recipient: &'a Address,
    pub(super) identity: &'a Identity,
    pub(super) response: &'a VacationResponse,
    pub(super) facts: &'a Facts,
    pub(super) forged: Option<&'a str>,
    pub(super) junk: bool,
    pub(super) told_key: Option<ToldKey>,
    pub(super) told: Option<UtcMillis>,
    pub(super) secret: &'a [u8; 32],
    pub(super) settings: &'a Settings,
    pub(super) nonce: u64,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// Answer, if by the time of the commit the response is still of this generation and the sender is not told.
    Answer { reply: Reply, generation: u32, told: ToldKey, expires: Option<UtcMillis> },
    /// Do not, for this reason.
    Silent { reason: &'static str, detail: String },
}

pub(super) fn plan(known: &Known<'_>) -> Plan {
    let outcome = decide(&Input {
        now: known.now,
        sender: known.sender,
        recipient: known.recipient,
        identity: known.identity,
        response: known.response,
        facts: known.facts,
        forged: known.forged,
        junk: known.junk,
        told: known.told,
        secret: known.secret,
        settings: known.settings,
    });
    match (outcome, known.sender, known.told_key) {
        (Outcome::Answer, Some(sender), Some(told)) => Plan::Answer {
            reply: reply(known.response, known.identity, known.facts, sender, known.now, known.secret, known.nonce),
            generation: known.response.generation,
            told,
            expires: known.response.to_date,
        },
        (Outcome::Silent(reason, detail), ..) => Plan::Silent { reason: reason.code(), detail },
        (Outcome::Answer, ..) => Plan::Silent { reason: "null-sender", detail: String::new() },
    }
}
