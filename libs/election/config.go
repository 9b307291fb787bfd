package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fence"
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
	Timing
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
	// Registerer takes the metrics, which several elections may share; none when nil.
	Registerer prometheus.Registerer
}

// Defaults of Timing, which are Kubernetes'.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// Timing says how fast a lease passes to another: from who gives it up within one pause between
// attempts, from who is gone within LeaseDuration and two pauses. A pause is RetryPeriod and a
// random part of at most 1.2 times as much, so that candidates do not come together.
type Timing struct {
	// LeaseDuration is how long candidates wait after the last renewal that they saw;
	// DefaultLeaseDuration when 0. The lease has it in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader tries to renew before it gives up;
	// DefaultRenewDeadline when 0.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between attempts; DefaultRetryPeriod when 0.
	RetryPeriod time.Duration
}

// Complete is t with what is not set filled in; the error says all that is wrong with it.
func (t Timing) Complete() (Timing, error) {
	t.LeaseDuration = cmp.Or(t.LeaseDuration, DefaultLeaseDuration)
	t.RenewDeadline = cmp.Or(t.RenewDeadline, DefaultRenewDeadline)
	t.RetryPeriod = cmp.Or(t.RetryPeriod, DefaultRetryPeriod)
	var faults []error
	if t.LeaseDuration < time.Second {
		faults = append(faults, fmt.Errorf("the lease duration %v is below one second", t.LeaseDuration))
	}
	if t.LeaseDuration%time.Second != 0 {
		faults = append(faults, fmt.Errorf("the lease duration %v is not of whole seconds", t.LeaseDuration))
	}
	if t.LeaseDuration <= t.RenewDeadline {
		faults = append(faults, fmt.Errorf("the lease duration %v is not above the renew deadline %v", t.LeaseDuration, t.RenewDeadline))
	}
	if float64(t.RenewDeadline) <= jitterFactor*float64(t.RetryPeriod) {
		faults = append(faults, fmt.Errorf("the renew deadline %v is not above %v times the retry period %v", t.RenewDeadline, jitterFactor, t.RetryPeriod))
	}
	if t.RetryPeriod < 0 {
		faults = append(faults, fmt.Errorf("the retry period %v is negative", t.RetryPeriod))
	}
	return t, errors.Join(faults...)
}

func (c *Config) complete() error {
	var faults []error
	timing, err := c.Complete()
	if err != nil {
		faults = append(faults, err)
	}
	c.Timing = timing
	if c.CatchUpTimeout == 0 {
		c.CatchUpTimeout = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Client == nil {
		faults = append(faults, errors.New("no client is set"))
	}
	if c.Namespace == "" || c.Name == "" {
		faults = append(faults, errors.New("the lease has no namespace or no name"))
	}
	if c.Identity == "" {
		faults = append(faults, errors.New("the candidate has no identity"))
	}
	if len(c.Identity) > fence.MaxHolder || !utf8.ValidString(c.Identity) {
		faults = append(faults, fmt.Errorf("the candidate's identity is not text of at most %d bytes", fence.MaxHolder))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring an election: %w", err)
	}
	return nil
}
