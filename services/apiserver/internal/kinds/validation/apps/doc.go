// Package apps validates the kinds that keep pods running: those of the group apps, replication
// controllers and pod templates. It expects defaults to be filled.
package apps
