package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/healthcheck"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

// healthTimeout is how long a change may wait before /healthz and /livez fail, as with kube-proxy's
// defaults.
const healthTimeout = time.Minute

// slicesOfService is the index of EndpointSlices by the Service that they belong to.
const slicesOfService = "proxy/service"

// Proxy keeps the node's packet rules in step with Services and EndpointSlices.
type Proxy struct {
	cfg           Config
	metrics       *metrics
	services      informer.SharedInformer[*corev1.Service]
	slices        informer.SharedInformer[*discoveryv1.EndpointSlice]
	registrations []informer.Registration
	pending       *pending
	health        *healthcheck.Health
	nodeChanged   chan struct{}
	started       time.Time

	// ready is closed after the first sync that wrote all rules.
	ready     chan struct{}
	readyOnce sync.Once

	// What follows belongs to the goroutine that runs the loop.
	node    *rules.Node
	local   map[types.NamespacedName]netip.AddrPort
	kernel  Netfilter
	tables  []*table
	server  *healthcheck.Server
	open    bool
	ports   map[types.NamespacedName]healthcheck.Service
	flows   *flows
	refused map[types.NamespacedName]report
	// everything asks for all Services to be compiled, skeleton for the chains that they share.
	everything, skeleton bool
	// portsDue asks for the health-check node ports to be opened and closed.
	portsDue         bool
	lastSync         time.Time
	verifyAt, fullAt time.Time
}

// New creates a Proxy. It adds handlers and an index to the factory's informers.
func New(cfg Config) (*Proxy, error) {
	if cfg.Factory == nil || cfg.NodeName == "" {
		return nil, errors.New("the proxy needs a factory and the node's name")
	}
	cfg.setDefaults()
	p := &Proxy{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), health: healthcheck.NewHealth(healthTimeout),
		services: informer.For[*corev1.Service](cfg.Factory), slices: informer.For[*discoveryv1.EndpointSlice](cfg.Factory),
		nodeChanged: make(chan struct{}, 1), ready: make(chan struct{}), started: time.Now(),
		local: make(map[types.NamespacedName]netip.AddrPort), ports: make(map[types.NamespacedName]healthcheck.Service),
		refused: make(map[types.NamespacedName]report),
	}
	p.pending = newPending(p.metrics, p.queued)
	err := p.slices.AddIndexers(informer.Indexers[*discoveryv1.EndpointSlice]{
		slicesOfService: func(slice *discoveryv1.EndpointSlice) ([]string, error) {
			return []string{ownerOf(slice).String()}, nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("indexing endpoint slices: %w", err)
	}
	if err := p.addHandlers(); err != nil {
		return nil, err
	}
	return p, nil
}

// ownerOf returns the Service that a slice belongs to. It has no name if the slice belongs to none.
func ownerOf(slice *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

func (p *Proxy) addHandlers() error {
	service := func(namespace, name string) {
		p.pending.mark(types.NamespacedName{Namespace: namespace, Name: name}, ofService, nil)
	}
	ofServices, err := p.services.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Service]{
		AddFunc:    func(s *corev1.Service, _ bool) { service(s.Namespace, s.Name) },
		UpdateFunc: func(_, s *corev1.Service) { service(s.Namespace, s.Name) },
		DeleteFunc: func(d informer.DeletedObject[*corev1.Service]) { service(d.GetObjectName()) },
	})
	if err != nil {
		return fmt.Errorf("following services: %w", err)
	}
	slice := func(s *discoveryv1.EndpointSlice, counts bool) {
		if owner := ownerOf(s); owner.Name != "" {
			p.pending.mark(owner, ofSlices, p.trigger(s, counts))
		}
	}
	ofSlices, err := p.slices.AddEventHandler(informer.ResourceEventHandlerFuncs[*discoveryv1.EndpointSlice]{
		AddFunc: func(s *discoveryv1.EndpointSlice, initial bool) { slice(s, !initial) },
		UpdateFunc: func(before, s *discoveryv1.EndpointSlice) {
			if ownerOf(before) != ownerOf(s) {
				slice(before, false)
			}
			slice(s, before.Annotations[corev1.EndpointsLastChangeTriggerTime] != s.Annotations[corev1.EndpointsLastChangeTriggerTime])
		},
		DeleteFunc: func(d informer.DeletedObject[*discoveryv1.EndpointSlice]) {
			if d.FinalStateUnknown || d.OptionalObj == nil {
				// It may have belonged to any Service.
				p.pending.markAll()
				return
			}
			slice(d.OptionalObj, false)
		},
	})
	if err != nil {
		return fmt.Errorf("following endpoint slices: %w", err)
	}
	p.registrations = []informer.Registration{ofServices, ofSlices}
	return nil
}

// trigger returns the time of the change of a pod that led to a slice's change; nil if it is unknown,
// or before the proxy's start.
func (p *Proxy) trigger(s *discoveryv1.EndpointSlice, counts bool) *time.Time {
	text, ok := s.Annotations[corev1.EndpointsLastChangeTriggerTime]
	if !ok || !counts {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Before(p.started) {
		return nil
	}
	return &at
}

// queued records that changes wait to be written.
func (p *Proxy) queued() {
	for _, family := range p.cfg.families() {
		p.health.Queued(family)
		p.metrics.lastQueued.WithLabelValues(family.String()).Set(seconds(time.Now()))
	}
}

// NodeChanged tells the proxy that what Config's functions return has changed. Without it the proxy
// finds out after VerifyPeriod.
func (p *Proxy) NodeChanged() {
	select {
	case p.nodeChanged <- struct{}{}:
	default:
	}
}

// Ready returns when the rules of all Services were written for the first time. It returns the
// context's error if that ends before.
func (p *Proxy) Ready(ctx context.Context) error {
	select {
	case <-p.ready: // also if ctx has ended
		return nil
	default:
	}
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the rules of services: %w", context.Cause(ctx))
	}
}

// Run keeps the rules in step until ctx ends, and then leaves them as they are. It returns an error
// only if the kernel cannot be reached at all. A Proxy runs once.
func (p *Proxy) Run(ctx context.Context) (err error) {
	if p.kernel, err = p.cfg.Netfilter(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.kernel.Close()) }()
	tracking, err := p.cfg.Flows()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tracking.Close()) }()
	p.server = healthcheck.New(healthcheck.Config{
		Address: p.cfg.HealthAddress, Health: p.health, Eligible: p.cfg.Eligible, Failed: p.healthPortFailed,
		Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	})
	defer p.server.Close()
	p.flows = newFlows(tracking, p.metrics)
	for _, family := range p.cfg.families() {
		p.tables = append(p.tables, newTable(family, p.cfg.Table, p.kernel, p.cfg.Logger, p.metrics))
		p.health.Updated(family)
	}
	p.openHealth()
	checkers := []informer.DoneChecker{p.registrations[0].HasSyncedChecker(), p.registrations[1].HasSyncedChecker()}
	if err := informer.WaitFor(ctx, "services and endpoint slices", checkers...); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	p.everything = true
	return p.loop(ctx)
}

// loop does what is due, until ctx ends.
func (p *Proxy) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.pending.wake:
			if !pause(ctx, p.cfg.MinSyncPeriod-time.Since(p.lastSync)) {
				return nil
			}
		case <-p.nodeChanged:
			p.verifyAt = time.Time{}
		case <-timer.C:
		}
		p.step()
		timer.Reset(time.Until(p.nextDue()))
	}
}

// pause waits. It reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// step does everything that is due.
func (p *Proxy) step() {
	now := time.Now()
	if !now.Before(p.verifyAt) {
		p.verifyAt = now.Add(p.cfg.VerifyPeriod)
		p.verify()
	}
	if !now.Before(p.fullAt) {
		p.fullAt = now.Add(p.cfg.SyncPeriod)
		p.distrust()
	}
	p.sync()
	if p.portsDue {
		p.portsDue = false
		p.server.Sync(p.ports, p.nodePortAddresses())
	}
	for _, t := range p.tables {
		t.deleteUnused()
	}
	p.flows.end(p)
}

// nextDue returns the time of the next step if nothing changes before.
func (p *Proxy) nextDue() time.Time {
	due := p.verifyAt
	earlier := func(at time.Time) {
		if at.Before(due) {
			due = at
		}
	}
	earlier(p.fullAt)
	for _, t := range p.tables {
		if at, ok := t.nextDeletion(); ok {
			earlier(at)
		}
		if t.broken {
			earlier(t.lastRepair.Add(repairPeriod))
		}
	}
	if at, ok := p.flows.due(); ok {
		earlier(at)
	}
	return due
}

// verify looks for what has changed without notice: the node, and the kernel's rules.
func (p *Proxy) verify() {
	skeleton, services := p.refreshNode()
	p.skeleton = p.skeleton || skeleton
	p.everything = p.everything || services
	p.refreshLocal()
	p.openHealth()
	// Addresses may have changed, and a port that was in use may be free.
	p.portsDue = true
	unseen, err := p.kernel.Unseen()
	if err != nil {
		p.cfg.Logger.Error("changes of the rules by others go unnoticed", "err", err)
	}
	if unseen || err != nil {
		p.distrust()
	}
}

// distrust makes the next sync compare all rules with the kernel's.
func (p *Proxy) distrust() {
	if err := p.kernel.MarkSeen(); err != nil {
		p.cfg.Logger.Debug("changes of the rules by others are found again", "err", err)
	}
	for _, t := range p.tables {
		t.broken, t.lastRepair = true, time.Time{}
	}
}

func (p *Proxy) openHealth() {
	if p.open {
		return
	}
	if err := p.server.Open(); err != nil {
		p.cfg.Logger.Error("the proxy's health is not served", "err", err)
		return
	}
	p.open = true
}

func (p *Proxy) healthPortFailed(name types.NamespacedName, err error) {
	p.cfg.Logger.Error("a health-check node port is not served", "err", err, "namespace", name.Namespace, "name", name.Name)
	if service, getErr := p.services.Lister().Namespace(name.Namespace).Get(name.Name); getErr == nil {
		p.cfg.Events(service, corev1.EventTypeWarning, "FailedToStartServiceHealthcheck",
			fmt.Sprintf("node %s cannot open the health-check node port: %v", p.cfg.NodeName, err))
	}
}

// nodePortAddresses returns the addresses that accept node ports in any family; none when all do.
func (p *Proxy) nodePortAddresses() []netip.Addr {
	var found []netip.Addr
	for _, t := range p.tables {
		addrs, all := p.node.NodePortIPs(t.family)
		if all {
			return nil
		}
		found = append(found, addrs...)
	}
	return found
}
