#!/bin/sh
# A persistent handler that does nothing, for messages of one line: a shell's read takes no byte too many.
while read -r _ serial _; do
	read -r _
	echo "OK $serial"
done
