require "fileinto", "copy";
keep
stop
;
"text";
if true
    keep;
if anyof (true, false { discard; }
if anyof (true false) { keep; }
if anyof (true,) { keep; }
if size :over 5 "x" { keep; }
if true :over { keep; }
if not true "x" { keep; }
if anyof (true, false) "x" { keep; }
if header :is ["a", "b" "c"] "d" { keep; }
if header :is ["a", 5, "c"] "d" { keep; }
if header :is [] "d" { keep; }
if header :is ["a", "b" :contains "d" { keep; }
redirect "a@example.org", "b@example.org";
}
if true {
    keep;
