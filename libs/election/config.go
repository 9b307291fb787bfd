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

// jitterFactor lengthens each pause between attempts by a random part of at most this multiple of
// it (client-go, leaderelection.JitterFactor).
const jitterFactor = 1.2

// Config configures a candidate for a lease.
type Config struct {
	// Client reads and writes the lease.
	Client client.Interface
	// Namespace and Name are those of the lease.
	Namespace, Name string
	// Identity identifies the candidate; it must be unique among all candidates.
	Identity string
	Timing
	// CatchUp, if set, begins each term. It receives the revision of the write that took the lease,
	// which is later than every write of the previous leader. It returns when the caches that the
	// leader will read have reached that revision, as Factory.WaitForRevision of package informer
	// does. It does not work if the lease is in another etcd than the cached objects.
	CatchUp func(ctx context.Context, revision int64) error
	// CatchUpTimeout bounds CatchUp. After it the term continues with a warning, since having no
	// leader would be worse than one with slightly stale caches. 0 means 10 s.
	CatchUpTimeout time.Duration
	// Logger logs each change of leadership; nil means slog.Default.
	Logger *slog.Logger
	// Registerer receives the metrics, which several elections may share; nil means none.
	Registerer prometheus.Registerer
}

// Defaults of Timing, which are those of Kubernetes.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// Timing sets how fast a lease changes its holder. After a holder has given the lease up, that
// takes at most one pause between attempts; after a holder has died, at most LeaseDuration and two
// pauses. A pause is RetryPeriod plus a random part of at most 1.2 times as much, so that
// candidates do not try at the same time.
type Timing struct {
	// LeaseDuration is how long candidates wait after the last renewal that they saw; 0 means
	// DefaultLeaseDuration. The lease holds it in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader tries to renew before it gives up; 0 means
	// DefaultRenewDeadline.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between attempts; 0 means DefaultRetryPeriod.
	RetryPeriod time.Duration
}

// Complete returns t with defaults for unset fields; the error names everything that is wrong.
func (t Timing) Complete() (Timing, error) {
	t.LeaseDuration = cmp.Or(t.LeaseDuration, DefaultLeaseDuration)
	t.RenewDeadline = cmp.Or(t.RenewDeadline, DefaultRenewDeadline)
	t.RetryPeriod = cmp.Or(t.RetryPeriod, DefaultRetryPeriod)
	var faults []error
	if t.LeaseDuration < time.Second {
		faults = append(faults, fmt.Errorf("the lease duration %v is below one second", t.LeaseDuration))
	}
	if t.LeaseDuration%time.Second != 0 {
		faults = append(faults, fmt.Errorf("the lease duration %v is not in whole seconds", t.LeaseDuration))
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
