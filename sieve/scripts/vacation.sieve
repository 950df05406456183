# vacation.sieve: answers mail while you are away (RFC 5230), between two days (RFC 5260).
#
# Edit it: the dates, the time zone, your addresses, the text. Restante never answers lists, bulk
# mail, automatic mail and forged senders, so this script need not test for them. It does not change
# where mail is filed.

require ["vacation", "date", "relational", "envelope", "subaddress"];

# Do not answer spam.
if header :is "X-Spam-Flag" "YES" {
    stop;
}

# Do not answer mail to addresses with a tag (you+tag@…), as given to shops.
if envelope :detail :matches "to" "?*" {
    stop;
}

# From the first day until the day before the return, in your time zone.
if allof (currentdate :zone "+0100" :value "ge" "date" "2026-12-24",
          currentdate :zone "+0100" :value "lt" "date" "2027-01-07") {
    vacation
        :days 7
        :addresses ["me@example.org", "my.name@example.org"]
        :subject "Away until 7 January"
        :handle "winter"
text:
I am away until 7 January and read mail again from then on.

What cannot wait: office@example.org.
.
;
}
