#!/bin/sh
# As in the upstream image: what begins with a dash is given to haproxy, which runs in the
# foreground with a master process.
set -e
case "$1" in
-*) set -- haproxy "$@" ;;
esac
if [ "$1" = haproxy ]; then
	shift
	set -- haproxy -W -db "$@"
fi
exec "$@"
