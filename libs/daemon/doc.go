// Package daemon is what every Garboard process is made of: flags with their environment
// variables, structured logs, signals, an HTTP server for health and metrics, and parts that
// start in order and stop in reverse.
//
// Only commands and this package know of flags; a service sees its Config.
package daemon
