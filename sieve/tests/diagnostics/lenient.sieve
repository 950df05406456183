# option: lenient
require ["imapflags"];
setflag "\\Seen";
fileinto "A";
if header :value "ge" :comparator "i;ascii-numeric" "X" "1" { stop; }
