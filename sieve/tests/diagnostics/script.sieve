# option: limit script 50
keep; # This script is longer than fifty bytes.
