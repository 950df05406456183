# option: limit diagnostics 3
a;
b;
c;
d;
e;
