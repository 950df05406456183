require ["variables", "regex", "vacation", "copy", "encoded-character", "imap4flags", "editheader",
    "environment", "servermetadata", "body", "date", "relational", "enotify",
    "envelope", "envelope-deliverby", "extlists", "replace", "foreverypart", "extracttext"];
if string "a" "b" { keep; }
if header :regex "Subject" "\.org$" { keep; }
if header :is "Subject" "${unset}" { keep; }
if header :is "Subject" "${hex: xyz}" { keep; }
addflag "\\Sene \\Recent a(b";
addheader "Received" "x";
deleteheader "Subject";
deleteheader :is "X-A";
if currentdate "date" ["24.12.2026", "2026-12-24"] { keep; }
if currentdate :value "ge" "date" ["2026-12", "12/24"] { keep; }
if environment "remote-hots" "x" { keep; }
if servermetadata "comment" "x" { keep; }
vacation :handle "${unset}" :addresses ["me", "Me <me@example.org>"] "Away";
if envelope :zone "+0100" "from" "x" { keep; }
if exists ["Subject:", "Na me"] { keep; }
notify "xmpp:me@example.org";
if header :list "From" "tag:example.org,2026:x" { keep; }
foreverypart { foreverypart { replace :subject "x" "y"; } extracttext :first 0 "unset2"; }
notify "mailto:${unset2}@example.org";
notify "mailto:me@example.org?subject=${1}";
redirect "a@example.org";
if true { stop; keep; }
stop;
keep;
discard;
