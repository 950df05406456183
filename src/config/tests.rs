//! Tests of parsing and checking the configuration, and of its example in `docs/config.md`.

use std::path::Path;

use super::*;

fn problems(text: &str) -> String {
    let file = Path::new("restante.toml");
    match parse(text, file) {
        Err(problems) => problems.to_string(),
        Ok(config) => ConfigProblems(check(&config, text, file)).to_string(),
    }
}

#[test]
fn empty_file_has_no_problems() {
    assert_eq!(problems(""), "");
    assert_eq!(parse("", Path::new("x")).unwrap(), Config::default());
}

#[test]
fn example_equals_the_defaults() {
    assert_eq!(parse(example(), Path::new("x")).unwrap(), Config::default());
    assert_eq!(problems(example()), "");
}

/// The keys come from an error of the parser, so that none is left out: it quotes the unknown word,
/// and then each valid one. Those of an element of `[[dkim.keys]]` are not looked for.
#[test]
fn example_lists_every_key() {
    let keys = |text: &str| -> Vec<String> {
        let error = toml::from_str::<Config>(text).unwrap_err();
        error.message().split('`').skip(3).step_by(2).map(str::to_owned).collect()
    };
    let tables = keys("zzzz = 1");
    assert!(
        ["store", "limits", "log"].iter().all(|name| tables.iter().any(|table| table == name)),
        "{tables:?}"
    );
    for table in tables {
        let section =
            example().split_once(&format!("[{table}]\n")).expect("the example has the table").1;
        let section = section.split("\n[").next().unwrap();
        let keys = keys(&format!("[{table}]\nzzzz = 1"));
        assert!(!keys.is_empty());
        for key in keys {
            let is_listed = section
                .lines()
                .any(|line| line.trim_start_matches("# ").starts_with(&format!("{key} = ")));
            assert!(is_listed, "[{table}] {key} is missing in docs/config.md");
        }
    }
}

#[test]
fn commented_keys_of_the_example_are_valid() {
    let text: String = example()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.split(' ').nth(1) == Some("=") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    assert_eq!(problems(&text), "");
    assert!(parse(&text, Path::new("x")).unwrap().lmtp.tls_key.is_some());
}

#[test]
fn errors_name_line_and_remedy() {
    let cases = [
        ("unknown key", "[lmtp]\n\nlissten = []\n"),
        ("unknown key, other separator", "[limits]\nin_flight = \"1 MiB\"\n"),
        ("unknown key, nothing near", "[log]\nverbosity = 3\n"),
        ("unknown table", "[lmpt]\n"),
        ("unknown value", "[relay]\ntls = \"always\"\n"),
        ("size", "[limits]\nmessage = \"50 megs\"\n"),
        ("duration", "[limits]\nidle = 30\n"),
        ("duration unit", "[relay]\ntimeout = \"1 fortnight\"\n"),
        ("listener", "[lmtp]\nlisten = [\"/run/lmtp\"]\n"),
        ("listener v6", "[lmtp]\nlisten = [\n  \"tcp:::1:24\",\n]\n"),
        ("port 25", "[store]\n[lmtp]\nlisten = [\"tcp:127.0.0.1:25\"]\n"),
        ("no listener", "[lmtp]\nlisten = []\n"),
        ("store", "[store]\ncache = \"1 MiB\"\nwrite-buffers = 1000\njobs = 1\n"),
        ("key without certificate", "lmtp.tls-key = \"/k\"\n"),
        ("trusted", "[lmtp]\ntrusted = [\"localhost\"]\n"),
        ("delimiter", "[directory]\ndelimiter = \"--\"\nzone = \"Mars/Olympus\"\n"),
        (
            "bounds",
            "[limits]\nrecipients = 50\nidle = \"10s\"\nmessage = \"1 GiB\"\nconnections = 0\n",
        ),
        ("nothing is received", "[limits]\nsession = \"0s\"\nmessage = \"0\"\n"),
        ("name server", "[verify]\nnameservers = [\"localhost\"]\n"),
        ("verify", "[verify]\non = true\ntimeout = \"5m\"\ntrusted-sealers = [\"a b\"]\n"),
        (
            "dkim, unknown key",
            "[dkim]\n\n[[dkim.keys]]\ndomain = \"a.example\"\nselecter = \"b\"\nfile = \"/c\"\n",
        ),
        ("dkim, missing key", "[dkim]\nkeys = [{ domain = \"a.example\", file = \"/c\" }]\n"),
        (
            "dkim, bad and twice",
            "[[dkim.keys]]\ndomain = \"a..b\"\nselector = \"a b\"\nfile = \"/c\"\n\
             [[dkim.keys]]\ndomain = \"a..b\"\nselector = \"a b\"\nfile = \"/d\"\n",
        ),
        ("user without password", "[relay]\nuser = \"ann\"\n"),
        (
            "password in the clear",
            "[relay]\nhost = \"relay.example\"\nuser = \"ann\"\npassword-file = \"/p\"\n",
        ),
        (
            "nothing is sent",
            "[relay]\nconcurrency = 0\nrecipients = 0\nmessages-per-connection = 0\n",
        ),
        ("tls on a socket", "[relay]\nsocket = \"/s\"\ntls = \"required\"\n"),
        ("waits", "[queue]\nretry-first = \"10s\"\nretry-longest = \"5s\"\nsubmissions = \"1m\"\n"),
        ("type", "[relay]\nport = \"smtp\"\n"),
        ("type, large", "[relay]\nport = 99999\n"),
        ("syntax", "[relay]\nport = = 3\n"),
        ("twice", "[relay]\nport = 26\nport = 27\n"),
    ];
    let mut golden = String::new();
    for (name, text) in cases {
        golden.push_str(&format!("## {name}\n{text}->\n{}\n\n", problems(text)));
    }
    insta::assert_snapshot!(golden);
}

#[test]
fn upkeep_times_below_their_minimum_are_refused() {
    let minimums = "restore = \"1h\"\nhistory = \"1d\"\nlists = \"2d\"\ntold = \"1d\"\n\
                    threads = \"2d\"\nmessages = \"1h\"\nuploads = \"1h\"\nevery = \"1m\"\n";
    assert_eq!(problems(&format!("[upkeep]\n{minimums}")), "");
    for line in minimums.lines() {
        let (key, minimum) = line.split_once(" = ").unwrap();
        let short = minimum.trim_matches('"').parse::<DurationValue>().unwrap().0
            - Duration::from_millis(1);
        let problem = problems(&format!("[upkeep]\n{key} = \"{}ms\"\n", short.as_millis()));
        assert!(
            problem.contains(&format!("[upkeep] {key}: too short")) && problem.contains(minimum),
            "{problem}"
        );
    }
}

#[test]
fn error_names_a_missing_file() {
    let error = load(Some(Path::new("/nonexistent/restante.toml"))).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/restante.toml: cannot be read"), "{error}");
}

#[test]
fn listeners_survive_printing_and_parsing() {
    for text in ["unix:/run/x", "tcp:127.0.0.1:24", "tcp:[::1]:24", "tcp:localhost:0", "fd:lmtp"] {
        assert_eq!(text.parse::<ListenValue>().unwrap().to_string(), text);
    }
}
