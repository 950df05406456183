# subaddress.sieve: files mail to you+NAME@… into the mailbox NAME (RFC 5233), if you have one.
#
# Mail to you+shop@… goes to the mailbox "shop" or "Shop". Senders choose the name: they cannot
# create a mailbox, and cannot file into those that this script names. Mail to any other name goes
# on to the next rule or script. Edit it: add the mailboxes that only you may file into.

require ["fileinto", "mailbox", "envelope", "subaddress", "variables"];

if envelope :detail :matches "to" "?*" {
    set "name" "${1}${2}";
    # The same name with a capital letter, because many senders write addresses in lower case.
    set :lower :upperfirst "capital" "${name}";
    if not string :is "${name}" ["Inbox", "Sent", "Drafts", "Trash", "Junk", "Archive"] {
        if mailboxexists "${name}" {
            fileinto "${name}";
            stop;
        }
        if mailboxexists "${capital}" {
            fileinto "${capital}";
            stop;
        }
    }
}
