require ["include", "variables", "foreverypart", "extracttext", "reject", "vacation", "fileinto"];
else { keep; }
if true { keep; } else { keep; } elsif true { keep; }
break;
extracttext "text";
foreverypart :name "outer" {
    break :name "inner";
    foreverypart { foreverypart { foreverypart { foreverypart { break :name "outer"; } } } }
}
set "a" "1";
global ["a", "b.c", "1"];
if true { reject "no"; }
vacation "Away";
reject "no";
if true { keep; stop; reject "unreachable, so no error beside keep"; }
