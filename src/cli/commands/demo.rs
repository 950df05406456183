//! `demo`: the main job, shown on loopback with mail of our own.
//!
//! Two accounts, one of them away; a conversation, list mail, automatic mail, attachments and a
//! foreign charset come in over LMTP; then the inbox by threads, each decision with its reason, and
//! the reply that was sent. Nothing leaves the machine: the relay is a sink on loopback. The data
//! directory is emptied first, and only if the demo made it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::commands::{mail, vacation};
use crate::cli::control::{CommandContext, client::ControlClient, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::service::Service;
use crate::cli::service::serve::runtime;
use crate::cli::sink::Sink;
use crate::cli::terminal::output::{self, table};
use crate::config::{ByteSize, Config, ListenValue, TlsValue};
use crate::model::clock;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::accounts::{AccountAdd, AccountAddArguments};
use crate::wire::jmap::admin::decisions::{DecisionList, DecisionListArguments};
use crate::wire::jmap::admin::mail::{MailList, MailListArguments};
use crate::wire::jmap::admin::vacation::VacationFacts;

/// `demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The data directory; it is emptied first.
    #[arg(long, default_value = "var/demo", value_name = "DIR")]
    pub dir: PathBuf,
    /// Stop after the show.
    #[arg(long)]
    pub once: bool,
}

/// A message of the show: envelope sender, recipients, bytes.
type DemoMessage = (&'static str, &'static [&'static str], &'static [u8]);

const MESSAGES: [DemoMessage; 7] = [
    ("clara@example.net", &["ann@example.org"], include_bytes!("demo/1-question.eml")),
    ("ben@example.org", &["ann@example.org"], include_bytes!("demo/2-answer.eml")),
    (
        "clara@example.net",
        &["ann@example.org", "ben@example.org"],
        include_bytes!("demo/3-again.eml"),
    ),
    ("stonework@lists.example.net", &["ann@example.org"], include_bytes!("demo/4-list.eml")),
    ("backup@host.example.org", &["ann@example.org"], include_bytes!("demo/5-automatic.eml")),
    ("emil@example.net", &["ann+minutes@example.org"], include_bytes!("demo/6-attachments.eml")),
    ("fyodor@example.net", &["a.berger@example.org"], include_bytes!("demo/7-koi8.eml")),
];

/// The people who are told: Clara, Ben, Emil and Fyodor, each once.
const EXPECTED_REPLIES: usize = 4;

/// The mark by which the demo knows its own directory.
const MARK_NAME: &str = "restante-demo";

pub(in crate::cli) fn run(args: &DemoArgs) -> Result<(), Failure> {
    runtime()?.block_on(show(args))
}

async fn show(args: &DemoArgs) -> Result<(), Failure> {
    let dir = fresh(&args.dir)?;
    let sink = Sink::start()
        .await
        .map_err(|error| Failure::new(exit::UNAVAILABLE, format!("the sink: {error}")))?;
    let config = configuration(&dir, sink.port());
    let file = dir.join("restante.toml");
    write(&file, &toml(&config))?;
    let service = Service::start(config.clone(), Arc::new(clock::SystemClock)).await?;
    let lmtp = service.lmtp_addresses().first().cloned().unwrap_or_default();
    let context =
        CommandContext { client: ControlClient::new(&config.control.socket), config, json: false };

    title(&format!("Restante is up: LMTP on {lmtp}, data in {}", dir.display()));
    accounts(&context).await?;

    title("Seven messages come in over LMTP, as Postfix would hand them over");
    deliver(&lmtp).await.map_err(|error| Failure::new(exit::SOFTWARE, format!("LMTP: {error}")))?;

    title("Ann's inbox, a line for each thread");
    let ann = selected_account::find_account("ann@example.org", &context).await?;
    let list = |collapse_threads: bool| {
        let args = MailListArguments { collapse_threads, ..MailListArguments::default() };
        context.client.call::<MailList>(With(AccountRef::by_id(&ann.id), args))
    };
    let threads = list(true).await?;
    table(mail::head(true), mail::rows(&threads.list, &ann.zone));
    title("... and each message: equal THREAD, one conversation");
    let all = list(false).await?;
    table(mail::head(false), mail::rows(&all.list, &ann.zone));

    title("Who was answered, and why not");
    let all = With(AccountRef::by_id(&ann.id), DecisionListArguments::default());
    let log = context.client.call::<DecisionList>(all).await?;
    table(&vacation::LOG_HEAD, vacation::log_rows(&log.list, &ann.zone));

    if tokio::time::timeout(Duration::from_secs(20), sink.wait_for(EXPECTED_REPLIES)).await.is_err()
    {
        service.stop().await;
        return Err(Failure::new(
            exit::SOFTWARE,
            format!("{} of {EXPECTED_REPLIES} replies came within 20 s", sink.caught().len()),
        ));
    }
    title(&format!("{EXPECTED_REPLIES} replies went out; the first of them, as the relay got it"));
    if let Some(caught) =
        sink.caught().into_iter().min_by_key(|caught| !caught.recipients.concat().contains("clara"))
    {
        output::line(&format!(
            "MAIL FROM:{}\nRCPT TO:{}\n",
            caught.sender,
            caught.recipients.join(" ")
        ));
        output::line(&String::from_utf8_lossy(&caught.message).replace("\r\n", "\n"));
    }
    if !args.once {
        stay(&file, &lmtp).await?;
    }
    service.stop().await;
    Ok(())
}

async fn accounts(context: &CommandContext) -> Result<(), Failure> {
    title("Two accounts; Ann is away");
    for (address, name, aliases) in [
        ("ann@example.org", "Ann Berger", vec!["a.berger@example.org"]),
        ("ben@example.org", "Ben Carter", Vec::new()),
    ] {
        let new = AccountAddArguments {
            address: address.into(),
            display_name: Some(name.into()),
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            zone: Some("Europe/Berlin".into()),
            ..AccountAddArguments::default()
        };
        let made = context.client.call::<AccountAdd>(new).await?;
        output::line(&format!("account {} {address} {}", made.id, aliases.join(" ")));
    }
    let ann = selected_account::find_account("ann@example.org", context).await?;
    let text = "I am away until the first of December and read no mail until then.\n\nAnn\n";
    let response = VacationFacts {
        is_enabled: Some(true),
        text_body: Some(Some(text.to_owned())),
        ..VacationFacts::default()
    };
    vacation::update(context, &ann.id, &response).await?;
    vacation::show("ann@example.org", context).await
}

/// A directory of our own, emptied.
fn fresh(dir: &Path) -> Result<PathBuf, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(exit::NO_INPUT, format!("{}: {error}", dir.display()));
    if dir.exists() {
        let empty = std::fs::read_dir(dir).map_err(failed)?.next().is_none();
        if !empty && !dir.join(MARK_NAME).exists() {
            return Err(Failure::new(
                exit::USAGE,
                format!(
                    "{}: not made by the demo, so it is not emptied: name another with --dir",
                    dir.display()
                ),
            ));
        }
        std::fs::remove_dir_all(dir).map_err(failed)?;
    }
    std::fs::create_dir_all(dir).map_err(failed)?;
    write(&dir.join(MARK_NAME), "Made by `restante demo`, which empties it at its start.\n")?;
    std::fs::canonicalize(dir).map_err(failed)
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{}: {error}", file.display())))
}

fn configuration(dir: &Path, relay: u16) -> Config {
    let mut config = Config::default();
    config.store.path = dir.join("data");
    config.lmtp.listen = Some(vec![ListenValue::Tcp { host: "127.0.0.1".into(), port: 0 }]);
    config.lmtp.hostname = Some("mail.example.org".into());
    config.control.socket = dir.join("control");
    config.relay.port = relay;
    config.relay.tls = TlsValue::None;
    config.limits.message = ByteSize(16 << 20);
    config
}

/// The same as a file, for the commands that talk to the demo.
fn toml(config: &Config) -> String {
    format!(
        "[store]\npath = \"{}\"\n\n[control]\nsocket = \"{}\"\n",
        config.store.path.display(),
        config.control.socket.display()
    )
}

fn title(text: &str) {
    output::line(&format!("\n== {text}\n"));
}

async fn deliver(place: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(place).await?);
    answer(&mut stream).await?;
    say(&mut stream, b"LHLO demo.example.org\r\n").await?;
    for (sender, recipients, message) in MESSAGES {
        say(&mut stream, format!("MAIL FROM:<{sender}> BODY=8BITMIME\r\n").as_bytes()).await?;
        for recipient in recipients {
            say(&mut stream, format!("RCPT TO:<{recipient}>\r\n").as_bytes()).await?;
        }
        say(&mut stream, b"DATA\r\n").await?;
        for line in message.split_inclusive(|byte| *byte == b'\n') {
            if line.starts_with(b".") {
                stream.write_all(b".").await?;
            }
            stream.write_all(line).await?;
        }
        stream.write_all(b".\r\n").await?;
        for recipient in recipients {
            let reply = answer(&mut stream).await?;
            output::line(&format!("{sender} -> {recipient}: {}", reply.trim_end()));
        }
    }
    say(&mut stream, b"QUIT\r\n").await?;
    Ok(())
}

async fn say(stream: &mut BufReader<TcpStream>, command: &[u8]) -> std::io::Result<String> {
    stream.write_all(command).await?;
    let reply = answer(stream).await?;
    if reply.starts_with(['2', '3']) {
        Ok(reply)
    } else {
        Err(std::io::Error::other(format!(
            "{}: {reply}",
            String::from_utf8_lossy(command).trim_end()
        )))
    }
}

/// One reply; of several lines the last.
async fn answer(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line.as_bytes().get(3) != Some(&b'-') {
            return Ok(line);
        }
    }
}

async fn stay(file: &Path, lmtp: &str) -> Result<(), Failure> {
    let us = std::env::args().next().unwrap_or_else(|| "restante".into());
    let file = file.display();
    title("It stays up until Ctrl-C. In another terminal:");
    output::line(&format!("  export RESTANTE_CONFIG={file}"));
    for command in [
        "mail list -a ann@example.org --threads",
        "mail show -a ann@example.org ID",
        "vacation log -a ann@example.org",
        "vacation off -a ann@example.org",
        "vacation set -a ben@example.org --text 'Back on Monday.' --until friday",
        "queue list",
        "account list --json",
        "check",
        "--help",
    ] {
        output::line(&format!("  {us} {command}"));
    }
    output::line(&format!(
        "  swaks --protocol LMTP --server {lmtp} --from you@example.net --to ben@example.org"
    ));
    let failed =
        |error: std::io::Error| Failure::new(exit::SOFTWARE, format!("no signals: {error}"));
    let (mut term, mut int) = (
        signal(SignalKind::terminate()).map_err(failed)?,
        signal(SignalKind::interrupt()).map_err(failed)?,
    );
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}
