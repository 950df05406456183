# lists.sieve: files each mailing list into a mailbox of its own.
#
# Edit it: add a rule for each list that shall have a mailbox of your choice. Other lists are filed
# by their List-Id (RFC 2919). A message that is also addressed to you stays in the Inbox as well.

require ["fileinto", "mailbox", "variables", "envelope", "subaddress", "copy"];

# Mail to you+lists.NAME@…, the address with which you subscribed to the list.
if envelope :detail :matches "to" "lists.*" {
    set :lower "list" "${1}";
    if not string :matches "${list}" ["", "*/*"] {
        fileinto :create "Lists/${list}";
        stop;
    }
}

# A list with a mailbox of your choice: one rule each.
if header :contains "List-Id" "<announce.example.org>" {
    fileinto :create "Announcements";
    stop;
}

# Every other list, by the first label of its List-Id.
if header :matches "List-Id" "*<*.*>*" {
    set :lower "list" "${2}";
    if not string :matches "${list}" ["", "*/*"] {
        # Also addressed to the owner: a copy stays in the Inbox.
        if address :is :all ["To", "Cc"] "me@example.org" {
            fileinto :copy :create "Lists/${list}";
        } else {
            fileinto :create "Lists/${list}";
        }
        stop;
    }
}

# Lists without a List-Id.
if anyof (exists "List-Post", exists "List-Unsubscribe") {
    fileinto :create "Lists";
}
