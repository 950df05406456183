require ["fileinto", "vacation", "vacation-seconds", "enclose", "mime", "copy", "variables"];
kep;
filinto "A";
elseif true { keep; }
if heder :is "Subject" "x" { keep; }
header :is "Subject" "x" { keep; }
if keep { stop; }
fileinto :copyy "A";
fileinto :unknown "x" "A";
fileinto :copy :copy "A";
if header :is :contains "Subject" "x" { keep; }
if header :comparator { keep; }
if header :anychild "Subject" "x" { keep; }
if header :is "Subject" { keep; }
if address { keep; }
if header :is "Subject" "x" "y" { keep; }
fileinto ["A", "B"];
fileinto 5;
vacation :days "7" "Away";
if header "Subject" :is "x" { keep; }
if (true) { keep; }
if (true, false) { keep; }
if not (true) { keep; }
if allof true { keep; }
keep true;
if { keep; }
if true;
keep { stop; }
vacation :days 7 :seconds 60 "Away";
enclose :subject "s" "text";
set :upper :lower "a" "b";
if size 100K { keep; }
if size :over { keep; }
