# junk.sieve: files spam into Junk, except from people whose mail is always welcome.
#
# Welcome senders are tested first, so that an error of the filter never hides their mail. Discards
# nothing.

require [
    "fileinto", "mailbox", "relational", "comparator-i;ascii-numeric", "imap4flags", "variables"
];

# Always welcome: your own organisation; add the people you like. Anyone can write a From field, so
# DMARC must have passed.
if allof (address :is :domain "From" ["example.org"],
          header :contains "Authentication-Results" "dmarc=pass") {
    keep;
    stop;
}

# The spam filter's verdict.
if anyof (header :is "X-Spam-Flag" "YES",
          header :matches "X-Spam-Status" "Yes,*",
          header :is "X-Spam" "Yes") {
    addflag "$junk";
    fileinto :create "Junk";
    stop;
}

# A score such as "X-Spam-Score: 7.3". The part before the point is compared with 6: change that to
# your threshold.
if header :matches "X-Spam-Score" ["*.*", "*"] {
    if string :value "ge" :comparator "i;ascii-numeric" "${1}" "6" {
        # A negative score begins with a sign, which this comparator reads as infinity.
        if not string :matches "${1}" "-*" {
            addflag "$junk";
            fileinto :create "Junk";
            stop;
        }
    }
}
