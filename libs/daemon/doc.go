// Package daemon is the frame of every Garboard process. It provides flags with their environment
// variables, structured logs, signals, an HTTP server for health and metrics, and parts that start
// in order and stop in reverse.
//
// Only commands and this package know flags; a service gets its Config.
package daemon
