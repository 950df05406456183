require ["imap4flags", "imapflags"];
setflag "\\Seen";
