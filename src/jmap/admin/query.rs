//! Mail/query: Email/query (RFC 8621 §4.4) with the rows of the emails found, or only the query
//! plan.

use super::{AdminMethod, charge_row, mail, mailboxes};
use crate::jmap::context::Context;
use crate::jmap::email::search::filter::parse_filter;
use crate::jmap::email::search::query::SectionArgs;
use crate::jmap::email::search::sort;
use crate::jmap::method::Call;
use crate::jmap::standard::state;
use crate::model::{AccountId, EmailId, Shape, limits};
use crate::query::{Condition, Filter, Finder, Query, QueryPlan, QuerySpec, explain, query};
use crate::store::Snapshot;
use crate::wire::jmap::admin::VendorMethod;
use crate::wire::jmap::admin::mail::{
    EmailRow, EmailSnippet, FoundMail, MailQuery, MailQueryAnswer, MailQueryArguments,
    MailQueryLimit, MissingListing, OtherStrategy, PlanFacts, PlannedListing,
};
use crate::wire::jmap::arguments::Nullable;
use crate::wire::jmap::{MethodError, With};

const DEFAULT_LIMIT: u64 = 50;

impl AdminMethod for MailQuery {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, With(args, limit)): <Self as VendorMethod>::Args,
    ) -> Result<MailQueryAnswer, MethodError> {
        let Nullable(MailQueryLimit { limit }) = limit;
        let (account, _) = context.account_of(&account_ref)?;
        let snapshot = context.store.snapshot();
        let secrets = context.store.secrets();
        let spec = query_spec(context, account, &args)?;
        if args.explain {
            return Ok(MailQueryAnswer::Explained {
                plan: plan_facts(&explain(&snapshot, &spec)?),
            });
        }
        let MailQueryArguments { position, anchor_offset, .. } = args;
        // Without the argument the limit is `DEFAULT_LIMIT`. Null asks for as many as the server
        // allows.
        let limit = limit.unwrap_or(Some(DEFAULT_LIMIT));
        let section =
            SectionArgs { position, anchor: args.anchor.as_deref(), anchor_offset, limit };
        let window = section.window(limits::MAX_LISTED_ROWS)?;
        let shape = if args.collapse_threads { Shape::Threads } else { Shape::Emails };
        let finder = args.snippets.then(|| Finder::new(&spec.filter, secrets));
        let request = Query { spec, window, total: args.calculate_total };
        let found = query(&snapshot, secrets, &request)?;
        context.request_listings(account, |now| found.plan.listing_requests(now));
        let answer = found.answer;
        let mut list = Vec::with_capacity(answer.ids.len());
        for id in &answer.ids {
            list.push(row(context, &snapshot, account, (*id, shape), finder.as_ref())?);
        }
        Ok(MailQueryAnswer::Found(FoundMail {
            query_state: state(&context.store, answer.state),
            can_calculate_changes: answer.can_calculate,
            position: answer.position as u64,
            total: answer.total.map(|total| total as u64),
            ids: answer.ids.iter().map(ToString::to_string).collect(),
            list,
            plan: plan_facts(&found.plan),
        }))
    }
}

/// Reads filter and sort. With `mailbox`, the emails must also be in that mailbox.
fn query_spec(
    context: &Context,
    account: AccountId,
    args: &MailQueryArguments,
) -> Result<QuerySpec, MethodError> {
    let mut filter = parse_filter(args.filter.as_ref())?;
    if let Some(name) = &args.mailbox {
        let (uid, _) = mailboxes::find(context, account, name)?;
        let inside = Filter::Is(Condition::InMailbox(uid));
        filter =
            if filter == Filter::default() { inside } else { Filter::And(vec![inside, filter]) };
    }
    let (sort, reads) = (sort::comparators(args.sort.clone())?, context.budget.search_allowance());
    Ok(QuerySpec {
        account,
        filter,
        sort,
        collapse: args.collapse_threads,
        reads,
        ..QuerySpec::default()
    })
}

/// Returns the row of an email; with `finder`, with a snippet. Charges both.
fn row(
    context: &Context,
    snapshot: &Snapshot<'_>,
    account: AccountId,
    (id, shape): (EmailId, Shape),
    finder: Option<&Finder>,
) -> Result<EmailRow, MethodError> {
    let email = snapshot.email(account, id)?;
    // If the email is missing, `mail::row` fails below.
    let (size, thread) = email.map(|email| (email.size, email.thread)).unwrap_or_default();
    let mut row = mail::row(snapshot, account, (id, thread), shape)?;
    if let Some(finder) = finder {
        context.budget.charge_read(if finder.reads_text() { size } else { 0 })?;
        let found = finder.snippet(snapshot, account, id)?.unwrap_or_default();
        row.snippet = Some(EmailSnippet { subject: found.subject, preview: found.preview });
    }
    charge_row(context, row)
}

fn plan_facts(plan: &QueryPlan) -> PlanFacts {
    let listing = plan.path.listing().map(|listing| PlannedListing {
        mailbox_id: listing.uid.to_string(),
        view: listing.filter.name().to_owned(),
        collapsed: listing.shape == Shape::Threads,
    });
    let missing = plan.wanted_listing.map(|(uid, view)| {
        let (mailbox_id, view) = (uid.to_string(), view.name().to_owned());
        MissingListing { mailbox_id, view }
    });
    let others = plan.rejected.iter().map(|(name, why)| {
        let (strategy, reason) = ((*name).to_owned(), why.clone());
        OtherStrategy { strategy, reason }
    });
    PlanFacts {
        strategy: plan.path.name().to_owned(),
        listing,
        length: plan.length,
        ranked: plan.ranked,
        missing,
        others: others.collect(),
        text: plan.to_string(),
    }
}
