// Package service is what every service on the plane has besides its own work: its connections to
// the apiserver and to NATS, the source of its informers, its reports to the apiservers, its
// readiness and its health server.
//
// A service puts the stages of its Shell into its own list of stages, between them its work:
//
//	lifecycle.Run(ctx, log, shell.Connections(), informers, shell.Reports(), work)
package service

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/trace"
)

// Config is the part of a service's configuration that all services have.
type Config struct {
	// API is how to reach the apiserver; required, unless the service passes it to Shell.Reach.
	API *rest.Config
	// Bus is how to reach NATS; required.
	Bus bus.Config
	// Transport is what carries calls to the apiserver; HTTPS if empty.
	Transport client.Transport
	// CallPause is the least time between two reads of answers by HTTPS; see client.Route's ReadPause.
	CallPause time.Duration
	// Identity distinguishes the replica from others of the service, in elections and reports; the
	// host's name and a random suffix if empty.
	Identity string
	// Version is the program's version, which the service reports about itself.
	Version string
	// Logger receives the log; slog's default if nil.
	Logger *slog.Logger
	// Registerer receives the metrics; they are discarded if nil.
	Registerer prometheus.Registerer
	// Trace records the hops of changes; may be nil.
	Trace *trace.Recorder
}

// Complete sets defaults and returns everything that is wrong, except for API; see Reachable. It
// does no I/O.
func (c *Config) Complete() error {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	var faults []error
	if len(c.Bus.URLs) == 0 && c.Bus.InProcess == nil {
		faults = append(faults, errors.New("no NATS server address is set"))
	}
	return errors.Join(append(faults, c.Bus.CheckServers(), c.Transport.Check())...)
}

// Reachable returns an error if API names no apiserver.
func (c *Config) Reachable() error {
	if c.API == nil || c.API.Host == "" {
		return errors.New("no apiserver address is set")
	}
	return nil
}

// identify names the replica after its host if it has no name yet.
func (c *Config) identify() error {
	if c.Identity != "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the host name: %w", err)
	}
	c.Identity = host + "_" + rand.Text()
	return nil
}
