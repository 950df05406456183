require ["relational", "envelope", "imap4flags", "fileinto", "special-use", "date", "index",
    "variables", "regex", "vacation", "enotify", "include", "redirect-dsn", "redirect-deliverby",
    "editheader", "extlists", "body", "encoded-character", "comparator-i;ascii-numeric",
    "envelope-dsn", "mailbox", "enclose", "foreverypart", "mime"];
if header :comparator "i;ascii-casmap" "Subject" "x" { keep; }
if header :contains :comparator "i;ascii-numeric" "Subject" "x" { keep; }
if header :count "gte" "Subject" "1" { keep; }
if address "Subject" "x" { keep; }
redirect "Me me@example.org";
if envelope ["fro", "bcc"] "x" { keep; }
if envelope :domain ["envid"] "x" { keep; }
if not true { fileinto ""; }
if specialuse_exists "Junk" { keep; }
if currentdate "yaer" "2026" { keep; }
if date :zone "CET" "Date" "hour" "12" { keep; }
if header :index 0 "Subject" "x" { keep; }
if header :index 5G "Subject" "x" { keep; }
set "a b" "x";
set "${a}" "x";
set "1" "x";
set "x.y" "z";
set "foo" "${no.such} ${100}";
if header :comparator "${x}" "Subject" "y" { keep; }
if header :regex "Subject" ["a(", "(a)\\1", "(?=a)", "\\w{900}{900}"] { keep; }
vacation :mime "Hello";
vacation :subject "a
b" :from "nobody" "Away";
notify :importance "4" "mailto:me@example.org";
notify "me@example.org";
notify "mailto:me";
include "";
redirect :notify "SOMETIMES" :ret "ALL" "a@example.org";
redirect :bytimeabsolute "tomorrow" :bymode "wait" "a@example.org";
addheader "X A" "b";
addheader "X-A" "a
b";
if header :list "From" "friends" { keep; }
if body :content ["text/", "text/plain"] "x" { keep; }
if header "Subject" ["${unicode: D800}", "${unicode:110000}"] { keep; }
if header "Subject" ["${hex: ff}", "${hex: C3 A4}", "${hex: zz}", "${hex:123}"] { keep; }
if specialuse_exists "a b" { keep; }
set "${a b" "x";
if hasflag ["1", "global.a"] "x" { keep; }
vacation :mime "Subject: x";
fileinto "a name that is long enough to be cut in the message of its error";
enclose :headers ["Subject: x"] "y";
foreverypart :name "outer" { break :name "outre"; }
elif true { stop; }
elseif true { stop; }
if header :list :comparator "i;octet" "From" "tag:example.org,2026:x" { keep; }
