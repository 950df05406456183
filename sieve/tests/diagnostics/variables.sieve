# option: limit variables 2
require "variables";
set "a" "1";
set "b" "2";
set "c" "${a}${b}";
