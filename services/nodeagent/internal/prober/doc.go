// Package prober runs the liveness, readiness and startup probes of running containers: HTTP and
// TCP connections from the node, commands inside the container, gRPC health checks.
//
// Each probe of each container has a goroutine. Its results count only for the container that runs
// now, identified by its ID. Changed reports changes of a result.
package prober
