// Package prober runs the liveness, readiness and startup probes of running containers: HTTP
// and TCP connections from the node, commands inside the container, gRPC health checks.
//
// Each probe of each container has a goroutine. What it finds counts only for the container
// that runs now, known by its ID. A change of a result is told on Changed.
package prober
