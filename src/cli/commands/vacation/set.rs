//! `vacation set` and `vacation text`: what senders are told.

use serde_json::{Map, Value, json};

use super::args::{AudienceArg, CircleArg, ReplyTextArgs, VacationSetArgs, VacationTextArgs};
use super::{show, update};
use crate::cli::control::selected_account::find_account;
use crate::cli::control::{CommandContext, methods};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::complain;
use crate::cli::terminal::dates::{self, Edge};
use crate::cli::terminal::input::read_text;
use crate::model::clock::{self, Clock as _};

pub(in crate::cli) async fn set(args: VacationSetArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = find_account(args.whose.name(), context).await?;
    let now = clock::SystemClock.now();
    let date = |given: &Option<String>, edge: Edge| -> Result<Option<Value>, Failure> {
        let Some(given) = given else { return Ok(None) };
        let at =
            dates::parse(given, now, &account.zone, edge).map_err(|bad| Failure::new(exit::USAGE, bad.to_string()))?;
        Ok(Some(at.rfc3339().into()))
    };
    let mut patch = Map::new();
    patch.insert("isEnabled".into(), true.into());
    // A window is always said anew: the end of last year's vacation must not end this one.
    patch.insert("fromDate".into(), date(&args.from_date, Edge::From)?.unwrap_or_default());
    patch.insert("toDate".into(), date(&args.until, Edge::Until)?.unwrap_or_default());
    patch.insert("days".into(), args.days.into());
    let said = said(&args.words)?;
    let speaks = said.is_some() || args.words.subject.is_some();
    if let Some((text, html)) = said {
        patch.insert("textBody".into(), text.into());
        patch.insert("htmlBody".into(), html.into());
    }
    if let Some(subject) = args.words.subject {
        patch.insert("subject".into(), subject.into());
    }
    if let Some(address) = args.sender_address {
        patch.insert("from".into(), person(args.sender_name.as_deref(), &address));
    }
    if let Some(address) = args.reply_to {
        patch.insert("replyTo".into(), person(None, &address));
    }
    for (key, given) in [("addresses", args.addresses), ("except", args.except), ("organisation", args.organisation)] {
        if !given.is_empty() {
            let named: Vec<String> = given.into_iter().filter(|text| !text.trim().is_empty()).collect();
            patch.insert(key.into(), named.into());
        }
    }
    if let Some(audience) = args.audience {
        let name = match audience {
            AudienceArg::Everyone => "everyone",
            AudienceArg::Known => "known",
            AudienceArg::Organisation => "organisation",
        };
        patch.insert("audience".into(), name.into());
    }
    if let Some(language) = args.language {
        patch.insert("language".into(), Some(language).filter(|language| !language.is_empty()).into());
    }
    for (key, on, off) in [("copies", args.copies, args.no_copies), ("report", args.report, args.no_report)] {
        if on || off {
            patch.insert(key.into(), on.into());
        }
    }
    update(context, &account.id, patch.into()).await?;
    warn(speaks, context);
    show(args.whose.name(), context).await
}

/// Changes the words for some senders; all others stay. Who changes them at the same time is not overwritten.
pub(in crate::cli) async fn text(args: VacationTextArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = find_account(args.whose.name(), context).await?;
    let answer = context.client.call_by_name(methods::VACATION_GET, json!({"accountId": account.id})).await?;
    let circle = args.to.map(|circle| match circle {
        CircleArg::Organisation => "organisation",
        CircleArg::Outside => "outside",
    });
    let language = args.language.as_ref().map(|language| language.to_ascii_lowercase());
    let mut variants: Vec<Value> = answer["list"][0]["variants"].as_array().cloned().unwrap_or_default();
    let is_it = |variant: &Value| variant["language"] == json!(language) && variant["circle"] == json!(circle);
    let old = variants.iter().position(is_it);
    if args.remove {
        let Some(old) = old else { return Err(Failure::new(exit::USAGE, "there are no such words")) };
        variants.remove(old);
    } else {
        let Some((text, html)) = said(&args.words)? else {
            return Err(Failure::new(exit::USAGE, "--text, --text-file or --html-file is wanted"));
        };
        let subject = &args.words.subject;
        let new =
            json!({"language": language, "circle": circle, "subject": subject, "textBody": text, "htmlBody": html});
        match old.and_then(|old| variants.get_mut(old)) {
            Some(old) => *old = new,
            None => variants.push(new),
        }
    }
    let patch = json!({"singleton": {"variants": variants}});
    let arguments = json!({"accountId": account.id, "ifInState": answer["state"], "update": patch});
    super::change(context, arguments).await?;
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
fn person(name: Option<&str>, address: &str) -> Value {
    if address.is_empty() { Value::Null } else { json!({"name": name, "email": address}) }
}

fn warn(speaks: bool, context: &CommandContext) {
    if speaks && !context.json {
        complain(
            "note: strangers will read this text, and so learn that you are away (RFC 3834 §6). Say nothing there that \
             you would not tell anybody who writes to you.",
        );
    }
}
