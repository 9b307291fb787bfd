// Package apiserver serves the Kubernetes API on top of etcd. It is the only service that talks to
// etcd: requests become transactions there, and etcd's events become watches over HTTP and messages
// on the bus.
//
// It is stateless except for the certificates in Config.CertDir, and any number of replicas can run
// on one etcd.
//
// This package is only the door. Package internal/server puts the apiserver together.
package apiserver

import "github.com/garboard/garboard/services/apiserver/internal/server"

// Server is an apiserver. Run serves until its context ends; Ready waits until it serves.
type Server = server.Server

// New checks the configuration. It starts and writes nothing.
func New(cfg Config) (*Server, error) { return server.New(cfg) }
