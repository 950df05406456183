//! The command `demo`: shows on the loopback interface how mail is delivered and answered.
//!
//! - It delivers over LMTP a conversation, list mail, automatic mail, attachments and a foreign
//!   charset.
//! - Nothing leaves the machine, because the relay is a sink on the loopback interface.
//! - It empties the data directory at its start, but only one that an earlier demo made.

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
use crate::cli::sink::{Sink, SinkMessage};
use crate::cli::terminal::output::{self, table};
use crate::config::{ByteSize, Config, ListenValue, TlsValue};
use crate::model::clock;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::accounts::{AccountAdd, AccountAddArguments};
use crate::wire::jmap::admin::decisions::{DecisionList, DecisionListArguments};
use crate::wire::jmap::admin::mail::{MailList, MailListArguments};
use crate::wire::jmap::admin::vacation::VacationFacts;

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The data directory, which is emptied first.
    #[arg(long, default_value = "var/demo", value_name = "DIR")]
    pub dir: PathBuf,
    /// Stop at the end instead of waiting for Ctrl-C.
    #[arg(long)]
    pub once: bool,
}

/// Envelope sender, recipients, bytes.
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

/// One each to Clara, Ben, Emil and Fyodor; none to the list and to the backup.
const EXPECTED_REPLIES: usize = 4;

/// The file that marks a directory as made by a demo.
const MARK_NAME: &str = "restante-demo";

pub(in crate::cli) fn run(args: &DemoArgs) -> Result<(), Failure> {
    runtime()?.block_on(show(args))
}

async fn show(args: &DemoArgs) -> Result<(), Failure> {
    let dir = empty_directory(&args.dir)?;
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
    create_accounts(&context).await?;

    title("Seven messages are delivered over LMTP, as Postfix would do");
    deliver(&lmtp).await.map_err(|error| Failure::new(exit::SOFTWARE, format!("LMTP: {error}")))?;

    title("Ann's inbox, one line for each thread");
    let ann = selected_account::find_account("ann@example.org", &context).await?;
    let list = |collapse_threads: bool| {
        let args = MailListArguments { collapse_threads, ..MailListArguments::default() };
        context.client.call::<MailList>(With(AccountRef::by_id(&ann.id), args))
    };
    let threads = list(true).await?;
    table(mail::head(true), mail::rows(&threads.list, &ann.zone));
    title("Ann's inbox, one line for each message; THREAD is the conversation");
    let all = list(false).await?;
    table(mail::head(false), mail::rows(&all.list, &ann.zone));

    title("Who was answered, and why others were not");
    let all = With(AccountRef::by_id(&ann.id), DecisionListArguments::default());
    let log = context.client.call::<DecisionList>(all).await?;
    table(&vacation::LOG_HEAD, vacation::log_rows(&log.list, &ann.zone));

    if tokio::time::timeout(Duration::from_secs(20), sink.wait_for(EXPECTED_REPLIES)).await.is_err()
    {
        service.stop().await;
        return Err(Failure::new(
            exit::SOFTWARE,
            format!("{} of {EXPECTED_REPLIES} replies came within 20 s", sink.messages().len()),
        ));
    }
    title(&format!("{EXPECTED_REPLIES} replies were sent; this is one, as the relay received it"));
    // The reply to Clara, or else the first one.
    let to_clara = |reply: &SinkMessage| reply.recipients.concat().contains("clara");
    if let Some(reply) = sink.messages().into_iter().min_by_key(|reply| !to_clara(reply)) {
        let recipients = reply.recipients.join(" ");
        output::lines(&format!("MAIL FROM:{}\nRCPT TO:{recipients}\n", reply.sender));
        output::lines(&String::from_utf8_lossy(&reply.message).replace("\r\n", "\n"));
    }
    if !args.once {
        wait_for_signal(&file, &lmtp).await?;
    }
    service.stop().await;
    Ok(())
}

async fn create_accounts(context: &CommandContext) -> Result<(), Failure> {
    title("Two accounts are created; Ann is away");
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

/// Empties a directory that a demo made, or creates it. Returns its absolute path.
///
/// # Errors
/// The directory has files, but not the mark of a demo; or it cannot be emptied or created.
fn empty_directory(dir: &Path) -> Result<PathBuf, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(exit::NO_INPUT, format!("{}: {error}", dir.display()));
    if dir.exists() {
        let empty = std::fs::read_dir(dir).map_err(failed)?.next().is_none();
        if !empty && !dir.join(MARK_NAME).exists() {
            return Err(Failure::new(
                exit::USAGE,
                format!(
                    "{}: not empty, and not made by the demo: name another directory with --dir",
                    dir.display()
                ),
            ));
        }
        std::fs::remove_dir_all(dir).map_err(failed)?;
    }
    std::fs::create_dir_all(dir).map_err(failed)?;
    let mark = "Made by `restante demo`, which empties this directory at its start.\n";
    write(&dir.join(MARK_NAME), mark)?;
    std::fs::canonicalize(dir).map_err(failed)
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{}: {error}", file.display())))
}

/// Returns the configuration of the demo. `relay` is the port of the sink.
fn configuration(dir: &Path, relay: u16) -> Config {
    let mut config = Config::default();
    config.store.path = dir.join("data");
    config.lmtp.listen = Some(vec![ListenValue::Tcp { host: "127.0.0.1".into(), port: 0 }]);
    config.lmtp.hostname = Some("mail.example.org".into());
    config.control.socket = dir.join("control");
    config.relay.port = relay;
    config.relay.tls = TlsValue::None;
    // The sink takes no larger message.
    config.limits.message = ByteSize(16 << 20);
    config
}

/// Returns the configuration file for commands that talk to the demo.
fn toml(config: &Config) -> String {
    format!(
        "[store]\npath = \"{}\"\n\n[control]\nsocket = \"{}\"\n",
        config.store.path.display(),
        config.control.socket.display()
    )
}

fn title(text: &str) {
    output::lines(&format!("\n== {text}\n"));
}

/// Delivers the messages to an LMTP address, and prints the reply for each recipient.
async fn deliver(address: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    read_reply(&mut stream).await?;
    send(&mut stream, b"LHLO demo.example.org\r\n").await?;
    for (sender, recipients, message) in MESSAGES {
        send(&mut stream, format!("MAIL FROM:<{sender}> BODY=8BITMIME\r\n").as_bytes()).await?;
        for recipient in recipients {
            send(&mut stream, format!("RCPT TO:<{recipient}>\r\n").as_bytes()).await?;
        }
        send(&mut stream, b"DATA\r\n").await?;
        for line in message.split_inclusive(|byte| *byte == b'\n') {
            if line.starts_with(b".") {
                stream.write_all(b".").await?;
            }
            stream.write_all(line).await?;
        }
        stream.write_all(b".\r\n").await?;
        for recipient in recipients {
            let reply = read_reply(&mut stream).await?;
            output::line(&format!("{sender} -> {recipient}: {}", reply.trim_end()));
        }
    }
    send(&mut stream, b"QUIT\r\n").await?;
    Ok(())
}

/// Sends a command, and returns the last line of the reply.
///
/// # Errors
/// The connection breaks, or the reply is not a positive one (2yz or 3yz).
async fn send(stream: &mut BufReader<TcpStream>, command: &[u8]) -> std::io::Result<String> {
    stream.write_all(command).await?;
    let reply = read_reply(stream).await?;
    if reply.starts_with(['2', '3']) {
        Ok(reply)
    } else {
        Err(std::io::Error::other(format!(
            "{}: {reply}",
            String::from_utf8_lossy(command).trim_end()
        )))
    }
}

/// Returns the last line of one reply.
async fn read_reply(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
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

/// Prints what can be tried, and waits for SIGTERM or SIGINT. `file` is the configuration, and
/// `lmtp` the address of the service.
async fn wait_for_signal(file: &Path, lmtp: &str) -> Result<(), Failure> {
    let program = std::env::args().next().unwrap_or_else(|| "restante".into());
    let file = file.display();
    title("The service runs until Ctrl-C. Try in another terminal:");
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
        output::line(&format!("  {program} {command}"));
    }
    output::line(&format!(
        "  swaks --protocol LMTP --server {lmtp} --from you@example.net --to ben@example.org"
    ));
    let failed = |error: std::io::Error| {
        Failure::new(exit::SOFTWARE, format!("cannot listen for signals: {error}"))
    };
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
