# The configuration of a package: its service has a user, and handlers have another one.
s/^\t#user = "quredis";/\tuser = "quredis";/
s/^\t# run_as = { user = "quredis-handler"; };/\trun_as = { user = "quredis-handler"; };/
