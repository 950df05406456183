# option: environment
require ["variables", "environment"];
if string "${env.name}" "x" { set "env.name" "y"; }
