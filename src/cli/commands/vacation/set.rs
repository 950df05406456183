//! `vacation set` and `vacation text`: what senders are told.

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
    let account = find_account(args.whose.name(), context).await?;
    let now = clock::SystemClock.now();
    let date = |given: &Option<String>, edge: Edge| -> Result<Option<String>, Failure> {
        let Some(given) = given else { return Ok(None) };
        let at = dates::parse(given, now, &account.zone, edge)
            .map_err(|bad| Failure::new(exit::USAGE, bad.to_string()))?;
        Ok(Some(at.rfc3339()))
    };
    // A window is always said anew: the end of last year's vacation must not end this one.
    let (from_date, to_date) =
        (date(&args.from_date, Edge::From)?, date(&args.until, Edge::Until)?);
    let said = said(&args.words)?;
    let speaks = said.is_some() || args.words.subject.is_some();
    let (text_body, html_body) = said.unzip();
    let named = |given: Vec<String>| {
        let is_some = !given.is_empty();
        is_some.then(|| given.into_iter().filter(|text| !text.trim().is_empty()).collect())
    };
    let audience = args.audience.map(|audience| match audience {
        AudienceArg::Everyone => "everyone",
        AudienceArg::Known => "known",
        AudienceArg::Organisation => "organisation",
    });
    let switch = |on: bool, off: bool| (on || off).then_some(on);
    let changes = VacationFacts {
        is_enabled: Some(true),
        from_date: Some(from_date),
        to_date: Some(to_date),
        days: Some(args.days),
        subject: args.words.subject.map(Some),
        text_body,
        html_body,
        from: args.sender_address.map(|address| person(args.sender_name, address)),
        reply_to: args.reply_to.map(|address| person(None, address)),
        addresses: named(args.addresses),
        except: named(args.except),
        organisation: named(args.organisation),
        audience: audience.map(str::to_owned),
        language: args
            .language
            .map(|language| Some(language).filter(|language| !language.is_empty())),
        copies: switch(args.copies, args.no_copies),
        report: switch(args.report, args.no_report),
        ..VacationFacts::default()
    };
    update(context, &account.id, &changes).await?;
    warn(speaks, context);
    show(args.whose.name(), context).await
}

/// Changes the words for some senders; all others stay. Who changes them at the same time is not
/// overwritten.
pub(in crate::cli) async fn text(
    args: VacationTextArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(args.whose.name(), context).await?;
    let whole = With(AccountRef::by_id(&account.id), VacationGetArguments::default());
    let answer = context.client.call::<VacationGet>(whole).await?;
    let circle = args.to.map(|circle| match circle {
        CircleArg::Organisation => "organisation".to_owned(),
        CircleArg::Outside => "outside".to_owned(),
    });
    let language = args.language.as_ref().map(|language| language.to_ascii_lowercase());
    let mut variants =
        answer.list.into_iter().next().and_then(|response| response.variants).unwrap_or_default();
    let is_it = |variant: &VariantFacts| variant.language == language && variant.circle == circle;
    let old = variants.iter().position(is_it);
    if args.remove {
        let Some(old) = old else {
            return Err(Failure::new(exit::USAGE, "there are no such words"));
        };
        variants.remove(old);
    } else {
        let Some((text, html)) = said(&args.words)? else {
            return Err(Failure::new(exit::USAGE, "--text, --text-file or --html-file is wanted"));
        };
        let subject = args.words.subject;
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
    show(args.whose.name(), context).await
}

/// Text and HTML.
type TextAndHtml = (Option<String>, Option<String>);

/// What is said, where either is given.
fn said(words: &ReplyTextArgs) -> Result<Option<TextAndHtml>, Failure> {
    let text = match (&words.text, &words.text_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(file)) => Some(read_text(file)?),
        (None, None) => None,
    };
    let html = words.html_file.as_deref().map(read_text).transpose()?;
    Ok((text.is_some() || html.is_some()).then_some((text, html)))
}

/// A name and an address; "" is none.
fn person(name: Option<String>, email: String) -> Option<NamedAddress> {
    (!email.is_empty()).then_some(NamedAddress { name, email })
}

fn warn(speaks: bool, context: &CommandContext) {
    if speaks && !context.json {
        complain(
            "note: strangers will read this text, and so learn that you are away (RFC 3834 §6). Say nothing there that \
             you would not tell anybody who writes to you.",
        );
    }
}
