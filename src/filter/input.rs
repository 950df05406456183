//! What the engine gets besides the message itself: the envelope, and the account that gets the
//! message. Deliveries, runs over stored mail and trials pass it here.

use restante_sieve::{AddressSpec, DsnParameters, Input, Outcome, RunLimits, Script, Trace, World};

use super::convert::notify_text;
use super::view::View;
use crate::model::{Address, DsnReturn, Envelope, Identity, Recipient};

/// The texts that the engine's `Input` borrows.
pub(super) struct EngineInput<'a> {
    /// The envelope sender; empty for `<>`.
    from: String,
    /// The recipient for which the script runs.
    to: String,
    /// The NOTIFY parameter of this recipient; `None` if the client gave none.
    notify: Option<String>,
    /// The ORCPT parameter of this recipient with its type; `None` if the client gave none.
    original: Option<String>,
    /// The envelope, for its RET and ENVID parameters.
    envelope: &'a Envelope,
    /// The addresses of the account, the primary one first.
    addresses: Vec<AddressSpec>,
    /// The character between user and detail of an address; empty if sub-addresses are off.
    separators: String,
    /// The name of the owner; `None` if the account has none.
    display_name: Option<&'a str>,
}

impl<'a> EngineInput<'a> {
    pub(super) fn new(
        envelope: &'a Envelope,
        recipient: &Recipient,
        identity: &'a Identity,
    ) -> Self {
        let spec = |address: &Address| AddressSpec::new(address.local(), address.domain());
        let original = recipient.original.as_ref();
        Self {
            from: envelope.sender.as_ref().map(ToString::to_string).unwrap_or_default(),
            to: recipient.address.to_string(),
            notify: notify_text(recipient.notify),
            original: original.map(|one| format!("{};{}", one.kind, one.address)),
            envelope,
            addresses: identity.addresses.iter().map(spec).collect(),
            separators: identity.delimiter.map(String::from).unwrap_or_default(),
            display_name: identity.name.as_deref(),
        }
    }

    /// Runs a script over the message `view`, with this envelope and account. The AUTH and BY
    /// parameters are left out: no client can give them to this server.
    pub(super) fn run(
        &self,
        script: &Script,
        view: &View<'_>,
        world: &dyn World,
        limits: &RunLimits,
        trace: &mut dyn Trace,
    ) -> Outcome {
        let envelope = restante_sieve::Envelope {
            from: &self.from,
            to: &self.to,
            auth: None,
            dsn: DsnParameters {
                notify: self.notify.as_deref(),
                original_recipient: self.original.as_deref(),
                ret: self.envelope.ret.map(|ret| match ret {
                    DsnReturn::Full => "FULL",
                    DsnReturn::Headers => "HDRS",
                }),
                envelope_id: self.envelope.envid.as_deref(),
            },
            deliver_by: None,
        };
        let identity = restante_sieve::Identity {
            addresses: &self.addresses,
            display_name: self.display_name,
            separators: &self.separators,
        };
        let input = Input { message: view, envelope: &envelope, identity: &identity };
        restante_sieve::run(script, &input, world, limits, Some(trace))
    }
}
