//! Measures JMAP requests over HTTP: the first request of a client (Mailbox/get, and the 50 newest
//! threads of the Inbox with the properties of a list) on one and on 16 connections, and one or two
//! methods at a time, with latency and CPU time.
//!
//! `cargo bench --ignore-rust-version --bench jmap -- --size 100000 --rounds 200`. `--keep` uses
//! the store of an earlier run with `--keep`, if there is one, and does not remove it afterwards.
//! The store is in the folder `jmap` of `RESTANTE_BENCH_DIR`, or of Cargo's temporary directory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench"
)]

mod client;
mod fill;
mod service;
#[path = "../words.rs"]
mod words;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use client::Client;
use fill::USERS;
use service::Service;

struct Options {
    /// The number of emails of each account; at least ten. A store of an earlier run may have more.
    size: u64,
    /// How often a request is measured on each connection.
    rounds: usize,
    keep: bool,
}

/// The number of simultaneous connections.
const CONNECTIONS: usize = 16;

fn main() {
    let mut options = Options { size: 100_000, rounds: 200, keep: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--size" => options.size = value().parse().expect("a number"),
            "--rounds" => options.rounds = value().parse().expect("a number"),
            "--keep" => options.keep = true,
            // Cargo adds this option.
            "--bench" => {}
            other => panic!("unknown option {other}"),
        }
    }
    let dir = std::env::var_os("RESTANTE_BENCH_DIR").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join("jmap"),
        |named| Path::new(&named).join("jmap"),
    );
    if !options.keep {
        drop(std::fs::remove_dir_all(&dir));
    }
    std::fs::create_dir_all(&dir).expect("a directory for the store");
    // The directory below `store.path` where the service has its store.
    fill::accounts(&dir.join("data/store"), options.size);
    let service = Service::start(&dir);
    let [start, other] = USERS.map(|user| Start::of(&mut Client::new(&service.socket, user)));
    println!("{} emails; the first response has {} bytes", options.size, start.response_size);
    println!("{:<34} {:>9} {:>9} {:>9} {:>11}", "", "p50 us", "p99 us", "per s", "CPU us each");
    for (name, calls) in start.questions() {
        let request = request(&calls);
        let mut client = Client::new(&service.socket, USERS[0]);
        // These are not measured. An error must not count as a fast answer.
        for _ in 0..10 {
            let answer = client.ask(&request);
            let responses = answer["methodResponses"].as_array().expect("responses");
            assert!(responses.iter().all(|response| response[0] != "error"), "{name}: {answer}");
        }
        measure(&name, &service, 1, options.rounds, &[(USERS[0], request)]);
    }
    // Two accounts, because each is limited to maxConcurrentRequests.
    let both = [(USERS[0], request(&start.calls)), (USERS[1], request(&other.calls))];
    measure("the start, 16 connections", &service, CONNECTIONS, options.rounds, &both);
    println!("resident: {} MiB", service.resident() / 1024 / 1024);
    service.stop();
    if !options.keep {
        drop(std::fs::remove_dir_all(&dir));
    }
}

fn request(calls: &Value) -> Vec<u8> {
    let using = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"];
    json!({"using": using, "methodCalls": calls}).to_string().into_bytes()
}

/// The first request of a client.
struct Start {
    account: String,
    /// The id of the Inbox.
    inbox: Value,
    calls: Value,
    /// The size of the response in bytes.
    response_size: usize,
    /// The Email state before `of` changed ten emails.
    state: Value,
}

impl Start {
    /// Sends the request once, and then changes a keyword of ten of the emails in its response.
    fn of(client: &mut Client) -> Self {
        let session = client.session();
        let account =
            session["primaryAccounts"]["urn:ietf:params:jmap:mail"].as_str().expect("an account");
        let roles =
            json!([["Mailbox/query", {"accountId": account, "filter": {"role": "inbox"}}, "0"]]);
        let inbox = client.ask(&request(&roles))["methodResponses"][0][1]["ids"][0].clone();
        let reference =
            |of: &str, name: &str, path: &str| json!({"resultOf": of, "name": name, "path": path});
        let calls = json!([
            ["Mailbox/get", {"accountId": account, "ids": null}, "0"],
            ["Email/query", query(account, &inbox), "1"],
            ["Email/get", {
                "accountId": account, "#ids": reference("1", "Email/query", "/ids"),
                "properties": ["threadId"],
            }, "2"],
            ["Thread/get", {
                "accountId": account, "#ids": reference("2", "Email/get", "/list/*/threadId"),
            }, "3"],
            ["Email/get", {
                "accountId": account, "#ids": reference("3", "Thread/get", "/list/*/emailIds"),
                "properties": LIST,
            }, "4"],
        ]);
        let answer = client.ask(&request(&calls));
        assert_eq!(answer["methodResponses"][4][0], "Email/get", "{answer}");
        let response_size = answer.to_string().len();
        let emails = &answer["methodResponses"][4][1];
        // In a kept store the emails may have the keyword already. Turning it on or off changes all
        // ten in either case.
        let toggle = |email: &Value| {
            let value = if email["keywords"]["bench"] == true { Value::Null } else { json!(true) };
            (email["id"].as_str().unwrap().to_owned(), json!({"keywords/bench": value}))
        };
        let update: Map<String, Value> =
            emails["list"].as_array().unwrap().iter().take(10).map(toggle).collect();
        let set = json!([["Email/set", {"accountId": account, "update": update}, "0"]]);
        let set = client.ask(&request(&set));
        assert_eq!(
            set["methodResponses"][0][1]["updated"].as_object().map(Map::len),
            Some(10),
            "{set}"
        );
        let state = emails["state"].clone();
        Self { account: account.to_owned(), inbox, calls, response_size, state }
    }

    /// The method calls of the measured requests, with their names: the whole first request, then
    /// one or two methods.
    fn questions(&self) -> Vec<(String, Value)> {
        let account = &self.account;
        // The name begins with the method.
        let one = |name: &str, arguments: Value| {
            let method = name.split(',').next();
            (name.to_owned(), json!([[method, arguments, "0"]]))
        };
        let search = |name: &str, text: &str| {
            one(name, json!({"accountId": account, "filter": {"text": text}, "limit": 50}))
        };
        let reference = json!({"resultOf": "0", "name": "Email/query", "path": "/ids"});
        let with = |what: &str, arguments: Value| {
            let mut arguments = arguments;
            arguments["#ids"] = reference.clone();
            let calls = json!([
                ["Email/query", query(account, &self.inbox), "0"],
                ["Email/get", arguments, "1"]
            ]);
            (what.to_owned(), calls)
        };
        vec![
            ("the start".to_owned(), self.calls.clone()),
            one("Core/echo", json!({"accountId": account})),
            one("Mailbox/get", json!({"accountId": account, "ids": null})),
            one("Email/query", query(account, &self.inbox)),
            search("Email/query, a frequent word", "harbour"),
            search("Email/query, two frequent words", "harbour kitchen"),
            search("Email/query, a rare word", fill::RARE),
            with("Email/query and 50 of a list", json!({"accountId": account, "properties": LIST})),
            with(
                "Email/query and 50 with bodies",
                json!({
                    "accountId": account, "properties": ["bodyStructure", "bodyValues"],
                    "fetchTextBodyValues": true,
                }),
            ),
            one(
                "Email/changes, 10 of them",
                json!({"accountId": account, "sinceState": self.state}),
            ),
        ]
    }
}

/// The properties that a client shows in a list.
const LIST: [&str; 11] = [
    "threadId",
    "mailboxIds",
    "keywords",
    "hasAttachment",
    "from",
    "to",
    "subject",
    "receivedAt",
    "size",
    "preview",
    "id",
];

fn query(account: &str, inbox: &Value) -> Value {
    json!({
        "accountId": account, "filter": {"inMailbox": inbox}, "collapseThreads": true, "limit": 50,
        "sort": [{"property": "receivedAt", "isAscending": false}], "calculateTotal": true,
    })
}

/// Sends a request `rounds` times on each connection, and prints the latencies, the rate and the
/// CPU time of the service. The requests are assigned to the connections in turn.
fn measure(
    name: &str,
    service: &Service,
    connections: usize,
    rounds: usize,
    requests: &[(&str, Vec<u8>)],
) {
    let (before, begin) = (service.cpu(), Instant::now());
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let one = |(user, request): &(&str, Vec<u8>)| {
            let mut client = Client::new(&service.socket, user);
            let timed = |_| {
                let begin = Instant::now();
                client.exchange(request);
                begin.elapsed()
            };
            (0..rounds).map(timed).collect::<Vec<_>>()
        };
        let threads: Vec<_> = requests
            .iter()
            .cycle()
            .take(connections)
            .map(|request| scope.spawn(move || one(request)))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
    });
    let (took, cpu) = (begin.elapsed(), service.cpu() - before);
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_micros();
    println!(
        "{name:<34} {:>9} {:>9} {:>9.0} {:>11.0}",
        at(50),
        at(99),
        times.len() as f64 / took.as_secs_f64(),
        cpu * 1e6 / times.len() as f64
    );
}
