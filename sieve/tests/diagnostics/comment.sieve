keep;
/* never closed
stop;
