#!/bin/sh
# As in the upstream image: arguments that start with a dash are passed to haproxy, which runs in
# the foreground with a master process.
set -e
case "$1" in
-*) set -- haproxy "$@" ;;
esac
if [ "$1" = haproxy ]; then
	shift
	set -- haproxy -W -db "$@"
fi
exec "$@"
