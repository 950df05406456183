require ["variables", "regex", "vacation", "copy", "encoded-character", "imap4flags", "editheader",
    "environment", "servermetadata", "body"];
if string "a" "b" { keep; }
if header :regex "Subject" "\.org$" { keep; }
if header :is "Subject" "${unset}" { keep; }
if header :is "Subject" "${hex: xyz}" { keep; }
addflag "\\Sene \\Recent a(b";
addheader "Received" "x";
deleteheader "Subject";
deleteheader :is "X-A";
if environment "remote-hots" "x" { keep; }
if servermetadata "comment" "x" { keep; }
vacation :handle "${unset}" :addresses ["me", "Me <me@example.org>"] "Away";
redirect "a@example.org";
if true { stop; keep; }
stop;
keep;
discard;
