# option: limit commands 3
keep;
keep;
keep;
keep;
nonsense;
