package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/garboard/garboard/libs/client"
)

// jitterFactor lengthens each pause before another attempt by a random part, at most this
// multiple of it (client-go, leaderelection.JitterFactor).
const jitterFactor = 1.2

// Config names a lease and a candidate.
type Config struct {
	// Client reads and writes the lease.
	Client client.Interface
	// Namespace and Name are the lease's.
	Namespace, Name string
	// Identity is the candidate's; unique among all candidates.
	Identity string
	// LeaseDuration is how long candidates wait after the last renewal that they saw; 15 s
	// when 0.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader tries to renew before it gives up; 10 s when 0.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between attempts; 2 s when 0.
	RetryPeriod time.Duration
	// CatchUp, if set, begins each term: it is given the revision of the write that took the
	// lease, which is later than all that the leader before has written, and returns when the
	// caches that will be read are as new, such as Factory.WaitForRevision of package informer.
	// (It is not for a lease that is kept in another etcd than what the caches hold.)
	CatchUp func(ctx context.Context, revision int64) error
	// CatchUpTimeout bounds CatchUp; after it the term goes on, with a warning, since no leader
	// would be worse than one that knows too little for a moment. 10 s when 0.
	CatchUpTimeout time.Duration
	// Logger takes each change of leadership; slog.Default when nil.
	Logger *slog.Logger
}

func (c *Config) complete() error {
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 15 * time.Second
	}
	if c.RenewDeadline == 0 {
		c.RenewDeadline = 10 * time.Second
	}
	if c.RetryPeriod == 0 {
		c.RetryPeriod = 2 * time.Second
	}
	if c.CatchUpTimeout == 0 {
		c.CatchUpTimeout = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	var faults []error
	if c.Client == nil {
		faults = append(faults, errors.New("no client is set"))
	}
	if c.Namespace == "" || c.Name == "" {
		faults = append(faults, errors.New("the lease has no namespace or no name"))
	}
	if c.Identity == "" {
		faults = append(faults, errors.New("the candidate has no identity"))
	}
	if c.LeaseDuration < time.Second {
		faults = append(faults, fmt.Errorf("the lease duration %v is below one second", c.LeaseDuration))
	}
	if c.LeaseDuration <= c.RenewDeadline {
		faults = append(faults, fmt.Errorf("the lease duration %v is not above the renew deadline %v", c.LeaseDuration, c.RenewDeadline))
	}
	if float64(c.RenewDeadline) <= jitterFactor*float64(c.RetryPeriod) {
		faults = append(faults, fmt.Errorf("the renew deadline %v is not above %v times the retry period %v", c.RenewDeadline, jitterFactor, c.RetryPeriod))
	}
	if c.RetryPeriod < 0 {
		faults = append(faults, fmt.Errorf("the retry period %v is negative", c.RetryPeriod))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring an election: %w", err)
	}
	return nil
}
