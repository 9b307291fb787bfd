package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fence"
)

// Run is a candidate until ctx ends, and calls lead each time it becomes the leader. The context of
// lead ends when the lease is lost or ctx ends; Run waits for lead to return, and is a candidate
// again. If lead returns while it still holds the lease, Run releases the lease and returns lead's
// error.
//
// The context of lead carries the fence of the term. Package client's writes with it are refused as
// soon as another candidate holds the lease, even if this process does not know that yet.
func Run(ctx context.Context, cfg Config, lead func(ctx context.Context) error) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	c := &candidate{
		cfg:    cfg,
		logger: cfg.Logger.With("lease", cfg.Namespace+"/"+cfg.Name, "identity", cfg.Identity),
		leases: client.Of[*coordinationv1.Lease](cfg.Client), metrics: newMetrics(cfg.Registerer, cfg.Name),
	}
	for {
		if !c.acquire(ctx) {
			return nil
		}
		c.logger.Info("became the leader")
		over, err := c.lead(ctx, lead)
		if over {
			return err
		}
		c.logger.Warn("lost the leadership")
	}
}

// candidate is used by one goroutine at a time.
type candidate struct {
	cfg    Config
	logger *slog.Logger
	leases client.Resource[*coordinationv1.Lease]
	metrics

	// observed is the lease as last seen, and observedAt when its record last changed, by this
	// process's clock: the times in the record may come from wrong clocks.
	observed   *coordinationv1.Lease
	observedAt time.Time
	leader     string
}

// acquire retries until this candidate has the lease; it returns false if ctx ends first.
func (c *candidate) acquire(ctx context.Context) bool {
	for {
		got, err := c.try(ctx)
		switch {
		case got:
			return true
		case err != nil && ctx.Err() == nil:
			c.logger.Debug("could not take the lease", "err", err)
		}
		if !backoff.Sleep(ctx, wait.Jitter(c.cfg.RetryPeriod, jitterFactor)) {
			return false
		}
	}
}

// lead calls lead while the lease is renewed. over reports whether the election is over.
func (c *candidate) lead(ctx context.Context, lead func(context.Context) error) (over bool, err error) {
	leading, cancel := context.WithCancel(ctx)
	defer cancel()
	c.status.Set(1)
	defer c.status.Set(0)
	done := make(chan error, 1)
	revision, term := c.revision(), fence.Of(c.observed)
	refused := make(chan struct{}, 1)
	go func() {
		c.catchUp(leading, revision)
		done <- call(fence.With(leading, term, func() {
			select {
			case refused <- struct{}{}:
			default:
			}
		}), lead)
	}()

	lost := make(chan struct{})
	go func() {
		defer close(lost)
		c.renew(leading, term, refused)
	}()
	select {
	case err = <-done:
		over = true
		cancel()
		<-lost
	case <-lost:
		cancel()
		err = <-done
		over = ctx.Err() != nil
	}
	if !over {
		if err != nil {
			c.logger.Error("leading ended with an error", "err", err)
		}
		return false, nil
	}
	c.release(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return true, err
}

// catchUp waits until the caches show what the previous leader wrote.
func (c *candidate) catchUp(ctx context.Context, revision int64) {
	if c.cfg.CatchUp == nil || revision == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.CatchUpTimeout)
	defer cancel()
	start := time.Now()
	err := call(bounded, func(ctx context.Context) error { return c.cfg.CatchUp(ctx, revision) })
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.logger.Warn("leading although the caches may not show all writes of the previous leader", "revision", revision, "err", err)
	default:
		c.logger.Debug("the caches show all writes of the previous leader", "revision", revision, "took", time.Since(start))
	}
}

// revision returns the revision of the lease as last seen; 0 if that is not a number.
func (c *candidate) revision() int64 {
	revision, err := strconv.ParseInt(c.observed.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// call turns a panic of lead into an error, so that the lease is released before the process ends.
func call(ctx context.Context, lead func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("leading: panic: %v", r)
		}
	}()
	return lead(ctx)
}

// renew renews the lease each retry period, and whenever a write was refused. It returns when ctx
// ends, or when it could not renew the lease for the renew deadline. It also returns when the
// renewed lease is in another term. Then the lease was deleted and created again, or released and
// taken again, and writes in this term are refused.
func (c *candidate) renew(ctx context.Context, term fence.Fence, refused <-chan struct{}) {
	for {
		deadline, cancel := context.WithTimeout(ctx, c.cfg.RenewDeadline)
		renewed := c.renewUntil(deadline)
		cancel()
		if !renewed || fence.Of(c.observed) != term || !sleepUnless(ctx, c.cfg.RetryPeriod, refused) {
			return
		}
	}
}

func (c *candidate) renewUntil(ctx context.Context) bool {
	for {
		got, err := c.try(ctx)
		if got || err == nil {
			return got // No error and no lease: another candidate holds it.
		}
		if ctx.Err() == nil {
			c.logger.Warn("could not renew the lease", "err", err)
		}
		if !backoff.Sleep(ctx, c.cfg.RetryPeriod) {
			return false
		}
	}
}

// try makes one attempt to take or renew the lease. An error means that the state is unknown; false
// without an error means that another candidate holds the lease.
func (c *candidate) try(ctx context.Context) (bool, error) {
	now := time.Now()
	// A holder within its term writes without reading first: a conflict reveals other writers.
	if c.holds(now) {
		updated, err := c.leases.Update(ctx, c.record(c.observed, now), metav1.UpdateOptions{})
		if err == nil {
			c.observe(updated, now)
			return true, nil
		}
		c.slowpath.Inc()
		c.logger.Debug("could not renew the lease as last seen; reading it", "err", err)
	}
	current, err := c.leases.Get(ctx, c.cfg.Namespace, c.cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		created, err := c.leases.Create(ctx, c.record(nil, now), metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("creating the lease: %w", err)
		}
		c.observe(created, now)
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the lease: %w", err)
	}
	// Read the clock after the response: a record seen late must not look older than it is.
	now = time.Now()
	c.observe(current, now)
	if holder := holderOf(current); holder != "" && holder != c.cfg.Identity && now.Before(c.observedAt.Add(c.term(current))) {
		return false, nil
	}
	updated, err := c.leases.Update(ctx, c.record(current, now), metav1.UpdateOptions{})
	if err != nil {
		return false, fmt.Errorf("updating the lease: %w", err)
	}
	c.observe(updated, now)
	return true, nil
}

// holds reports whether this candidate holds the lease as last seen, and it has not expired.
func (c *candidate) holds(now time.Time) bool {
	return c.observed != nil && holderOf(c.observed) == c.cfg.Identity && now.Before(c.observedAt.Add(c.term(c.observed)))
}

// term returns how long a renewal of a lease is valid.
func (c *candidate) term(lease *coordinationv1.Lease) time.Duration {
	if s := lease.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	return c.cfg.LeaseDuration
}

// record returns the lease with this candidate as the holder, keeping the object's other fields.
func (c *candidate) record(current *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	stamp := metav1.NewMicroTime(now)
	seconds := int32(c.cfg.LeaseDuration / time.Second)
	transitions := int32(0)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.cfg.Namespace, Name: c.cfg.Name}}
	acquired := &stamp
	if current != nil {
		lease = current.DeepCopy()
		if t := current.Spec.LeaseTransitions; t != nil {
			transitions = *t
		}
		if holderOf(current) == c.cfg.Identity {
			acquired = current.Spec.AcquireTime
		} else {
			transitions++
		}
	}
	lease.Spec.HolderIdentity = &c.cfg.Identity
	lease.Spec.LeaseDurationSeconds = &seconds
	lease.Spec.AcquireTime = acquired
	lease.Spec.RenewTime = &stamp
	lease.Spec.LeaseTransitions = &transitions
	return lease
}

// observe records the lease as read or written at now.
func (c *candidate) observe(lease *coordinationv1.Lease, now time.Time) {
	if c.observed == nil || c.observed.UID != lease.UID || !equality.Semantic.DeepEqual(c.observed.Spec, lease.Spec) {
		c.observedAt = now
	}
	c.observed = lease
	if leader := holderOf(lease); leader != c.leader {
		c.leader = leader
		if leader != "" && leader != c.cfg.Identity {
			c.logger.Info("observed a new leader", "leader", leader)
		}
	}
}

// releaseTimeout bounds the release of a lease when the process shuts down.
const releaseTimeout = 5 * time.Second

// release gives up the lease if this candidate still holds it, so that the next leader need not
// wait. If that fails, the lease expires by itself.
func (c *candidate) release(ctx context.Context) {
	if !c.holds(time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	lease := c.observed.DeepCopy()
	seconds, now := int32(1), metav1.NowMicro()
	lease.Spec.HolderIdentity = nil
	lease.Spec.LeaseDurationSeconds = &seconds
	lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
	if _, err := c.leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		c.logger.Warn("could not release the lease; it will expire", "err", err)
		return
	}
	c.observed = nil
	c.logger.Info("gave up the leadership")
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// sleepUnless is backoff.Sleep that returns early when comes receives a value.
func sleepUnless(ctx context.Context, d time.Duration, comes <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-comes:
		return ctx.Err() == nil
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
