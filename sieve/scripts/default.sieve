# default.sieve: what a new account may begin with. Mail that the site's filter calls spam goes to Junk, mailing lists
# to a mailbox each under Lists, the rest to the Inbox.
#
# Nothing is ever discarded here: a wrong guess costs a look into another mailbox.

require ["fileinto", "mailbox", "variables", "imap4flags"];

# The verdict of the site's filter. The border must strip these fields from mail that comes in, or anyone may set them.
if anyof (header :is "X-Spam-Flag" "YES",
          header :matches "X-Spam-Status" "Yes,*",
          header :is "X-Spam" "Yes") {
    fileinto :create "Junk";
    stop;
}

# List-Id (RFC 2919): "Some words <name.of.list.example>". The first label names the mailbox.
if header :matches "List-Id" "*<*.*>*" {
    set :lower "list" "${2}";
    # A hierarchy separator in a name from outside must not choose the mailbox.
    if not string :matches "${list}" ["", "*/*", "*\\*", "*%*"] {
        fileinto :create "Lists/${list}";
        stop;
    }
}

# Copies of what machines wrote may be read later.
if header :matches "Auto-Submitted" "auto-generated*" {
    addflag "$auto";
}
