package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
)

// DefaultBusLife is the default of Bus.Life.
const DefaultBusLife = busauth.DefaultLife

// DefaultBusNodeLife is the default of Bus.NodeLife.
const DefaultBusNodeLife = busauth.DefaultNodeLife

// minBusLife is the least value of Bus.Life and Bus.NodeLife: NATS counts in seconds.
const minBusLife = time.Second

// Bus configures the connection to NATS, and what is published there.
type Bus struct {
	// NATS is how to connect. The API is served while NATS is unreachable; watch messages and logs
	// wait for it. Unless NATS names a user, the apiserver authenticates with the key in
	// Serving.CertDir.
	NATS bus.Config
	// Open accepts a NATS that does not have the apiservers authenticate its clients: any client
	// can then read everything and forge watch messages. Without Open, a NATS that admits any
	// client is not used.
	Open bool
	// Life bounds how long a client's connection to NATS lasts, and so how long a withdrawn right
	// remains usable there; DefaultBusLife if 0.
	Life time.Duration
	// NodeLife is that of node agents' connections, whose reconnects may end sessions of pods; DefaultBusNodeLife if 0.
	NodeLife time.Duration
	// Log bounds the watch messages that are kept.
	Log Log
}

// complete sets defaults and returns everything that is wrong.
func (b *Bus) complete() error {
	var errs []error
	if len(b.NATS.URLs) == 0 && b.NATS.InProcess == nil {
		errs = append(errs, errors.New("no NATS server is set"))
	}
	if err := b.NATS.CheckServers(); err != nil {
		errs = append(errs, err)
	}
	for _, one := range []struct {
		whose string
		life  time.Duration
	}{{"clients", b.Life}, {"node agents", b.NodeLife}} {
		if one.life < 0 || one.life > 0 && one.life < minBusLife {
			errs = append(errs, fmt.Errorf("the lifetime of %s' connections to NATS, %v, must be at least %v", one.whose, one.life, minBusLife))
		}
	}
	return errors.Join(append(errs, b.Log.complete())...)
}
