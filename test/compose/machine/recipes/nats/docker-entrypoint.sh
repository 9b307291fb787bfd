#!/bin/sh
# As in the upstream image: arguments that start with a dash are passed to the server.
case "$1" in
-*) set -- nats-server "$@" ;;
esac
exec "$@"
