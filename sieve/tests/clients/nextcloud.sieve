### Nextcloud Mail: Vacation Responder ### DON'T EDIT ###
require "date";
### Nextcloud Mail: Vacation Responder ### DON'T EDIT ###
require "relational";
require "vacation";
### Nextcloud Mail: Filters ### DON'T EDIT ###
require ["fileinto", "imap4flags"];
### Nextcloud Mail: Filters ### DON'T EDIT ###
# FILTER: [{"name":"Team","enable":true,"operator":"allof","tests":[{"operator":"is","values":["a@example.org"],"field":"from"}],"priority":10}]
# Team
if allof (address :is :all "From" ["a@example.org"], header :contains "Subject" ["Project", "Report"]) {
addflag "\\Flagged";
fileinto "Team";
stop;
}
### Nextcloud Mail: Vacation Responder ### DON'T EDIT ###
# DATA: {"version":1,"enabled":true,"start":"2026-10-08T22:00:00+00:00","end":"2026-10-18T21:59:59+00:00"}
if allof(currentdate :value "ge" "iso8601" "2026-10-08T22:00:00Z", currentdate :value "le" "iso8601" "2026-10-18T21:59:59Z") {
	vacation :days 4 :subject "On leave" :addresses ["Test Test <test@example.org>", "alias@example.org"] "I am away.";
}
