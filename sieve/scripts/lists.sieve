# lists.sieve: each mailing list to a mailbox of its own.
#
# To be edited: one rule for each list that has a place of its own; others go by their List-Id (RFC 2919). A message
# that is also addressed to you in person stays in the Inbox as well.

require ["fileinto", "mailbox", "variables", "envelope", "subaddress", "copy"];

# Mail to you+lists.NAME@… that you gave as the address of a subscription.
if envelope :detail :matches "to" "lists.*" {
    set :lower "list" "${1}";
    if not string :matches "${list}" ["", "*/*"] {
        fileinto :create "Lists/${list}";
        stop;
    }
}

# A list with a place of its own: one rule each.
if header :contains "List-Id" "<announce.example.org>" {
    fileinto :create "Announcements";
    stop;
}

# Every other list, by the first label of its id.
if header :matches "List-Id" "*<*.*>*" {
    set :lower "list" "${2}";
    if not string :matches "${list}" ["", "*/*"] {
        # Addressed to me in person too: a copy stays in the Inbox.
        if address :is :all ["To", "Cc"] "me@example.org" {
            fileinto :copy :create "Lists/${list}";
        } else {
            fileinto :create "Lists/${list}";
        }
        stop;
    }
}

# Lists older than List-Id.
if exists ["List-Post", "List-Unsubscribe"] {
    fileinto :create "Lists";
}
