redirect "a@example.org";
redirect "b@example.org";
if true { redirect "c@example.org"; }
redirect "d@example.org";
redirect "e@example.org";
redirect "f@example.org";
