// Package apps validates the kinds that keep pods running: the kinds of the group apps, replication
// controllers and pod templates. It expects defaults to be filled in.
package apps
