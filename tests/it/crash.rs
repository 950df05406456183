//! Deliveries from several sessions while the service is killed at random points.
//!
//! - No acknowledged message is lost, and none is stored twice.
//! - No sender gets two replies from one account.
//!
//! A message that was not acknowledged is sent again, as Postfix would do. `RESTANTE_KILLS` sets
//! the number of kills during deliveries (100). `RESTANTE_SEED` repeats the random choices of an
//! earlier run.
#![cfg(feature = "rocksdb")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::bed::{TestBed, email_id};
use crate::mail::{Client, letter};
use crate::sink::Sink;

const ACCOUNTS: usize = 4;
/// LMTP sessions at the same time.
const SESSIONS: usize = 4;

/// A message to be delivered.
#[derive(Debug, Clone)]
struct Job {
    sender: String,
    subject: String,
    recipients: Vec<String>,
    message: Vec<u8>,
    /// For each of `recipients`, in order, the email id that was acknowledged, if any.
    ids: Vec<Option<String>>,
}

impl Job {
    /// Makes the letter `number` of a session, with one or two recipients.
    fn new(worker: usize, number: usize, dice: &mut Dice) -> Self {
        // Every sender has its own domain, because replies to one domain are limited by the hour.
        let sender = format!("sender@d{worker}x{number}.example");
        let subject = format!("letter {worker} {number}");
        let first = dice.below(ACCOUNTS);
        let mut recipients = vec![format!("u{first}@example.org")];
        if dice.below(4) == 0 {
            recipients.push(format!("u{}@example.org", (first + 1) % ACCOUNTS));
        }
        // About one letter in five is long: most of these are longer than `limits.body-in-memory`,
        // so each goes to a segment of its own.
        let least_lines = if dice.below(5) == 0 { 400 } else { 1 };
        let lines = least_lines + dice.below(40);
        let body = "words of a small letter, and some more of them\n".repeat(lines);
        let message = letter(&sender, &recipients.join(", "), &subject, &body);
        let ids = vec![None; recipients.len()];
        Self { sender, subject, recipients, message, ids }
    }

    fn is_acknowledged(&self) -> bool {
        self.ids.iter().all(Option::is_some)
    }

    /// Tries to deliver the message once. Returns false if the session broke off.
    fn attempt(&mut self, client: &mut Client) -> bool {
        let recipients: Vec<&str> = self.recipients.iter().map(String::as_str).collect();
        let Ok(replies) = client.deliver(&self.sender, &recipients, &self.message) else {
            return false;
        };
        for (acknowledged, reply) in self.ids.iter_mut().zip(&replies) {
            if reply.ok() {
                let id = email_id(reply).unwrap_or_else(|| panic!("no id in {reply:?}"));
                if let Some(before) = acknowledged {
                    assert_eq!(
                        *before, id,
                        "a retry of an acknowledged message has another id: {}",
                        self.subject
                    );
                }
                *acknowledged = Some(id);
            } else {
                assert!((400..500).contains(&reply.code), "refused permanently: {reply:?}");
            }
        }
        true
    }
}

/// A xorshift generator of random numbers: the same seed gives the same numbers. The seed must not
/// be 0.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

/// Delivers new messages, and again those that were not acknowledged and some that were, until
/// `over` is set. Reconnects when the session breaks off.
fn work(lmtp: &Path, over: &AtomicBool, worker: usize, jobs: &mut Vec<Job>, dice: &mut Dice) {
    while !over.load(Ordering::Relaxed) {
        let Ok(mut client) = Client::lmtp(lmtp) else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        loop {
            let open = jobs.iter().position(|job| !job.is_acknowledged());
            let again = (!jobs.is_empty() && dice.below(16) == 0).then(|| dice.below(jobs.len()));
            let at = open.or(again).unwrap_or_else(|| {
                jobs.push(Job::new(worker, jobs.len(), dice));
                jobs.len() - 1
            });
            if !jobs[at].attempt(&mut client) || over.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(Duration::from_millis(dice.below(8) as u64));
        }
    }
}

/// The number in an environment variable, or `default`.
pub(crate) fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn killed_service_loses_and_doubles_no_mail_or_reply() {
    let kills = env_number("RESTANTE_KILLS", 100);
    let seed = env_number("RESTANTE_SEED", getrandom::u64().unwrap() | 1);
    println!("RESTANTE_SEED={seed}");
    let mut dice = Dice(seed);
    let sink = Sink::start();
    let mut bed = TestBed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {}\nrelay.tls = \"none\"\n\
         limits.body-in-memory = \"19 KiB\"\n\
         vacation.replies-per-hour = 1000000\nlog.level = \"warn\"\n",
        sink.address.port()
    ));
    bed.start();
    for person in 0..ACCOUNTS {
        let address = format!("u{person}@example.org");
        bed.add_account(&address, &[]);
        bed.run_ok(&["vacation", "set", "-a", &address, "--text", "I am away."]);
    }

    let mut work_by_session: Vec<(Vec<Job>, Dice)> = (0..SESSIONS)
        .map(|worker| (Vec::new(), Dice(seed.rotate_left(worker as u32 * 7 + 1) | 1)))
        .collect();
    for round in 0..kills {
        let over = Arc::new(AtomicBool::new(false));
        let lmtp = bed.lmtp();
        let workers: Vec<_> = work_by_session
            .drain(..)
            .enumerate()
            .map(|(worker, (mut jobs, mut dice))| {
                let (over, lmtp) = (Arc::clone(&over), lmtp.clone());
                std::thread::spawn(move || {
                    work(&lmtp, &over, worker, &mut jobs, &mut dice);
                    (jobs, dice)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_micros(dice.below(350_000) as u64));
        bed.kill();
        over.store(true, Ordering::Relaxed);
        work_by_session = workers.into_iter().map(|thread| thread.join().unwrap()).collect();
        // Every tenth time the service is also killed while it opens the store.
        if round % 10 == 9 {
            bed.spawn();
            std::thread::sleep(Duration::from_micros(dice.below(100_000) as u64));
            bed.kill();
        }
        bed.start();
    }

    // Postfix would try the remaining messages again.
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut jobs: Vec<Job> = work_by_session.into_iter().flat_map(|(jobs, _)| jobs).collect();
    for job in jobs.iter_mut().filter(|job| !job.is_acknowledged()) {
        for _ in 0..10 {
            assert!(job.attempt(&mut client), "the session broke off");
            if job.is_acknowledged() {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(job.is_acknowledged(), "never accepted: {job:?}");
    }

    let mut wanted: HashMap<(String, String), String> = HashMap::new();
    for job in &jobs {
        for (recipient, id) in job.recipients.iter().zip(&job.ids) {
            wanted.insert((recipient.clone(), job.subject.clone()), id.clone().unwrap());
        }
    }
    let total = wanted.len();
    assert!(total > ACCOUNTS, "hardly any load: {total}");
    for person in 0..ACCOUNTS {
        let address = format!("u{person}@example.org");
        for listed in bed.list_mail(&address) {
            let key = (address.clone(), listed.subject.clone());
            let id = wanted
                .remove(&key)
                .unwrap_or_else(|| panic!("stored twice, or never sent: {key:?} {}", listed.id));
            assert_eq!(id, listed.id, "{key:?}: acknowledged with another id");
        }
    }
    assert!(wanted.is_empty(), "acknowledged and lost: {wanted:?}");

    bed.wait_until("the queue is empty", Duration::from_secs(180), || {
        bed.rows(&["queue", "list"]).is_empty()
    });
    let mut reply_counts: HashMap<(String, String), u32> = HashMap::new();
    for reply in sink.messages() {
        assert_eq!(reply.sender, "", "a reply has the null sender (RFC 3834 §3.3)");
        let from = reply.header("From").unwrap_or_default();
        *reply_counts.entry((reply.recipients.join(","), from)).or_default() += 1;
    }
    let twice: Vec<_> = reply_counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "answered twice: {twice:?}");
    // Replies that were being sent at a kill may be lost: at most `relay.concurrency` (4) at each
    // kill.
    let lost = total - reply_counts.len();
    println!(
        "{kills} kills, {total} deliveries, {} replies, {lost} of them lost in sending",
        reply_counts.len()
    );
    assert!(lost as u64 <= (kills + kills / 10) * 4, "{lost} of {total} replies lost");
    bed.finish();
}
