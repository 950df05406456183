require ["body","copy","date","enotify","envelope","ereject","fileinto","imap4flags","include","index","mailbox","regex","relational","comparator-i;ascii-numeric","subaddress","vacation","vacation-seconds","variables"];
# rule:[Lists]
if anyof (header :contains "list-id" "dev.example.org", address :contains :domain ["to","cc"] ["lists.example.org","lists.example.net"])
{
	fileinto :copy "Lists/dev";
	addflag ["\\Seen","$label1"];
}
# rule:[switched off]
if false # anyof (header :contains "subject" "sale", true)
{
	discard;
	stop;
}
# rule:[everything]
if true
{
	set :lower :upperfirst "name" "x";
	include :personal :optional "site";
	notify :importance "1" :message "${name}" "mailto:phone@example.org?subject=mail";
}
# rule:[big or old]
elsif allof (size :over 5M, not exists ["x-keep","x-list"], body :content "text" :contains "invoice")
{
	ereject text:
The message is too large.
.
;
}
# rule:[patterns]
elsif anyof (header :regex ["subject"] ["^\\[[a-z]+\\]","re: .*"], envelope :is :detail "to" "shop", header :count "ge" :comparator "i;ascii-numeric" ["received"] ["20"])
{
	redirect :copy "other@example.org";
	keep;
}
# rule:[received long ago]
elsif date :index 1 :last :originalzone :value "lt" :comparator "i;ascii-numeric" "received" "year" "2020"
{
	fileinto :create "Old";
	return;
}
# Vacation
if allof (currentdate :value "ge" "date" "2026-12-24", currentdate :value "le" "date" "2027-01-06")
{
	vacation :days 1 :addresses ["me@example.org","me@example.net"] :subject "=?UTF-8?Q?Abwesend_f=C3=BCr?= eine Weile" :from "=?UTF-8?Q?J=C3=BCrgen?= <me@example.org>" text:
I am away.
..and will answer later.
.
;
}
