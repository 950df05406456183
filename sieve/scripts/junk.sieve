# junk.sieve: the verdict of the site's spam filter, and people whose mail is always welcome.
#
# Welcome senders come first, so that a filter's error never hides them. Nothing is discarded.

require ["fileinto", "mailbox", "relational", "comparator-i;ascii-numeric", "imap4flags", "variables"];

# Always welcome: your own organisation and the people you name. Only when the border vouched for the sender: a From
# field can be written by anyone.
if allof (address :is :domain "From" ["example.org"],
          header :contains "Authentication-Results" "dmarc=pass") {
    keep;
    stop;
}

# A plain verdict.
if anyof (header :is "X-Spam-Flag" "YES",
          header :matches "X-Spam-Status" "Yes,*",
          header :is "X-Spam" "Yes") {
    addflag "$junk";
    fileinto :create "Junk";
    stop;
}

# A score, as "X-Spam-Score: 7.3": its whole part is compared. Your threshold is the 6.
if header :matches "X-Spam-Score" ["*.*", "*"] {
    if string :value "ge" :comparator "i;ascii-numeric" "${1}" "6" {
        # A score below zero begins with a sign, which that comparator reads as infinite.
        if not string :matches "${1}" "-*" {
            addflag "$junk";
            fileinto :create "Junk";
            stop;
        }
    }
}
