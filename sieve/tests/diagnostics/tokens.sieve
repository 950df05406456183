require "fileinto";
fileinto “Lists”;
if size :over 10MB { discard; }
if size :over 99999999999G { discard; }
if size : over 5 { keep; }
redirect text: now
a@example.org
.
;
# The string that begins here ends at its line.
fileinto "Junk;
keep;
