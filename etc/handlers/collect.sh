#!/bin/sh
# A persistent handler: appends every message to the file that is its first argument. See quredis-handler(7).
# Neither read nor head -c takes a byte too many. What cannot be written ends it, and is a failed attempt.
exec 3>>"$1" || exit 1
while read -r _ serial _ size _; do			# JOB serial attempt bytes [key=value ...]
	head -c "$size" >&3 || exit 1
	read -r _ || exit 1				# the newline behind the message
	if [ "$size" -eq 0 ]; then
		echo "REJECT $serial it is empty"
	else
		echo "OK $serial"
	fi
done
