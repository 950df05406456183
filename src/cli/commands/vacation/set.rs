//! The commands `vacation set` and `vacation text`, which change the response and its texts.

use super::args::{AudienceArg, CircleArg, ReplyTextArgs, VacationSetArgs, VacationTextArgs};
use super::{show, update};
use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::complain;
use crate::cli::terminal::dates::{self, Edge};
use crate::cli::terminal::input::read_text;
use crate::model::clock::{self, Clock as _};
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::mail::NamedAddress;
use crate::wire::jmap::admin::vacation::{
    VacationFacts, VacationGet, VacationGetArguments, VacationSetArguments, VariantFacts,
};

pub(in crate::cli) async fn set(
    args: VacationSetArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(args.account.name(), context).await?;
    let now = clock::SystemClock.now();
    let date = |option: &Option<String>, edge: Edge| -> Result<Option<String>, Failure> {
        let Some(text) = option else { return Ok(None) };
        let at = dates::parse(text, now, &account.zone, edge)
            .map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
        Ok(Some(at.rfc3339()))
    };
    // Dates that are not given are removed: the end of an earlier absence must not end this one.
    let (from_date, to_date) =
        (date(&args.from_date, Edge::From)?, date(&args.until, Edge::Until)?);
    let bodies = read_bodies(&args.text)?;
    let has_text = bodies.is_some() || args.text.subject.is_some();
    let (text_body, html_body) = bodies.unzip();
    let list = |values: Vec<String>| {
        let is_given = !values.is_empty();
        is_given.then(|| values.into_iter().filter(|text| !text.trim().is_empty()).collect())
    };
    let audience = args.audience.map(|audience| match audience {
        AudienceArg::Everyone => "everyone",
        AudienceArg::Known => "known",
        AudienceArg::Organisation => "organisation",
    });
    let switch = |on: bool, off: bool| (on || off).then_some(on);
    // `Some(None)` removes a property, and `None` leaves it as it is.
    let changes = VacationFacts {
        is_enabled: Some(true),
        from_date: Some(from_date),
        to_date: Some(to_date),
        days: Some(args.days),
        subject: args.text.subject.map(Some),
        text_body,
        html_body,
        from: args.sender_address.map(|address| named_address(args.sender_name, address)),
        reply_to: args.reply_to.map(|address| named_address(None, address)),
        addresses: list(args.addresses),
        except: list(args.except),
        organisation: list(args.organisation),
        audience: audience.map(str::to_owned),
        language: args
            .language
            .map(|language| Some(language).filter(|language| !language.is_empty())),
        copies: switch(args.copies, args.no_copies),
        report: switch(args.report, args.no_report),
        ..VacationFacts::default()
    };
    update(context, &account.id, &changes).await?;
    warn(has_text, context);
    show(args.account.name(), context).await
}

/// Adds, replaces or removes one text; the others stay. Fails if another client changes the
/// response at the same time.
pub(in crate::cli) async fn text(
    args: VacationTextArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(args.account.name(), context).await?;
    let arguments = With(AccountRef::by_id(&account.id), VacationGetArguments::default());
    let answer = context.client.call::<VacationGet>(arguments).await?;
    let circle = args.to.map(|circle| match circle {
        CircleArg::Organisation => "organisation".to_owned(),
        CircleArg::Outside => "outside".to_owned(),
    });
    let language = args.language.as_ref().map(|language| language.to_ascii_lowercase());
    let mut variants =
        answer.list.into_iter().next().and_then(|response| response.variants).unwrap_or_default();
    let is_same = |variant: &VariantFacts| variant.language == language && variant.circle == circle;
    let old = variants.iter().position(is_same);
    if args.remove {
        let Some(old) = old else {
            return Err(Failure::new(exit::USAGE, no_such_text(&variants)));
        };
        variants.remove(old);
    } else {
        let Some((text, html)) = read_bodies(&args.text)? else {
            return Err(Failure::new(exit::USAGE, "give --text, --text-file or --html-file"));
        };
        let subject = args.text.subject;
        let new = VariantFacts { language, circle, subject, text_body: text, html_body: html };
        match old.and_then(|old| variants.get_mut(old)) {
            Some(old) => *old = new,
            None => variants.push(new),
        }
    }
    let changes = VacationFacts { variants: Some(variants), ..VacationFacts::default() };
    let arguments =
        VacationSetArguments { if_in_state: Some(answer.state), ..super::set_arguments(&changes)? };
    super::change(context, &account.id, arguments).await?;
    warn(!args.remove, context);
    show(args.account.name(), context).await
}

fn no_such_text(variants: &[VariantFacts]) -> String {
    let describe = |variant: &VariantFacts| {
        let parts = [variant.circle.as_deref(), variant.language.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    let all = variants.iter().map(describe).collect::<Vec<_>>().join(", ");
    let existing = if all.is_empty() {
        "there are no such texts".to_owned()
    } else {
        format!("there are texts for: {all}")
    };
    format!("there is no text for this language and these senders; {existing}")
}

type TextAndHtml = (Option<String>, Option<String>);

/// Returns the text and the HTML of a reply; `None` if neither is given.
fn read_bodies(args: &ReplyTextArgs) -> Result<Option<TextAndHtml>, Failure> {
    let text = match (&args.text, &args.text_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(file)) => Some(read_text(file)?),
        (None, None) => None,
    };
    let html = args.html_file.as_deref().map(read_text).transpose()?;
    Ok((text.is_some() || html.is_some()).then_some((text, html)))
}

/// Returns a name with an address; `None` if the address is empty.
fn named_address(name: Option<String>, email: String) -> Option<NamedAddress> {
    (!email.is_empty()).then_some(NamedAddress { name, email })
}

/// Warns that strangers will read the text, if a text was set; not with `--json`.
fn warn(has_text: bool, context: &CommandContext) {
    if has_text && !context.json {
        complain(
            "note: strangers will read this text, and so learn that you are away (RFC 3834 §6). \
             Leave out what you would not tell everybody.",
        );
    }
}
