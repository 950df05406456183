# option: deny body
require ["filento", "reject", "vnd.example.unknown"];
require ["body", "imapflags", "notify", "variables"];
require "${name}";
fileinto "Lists";
fileinto :copy "Lists";
if header :regex "Subject" "a" { reject "no"; }
require "copy";
if ihave "${x}" { keep; }
