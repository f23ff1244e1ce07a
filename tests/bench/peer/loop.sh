#!/bin/sh
# loop.sh SOCKET QUEUE TRANSIT: the loop that people write.
while m=$(redis-cli -s "$1" -n 1 brpoplpush "$2" "$3" 1) && [ -n "$m" ]; do
	printf %s "$m" | /bin/true
	redis-cli -s "$1" -n 1 lrem "$3" -1 "$m" >/dev/null
done
