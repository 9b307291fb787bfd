// Package daemon is the frame of every Garboard process. It provides flags with their environment
// variables, structured logs, signals, and the health check of a running process.
//
// Only commands and this package know flags; a service gets its Config.
package daemon
