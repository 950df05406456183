# default.sieve: a first script for a new account.
#
# Files spam, as marked by the site's filter, into Junk, and each mailing list into a mailbox under
# Lists. Everything else goes to the Inbox. Discards nothing.

require ["fileinto", "mailbox", "variables", "imap4flags"];

# The verdict of the site's spam filter. The border mail server must remove these fields from
# incoming mail, or any sender can set them.
if anyof (header :is "X-Spam-Flag" "YES",
          header :matches "X-Spam-Status" "Yes,*",
          header :is "X-Spam" "Yes") {
    fileinto :create "Junk";
    stop;
}

# List-Id (RFC 2919): "Some words <name.of.list.example>". The first label names the mailbox.
if header :matches "List-Id" "*<*.*>*" {
    set :lower "list" "${2}";
    # The name comes from the sender: it must not contain a hierarchy separator.
    if not string :matches "${list}" ["", "*/*", "*\\*", "*%*"] {
        fileinto :create "Lists/${list}";
        stop;
    }
}

# Mark automatic mail.
if header :matches "Auto-Submitted" "auto-generated*" {
    addflag "$auto";
}
