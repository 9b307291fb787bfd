#!/bin/sh
# As in the upstream image: what begins with a dash is given to the server.
case "$1" in
-*) set -- nats-server "$@" ;;
esac
exec "$@"
