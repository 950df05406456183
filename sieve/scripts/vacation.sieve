# vacation.sieve: an answer while you are away (RFC 5230), between two days (RFC 5260).
#
# To be edited: the dates, the zone, your addresses, the words. Restante itself refuses to answer lists, bulk and
# automatic mail, and strangers' forged senders; what stands here only says when and to whom else. Mail is filed as
# usual: a vacation files and discards nothing.

require ["vacation", "date", "relational", "envelope", "subaddress"];

# Not to what was filed as junk by the site.
if header :is "X-Spam-Flag" "YES" {
    stop;
}

# Not to addresses given to shops and the like: you+tag@… .
if envelope :detail :matches "to" "?*" {
    stop;
}

# From the first day on, and before the day of return. The zone is yours: a day begins at midnight there.
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
