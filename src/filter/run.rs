//! Runs the scripts for a message one after another, and joins their plans. Deliveries use
//! `AccountScripts`, and `jmap::admin`, for stored mail, uses `run_alone`.

#[cfg(test)]
mod tests;

use std::cell::{Cell, LazyCell};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use restante_sieve::ir::RejectKind;
use restante_sieve::{
    Action, FlagSet, ImplicitKeep, MessageEdits, Outcome, Place, Plan, RunLimits, Target, Trace,
    Version,
};

use super::action::{EditedMessage, FilterAction, FilterResult, FiredRules, Keep};
use super::cache::{CompiledScript, ScriptCache};
use super::convert::{keywords, notification, redirect, store_target, vacation_script};
use super::edits;
use super::input::EngineInput;
use super::request::FilterRequest;
use super::settings::{Settings, SiteScript};
use super::steps::StepTrace;
use super::usage::RunUsage;
use super::view::View;
use super::world::{AccountWorld, duplicate_hash};
use crate::model::{AccountId, BlobHash, FilterStep, ObjectId, UtcMillis, limits};
use crate::store::{Error, Snapshot};

/// A script of the sequence.
#[derive(Debug)]
struct Stage {
    /// Empty if the active script could not be found because of an error of the store.
    name: String,
    /// The id of the active script of the account and the hash of its source. `None` for any other
    /// script, and for an active script that could not be found.
    own: Option<(ObjectId, BlobHash)>,
    /// `Err`: why the script cannot be read. A script that was read may still have errors.
    compiled: Result<Arc<CompiledScript>, String>,
}

/// Runs one script, and no other but those that it includes, even if the site has switched scripts
/// off. `name` is how steps and errors name it. Its rules are not reported as fired; those of
/// scripts that it includes are.
pub fn run_alone(
    cache: &ScriptCache,
    request: &FilterRequest<'_>,
    name: &str,
    source: &Arc<[u8]>,
) -> FilterResult {
    let script = SiteScript::named(name, Arc::clone(source));
    let stage = site_stage(cache, request.settings, &script);
    AccountScripts::of(vec![stage], request.settings).run(cache, request)
}

/// The fuel that the recipients of one account share, as a multiple of the fuel of one recipient.
/// Fuel is the engine's measure of the work of a run (`RunLimits::fuel`).
const RUNS_PER_ACCOUNT: u64 = 4;
/// Finding the parts of a message costs one unit of fuel for this many bytes.
const BYTES_PER_UNIT: usize = 256;
/// Reading a mailbox of the account costs this many units of fuel.
const UNITS_PER_MAILBOX: usize = 16;

/// The scripts that run for the recipients of one message in one account, in their order: those of
/// the site before, the active script of the account, those of the site after.
#[derive(Debug)]
pub struct AccountScripts {
    stages: Vec<Stage>,
    /// The fuel that is left for further runs. A run without fuel fails.
    fuel: Cell<u64>,
}

/// Whether the scripts of an account may send the sender of a message something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptUses {
    /// Whether a script may answer.
    pub vacation: bool,
    /// Whether a script may refuse a message, by `reject` or `ereject`.
    pub reject: bool,
}

impl AccountScripts {
    /// Loads the scripts for an account. `None` if there are none, or scripts are switched off. A
    /// script that cannot be loaded counts as one: the run fails when its turn comes.
    pub fn load(
        cache: &ScriptCache,
        settings: &Settings,
        snapshot: &Snapshot<'_>,
        account: AccountId,
    ) -> Option<Self> {
        if !settings.is_on {
            return None;
        }
        let own = active_stage(cache, settings, snapshot, account);
        if own.is_none() && !settings.has_site_scripts() {
            return None;
        }
        let before = settings.before.iter().map(|script| site_stage(cache, settings, script));
        let after = settings.after.iter().map(|script| site_stage(cache, settings, script));
        Some(Self::of(before.chain(own).chain(after).collect(), settings))
    }

    fn of(stages: Vec<Stage>, settings: &Settings) -> Self {
        let fuel = settings.run_limits().fuel.saturating_mul(RUNS_PER_ACCOUNT);
        Self { stages, fuel: Cell::new(fuel) }
    }

    /// Returns what the engine should use at most in a run for one recipient, in units of fuel: of
    /// each script, the most that a run of it has used so far. `None` if a script without errors
    /// has not run yet. A script with errors uses nothing.
    pub fn expected_fuel(&self) -> Option<u64> {
        let mut sum = 0_u64;
        for compiled in self.stages.iter().filter_map(|stage| stage.compiled.as_ref().ok()) {
            let most = compiled.most_fuel.load(Ordering::Relaxed);
            if compiled.script.is_ok() && most == 0 {
                return None;
            }
            sum = sum.saturating_add(most);
        }
        Some(sum)
    }

    /// Takes fuel from what the recipients share. Returns false if too little is left; then nothing
    /// remains.
    fn take_fuel(&self, units: usize) -> bool {
        let left = self.fuel.get().checked_sub(units as u64);
        self.fuel.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Runs the scripts for one recipient of a message.
    pub fn run(&self, cache: &ScriptCache, request: &FilterRequest<'_>) -> FilterResult {
        let (result, used) = (FilterResult::default(), RunUsage::default());
        Sequence { scripts: self, cache, request, result, used }.run()
    }

    /// Returns what the scripts without errors may do, whatever the message is.
    pub fn uses(&self) -> ScriptUses {
        let mut uses = ScriptUses::default();
        for stage in &self.stages {
            let script = stage.compiled.as_ref().ok().map(|compiled| compiled.script.as_ref());
            if let Some(Ok(script)) = script {
                let script = script.uses();
                // An included script may do anything.
                uses.vacation |= script.vacation || script.include;
                uses.reject |= script.reject || script.include;
            }
        }
        uses
    }
}

fn site_stage(cache: &ScriptCache, settings: &Settings, script: &SiteScript) -> Stage {
    let source = || Ok::<_, Infallible>(Some(Arc::clone(&script.source)));
    let compiled = match cache.script(settings, script.hash, source) {
        Ok(compiled) => compiled.ok_or_else(|| "the script is empty".to_owned()),
        Err(never) => match never {},
    };
    Stage { name: script.name.clone(), own: None, compiled }
}

/// Returns the active script of an account; `None` if it has none, or the active one does not
/// exist.
fn active_stage(
    cache: &ScriptCache,
    settings: &Settings,
    snapshot: &Snapshot<'_>,
    account: AccountId,
) -> Option<Stage> {
    let unnamed =
        |error: String| Some(Stage { name: String::new(), own: None, compiled: Err(error) });
    let id = match snapshot.active_script(account) {
        Ok(id) => id?,
        Err(error) => return unnamed(error.to_string()),
    };
    let row = match snapshot.object::<crate::model::SieveScript>(account, id) {
        Ok(row) => row?,
        Err(error) => return unnamed(error.to_string()),
    };
    let source = || Ok::<_, Error>(snapshot.script_source(account, id)?.map(Arc::from));
    let compiled = match cache.script(settings, row.hash, source) {
        Ok(compiled) => compiled.ok_or_else(|| "its source is lost".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Some(Stage { name: row.name, own: Some((id, row.hash)), compiled })
}

/// The run of all scripts for one recipient.
struct Sequence<'a> {
    scripts: &'a AccountScripts,
    cache: &'a ScriptCache,
    request: &'a FilterRequest<'a>,
    /// What the scripts that ran so far decided.
    result: FilterResult,
    /// What they used of the limits of the run.
    used: RunUsage,
}

impl<'a> Sequence<'a> {
    fn run(mut self) -> FilterResult {
        let mut kept = Keep::default();
        // The name of the script that ran last, if its keep was implicit.
        let mut last = None;
        for stage in &self.scripts.stages {
            let message = kept.message.clone();
            let raw = message.as_ref().map_or(self.request.header.raw(), |message| &message.0);
            if !self.scripts.take_fuel(raw.len() / BYTES_PER_UNIT) {
                let what = "the message has too many recipients of this account".to_owned();
                self.result.error = Some((stage.name.clone(), 0, what));
                self.result.keep = Some(kept);
                return self.result;
            }
            // A header without fields is split again: if it has none because splitting it panicked
            // (`IncomingMessage::new`), this panics, too, and no script decides over an empty
            // header.
            let header = self.request.header;
            let view = match &message {
                None if header.fields().next().is_some() => View::of(header),
                _ => View::new(raw),
            };
            let Some(plan) = self.run_stage(stage, &view) else {
                // The message is kept as it was before this script.
                self.result.keep = Some(kept);
                return self.result;
            };
            match self.join(plan, &view, &kept) {
                Some((keep, is_implicit)) => {
                    kept = keep;
                    last = is_implicit.then(|| stage.name.clone());
                }
                None => return self.result,
            }
        }
        if let Some(script) = last {
            self.add_step(FilterStep { script, line: 0, action: "keep".into() });
        }
        self.result.keep = Some(kept);
        self.result
    }

    /// Runs one script. `None` if that fails; the error is in the result then.
    fn run_stage(&mut self, stage: &Stage, view: &View<'_>) -> Option<Plan> {
        let fail = |line: u32, what: String| Some((stage.name.clone(), line, what));
        let loaded = stage.compiled.as_ref().map_err(Clone::clone);
        let loaded = loaded.and_then(|compiled| {
            compiled.script.as_ref().map(|script| (compiled, script)).map_err(Clone::clone)
        });
        let (compiled, script) = match loaded {
            Ok(loaded) => loaded,
            Err(what) => {
                self.result.error = fail(0, what);
                return None;
            }
        };
        let mut trace = StepTrace::default();
        let (outcome, world) = self.execute(script, view, &mut trace);
        self.used.add(&outcome);
        compiled.most_fuel.fetch_max(outcome.fuel_used.max(1), Ordering::Relaxed);
        let mailboxes = world.mailboxes_read().saturating_mul(UNITS_PER_MAILBOX);
        let units = usize::try_from(outcome.fuel_used).unwrap_or(usize::MAX);
        // With too little, nothing is left, and the next script fails.
        self.scripts.take_fuel(units.saturating_add(mailboxes));
        let included = world.included.borrow();
        // The script and the line of a command, which may be in an included script.
        let at = |place: &Place| match &place.script {
            None => (stage.name.clone(), compiled.line(place.span)),
            Some(name) => {
                let line = included.get(name).map_or(0, |one| one.compiled.line(place.span));
                (name.clone(), line)
            }
        };
        if let Some(error) = outcome.error {
            let (script, line) = at(&error.place);
            self.result.error = Some((script, line, error.to_string()));
            return None;
        }
        for (place, action) in &trace.steps {
            let (script, line) = at(place);
            self.add_step(FilterStep { script, line, action: action.clone() });
        }
        if let Some((place, what)) = &trace.redirect_loop {
            let (script, line) = at(place);
            self.result.redirect_loops.push((script, line, what.clone()));
        }
        for (name, command) in &trace.commands {
            let own = match name {
                None => stage.own.map(|(id, source)| (id, source, &**compiled)),
                Some(name) => included.get(name).map(|one| (one.id, one.source, &*one.compiled)),
            };
            if let Some((script, source, compiled)) = own
                && let Some(rule) = compiled.rules.rule(*command)
            {
                self.add_fired(script, source, rule);
            }
        }
        Some(outcome.plan)
    }

    /// Adds a rule that fired, unless it is there already, or there are
    /// `limits::MAX_FIRED_RULES`.
    fn add_fired(&mut self, script: ObjectId, source: BlobHash, rule: u32) {
        let fired = &mut self.result.fired;
        if fired.iter().map(|one| one.rules.len()).sum::<usize>() >= limits::MAX_FIRED_RULES {
            return;
        }
        match fired.iter_mut().find(|one| one.script == script) {
            None => fired.push(FiredRules { script, source, rules: vec![rule] }),
            Some(one) => {
                if let Err(at) = one.rules.binary_search(&rule) {
                    one.rules.insert(at, rule);
                }
            }
        }
    }

    /// Runs one script with what is left of the limits: those of the site, those of the request,
    /// and the fuel that the recipients share.
    fn execute(
        &self,
        script: &restante_sieve::Script,
        view: &View<'_>,
        trace: &mut dyn Trace,
    ) -> (Outcome, AccountWorld<'a>) {
        let FilterRequest { settings, envelope, recipient, identity, .. } = *self.request;
        let input = EngineInput::new(envelope, recipient, identity);
        let world = AccountWorld::new(self.request, self.cache);
        let limits = settings.run_limits();
        let versions = limits.versions.min(self.request.max_versions);
        let left = self.used.left(RunLimits { versions, ..limits });
        // What earlier scripts used was taken from the shared fuel already.
        let limits = RunLimits { fuel: left.fuel.min(self.scripts.fuel.get()), ..left };
        let outcome = input.run(script, view, &world, &limits, trace);
        (outcome, world)
    }

    fn add_step(&mut self, step: FilterStep) {
        if self.result.steps.len() < limits::MAX_FILTER_STEPS {
            self.result.steps.push(step);
        }
    }

    /// Joins the plan of one script to the result. Returns how the message is kept after it, and
    /// whether the keep is implicit; `None` if there is no keep, which ends the sequence.
    /// Keywords of `before` stay; its version of the message is what the script saw as original.
    fn join(&mut self, plan: Plan, view: &View<'_>, before: &Keep) -> Option<(Keep, bool)> {
        // Stored mail stays as it is: an empty version only says that the script would edit it.
        let edit = |edits: &MessageEdits| match self.request.is_stored {
            true => EditedMessage(Arc::from([])),
            false => edits::apply(view, edits),
        };
        let versions: Vec<LazyCell<EditedMessage, _>> =
            plan.versions.iter().map(|edits| LazyCell::new(move || edit(edits))).collect();
        let version = |version: Version| match version {
            Version::Original => before.message.clone(),
            Version::Edited(index) => versions.get(usize::from(index)).map(|one| (**one).clone()),
        };
        // `vacation` and `notify` read the header only. Whole versions for them could take many
        // times the memory of the message.
        let header = |version: Version| match version {
            Version::Original => before.message.clone(),
            Version::Edited(index) => {
                plan.versions.get(usize::from(index)).map(|edits| edits::header(view, edits))
            }
        };
        let kept = |flags: &FlagSet, message: Version| Keep {
            keywords: before.keywords.iter().cloned().chain(keywords(flags)).collect(),
            message: version(message),
        };
        let mut keep = plan
            .implicit_keep
            .as_ref()
            .map(|ImplicitKeep { flags, message }| (kept(flags, *message), true));
        for action in plan.actions {
            match action {
                // An explicit keep leaves the message to the next script, too.
                Action::Store { to: Target::Inbox, flags, message } => {
                    keep = Some((kept(&flags, message), false));
                }
                Action::Store { to, flags, message } => {
                    let to = store_target(to);
                    let (keywords, message) = (keywords(&flags).collect(), version(message));
                    self.add(FilterAction::Store { to, keywords, message });
                }
                Action::Redirect(intent) => {
                    let message = version(intent.message);
                    // The engine has asked `can_redirect`, so no address is refused here.
                    if let Some(redirect) = redirect(&intent, message) {
                        self.add(redirect);
                    }
                }
                Action::Reject { kind, reason } => {
                    self.add(FilterAction::Reject {
                        in_protocol: kind == RejectKind::EReject,
                        reason,
                    });
                }
                // The plan has no implicit keep then, which is all that `discard` does.
                Action::Discard => {}
                Action::Vacation(intent) => {
                    let message = header(intent.message);
                    let script = Box::new(vacation_script(*intent));
                    self.add(FilterAction::Vacation { script, message });
                }
                Action::Notify(intent) => {
                    let message = header(intent.version);
                    if let Some(notification) = notification(*intent, message) {
                        self.add(FilterAction::Notify(notification));
                    }
                }
                Action::MarkDuplicate { key, until } => {
                    if let Some(hash) = duplicate_hash(&key) {
                        let until = UtcMillis(until.as_millisecond());
                        self.add(FilterAction::MarkDuplicate { hash, until });
                    }
                }
            }
        }
        keep
    }

    /// Adds an action, or drops it if it repeats an earlier one: a redirect to the same address, or
    /// a second vacation response. A store in the same target is joined with the earlier one:
    /// whatever was edited in between, it is the same message (RFC 5293 §7). The keywords of both
    /// scripts stay, and the version of the last store counts, as within a script.
    fn add(&mut self, new: FilterAction) {
        for old in &mut self.result.actions {
            match (&mut *old, &new) {
                (
                    FilterAction::Store { to: old_to, keywords, message },
                    FilterAction::Store { to, keywords: more, message: last },
                ) if old_to == to => {
                    keywords.extend(more.iter().cloned());
                    message.clone_from(last);
                    return;
                }
                (FilterAction::Redirect { to: old_to, .. }, FilterAction::Redirect { to, .. })
                    if old_to == to =>
                {
                    return;
                }
                (FilterAction::Vacation { .. }, FilterAction::Vacation { .. }) => return,
                _ => {}
            }
        }
        self.result.actions.push(new);
    }
}
