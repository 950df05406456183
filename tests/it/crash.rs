//! Killed at any instant: nothing acknowledged is lost, nothing is there twice, nobody is answered
//! twice.
//!
//! The real program on RocksDB under load from several sessions, `kill -9` at random points, what
//! was not acknowledged is tried again as Postfix would. `RESTANTE_KILLS` sets how often,
//! `RESTANTE_SEED` repeats a run's dice.
#![cfg(feature = "rocksdb")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::bed::{Bed, email_id};
use crate::mail::{Client, letter};
use crate::sink::Sink;

const PEOPLE: usize = 4;
const SESSIONS: usize = 4;

/// A transaction, and the ids that were acknowledged for its recipients.
#[derive(Debug, Clone)]
struct Job {
    sender: String,
    subject: String,
    recipients: Vec<String>,
    message: Vec<u8>,
    ids: Vec<Option<String>>,
}

impl Job {
    fn new(worker: usize, number: usize, dice: &mut Dice) -> Self {
        // A domain each: replies to one domain are limited by the hour.
        let sender = format!("sender@d{worker}x{number}.example");
        let subject = format!("letter {worker} {number}");
        let first = dice.below(PEOPLE);
        let mut recipients = vec![format!("u{first}@example.org")];
        if dice.below(4) == 0 {
            recipients.push(format!("u{}@example.org", (first + 1) % PEOPLE));
        }
        let body = "words of a small letter, and some more of them\n".repeat(1 + dice.below(40));
        let message = letter(&sender, &recipients.join(", "), &subject, &body);
        let ids = vec![None; recipients.len()];
        Self { sender, subject, recipients, message, ids }
    }

    fn acknowledged(&self) -> bool {
        self.ids.iter().all(Option::is_some)
    }

    /// One try; false when the session broke off.
    fn attempt(&mut self, client: &mut Client) -> bool {
        let recipients: Vec<&str> = self.recipients.iter().map(String::as_str).collect();
        let Ok(replies) = client.deliver(&self.sender, &recipients, &self.message) else {
            return false;
        };
        for (known, reply) in self.ids.iter_mut().zip(&replies) {
            if reply.ok() {
                let id = email_id(reply).unwrap_or_else(|| panic!("no id in {reply:?}"));
                if let Some(known) = known {
                    assert_eq!(
                        *known, id,
                        "a retry of an acknowledged message has another id: {}",
                        self.subject
                    );
                }
                *known = Some(id);
            } else {
                assert!((400..500).contains(&reply.code), "refused for good: {reply:?}");
            }
        }
        true
    }
}

/// Xorshift: dice that can be thrown again.
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

/// One session's work until the service is gone.
fn work(lmtp: &Path, over: &AtomicBool, worker: usize, jobs: &mut Vec<Job>, dice: &mut Dice) {
    while !over.load(Ordering::Relaxed) {
        let Ok(mut client) = Client::lmtp(lmtp) else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        loop {
            let open = jobs.iter().position(|job| !job.acknowledged());
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

/// What a variable says.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn killed_at_any_instant_nothing_is_lost_or_doubled() {
    let kills = number("RESTANTE_KILLS", 100);
    let seed = number("RESTANTE_SEED", getrandom::u64().unwrap() | 1);
    println!("RESTANTE_SEED={seed}");
    let mut dice = Dice(seed);
    let sink = Sink::start();
    let mut bed = Bed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {}\nrelay.tls = \"none\"\nvacation.replies-per-hour = 1000000\n\
         log.level = \"warn\"\n",
        sink.address.port()
    ));
    bed.start();
    for person in 0..PEOPLE {
        let address = format!("u{person}@example.org");
        bed.account(&address, &[]);
        bed.ok(&["vacation", "set", "-a", &address, "--text", "I am away."]);
    }

    let mut work_of: Vec<(Vec<Job>, Dice)> = (0..SESSIONS)
        .map(|worker| (Vec::new(), Dice(seed.rotate_left(worker as u32 * 7 + 1) | 1)))
        .collect();
    for round in 0..kills {
        let over = Arc::new(AtomicBool::new(false));
        let lmtp = bed.lmtp();
        let workers: Vec<_> = work_of
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
        work_of = workers.into_iter().map(|thread| thread.join().unwrap()).collect();
        // Now and then it is killed while it opens, too.
        if round % 10 == 9 {
            bed.spawn();
            std::thread::sleep(Duration::from_micros(dice.below(100_000) as u64));
            bed.kill();
        }
        bed.start();
    }

    // What is left is tried again, as Postfix would.
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut jobs: Vec<Job> = work_of.into_iter().flat_map(|(jobs, _)| jobs).collect();
    for job in jobs.iter_mut().filter(|job| !job.acknowledged()) {
        for _ in 0..10 {
            assert!(job.attempt(&mut client), "the session broke off");
            if job.acknowledged() {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(job.acknowledged(), "never taken: {job:?}");
    }

    let mut wanted: HashMap<(String, String), String> = HashMap::new();
    for job in &jobs {
        for (recipient, id) in job.recipients.iter().zip(&job.ids) {
            wanted.insert((recipient.clone(), job.subject.clone()), id.clone().unwrap());
        }
    }
    let total = wanted.len();
    assert!(total > PEOPLE, "hardly any load: {total}");
    for person in 0..PEOPLE {
        let address = format!("u{person}@example.org");
        for listed in bed.mail(&address) {
            let key = (address.clone(), listed.subject.clone());
            let id = wanted
                .remove(&key)
                .unwrap_or_else(|| panic!("twice, or from nowhere: {key:?} {}", listed.id));
            assert_eq!(id, listed.id, "{key:?}: another id than was acknowledged");
        }
    }
    assert!(wanted.is_empty(), "acknowledged and lost: {wanted:?}");

    bed.eventually("the queue is empty", Duration::from_secs(180), || {
        bed.rows(&["queue", "list"]).is_empty()
    });
    let mut answers: HashMap<(String, String), u32> = HashMap::new();
    for reply in sink.caught() {
        assert_eq!(reply.sender, "", "a reply has no sender of its own (RFC 3834 §3.3)");
        let from = reply.header("From").unwrap_or_default();
        *answers.entry((reply.recipients.join(","), from)).or_default() += 1;
    }
    let twice: Vec<_> = answers.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "answered twice: {twice:?}");
    // What was under way at the instant of a kill may be lost: at most what is sent at once
    // (relay.concurrency).
    let lost = total - answers.len();
    println!(
        "{kills} kills, {total} deliveries, {} replies, {lost} of them lost in sending",
        answers.len()
    );
    assert!(lost as u64 <= (kills + kills / 10) * 4, "{lost} of {total} replies lost");
    bed.finish();
}
