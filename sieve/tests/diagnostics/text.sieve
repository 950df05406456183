require "reject";
reject text:
No.
