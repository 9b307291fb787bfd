package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/informer"
)

const (
	// resyncPeriod is the interval at which the kernel's state is compared with the plan, in which changes by
	// others are repaired.
	resyncPeriod = 30 * time.Second
	// settle is how long further changes of Nodes are awaited before they are acted on together.
	settle = 100 * time.Millisecond
	// After a failure the next attempt is made in retryFirst, then in twice that, at most retryLongest.
	retryFirst   = time.Second
	retryLongest = 30 * time.Second
)

// DefaultBridge is the usual name of the bridge that a node's pods are connected to.
const DefaultBridge = "gb-pods"

// DefaultConfDir is the folder in which container runtimes look for CNI configurations.
const DefaultConfDir = "/etc/cni/net.d"

// Config configures a Network.
type Config struct {
	NodeName string
	// Address is the node's address.
	Address netip.Addr
	// Nodes provides the informer of Nodes.
	Nodes *informer.Factory
	Mode  Mode
	// ConfDir is the folder for the CNI configuration; required. DataDir is where the plugin host-local
	// records the addresses that are taken; its default if empty.
	ConfDir, DataDir string
	// Bridge is the name of the bridge; DefaultBridge if empty.
	Bridge string
	// Changed is called when the network has got a problem, or has none any more; may be nil.
	Changed func()
	// Event records an Event about the node.
	Event      func(eventType, reason, message string)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// kernel is what a Network changes on the machine.
type kernel interface {
	// prepare returns what pods will miss since the kernel lacks it.
	prepare(ctx context.Context) error
	// host returns the state of the machine. The bridge's network is left out.
	host(address netip.Addr, bridge string) (Host, error)
	// apply brings the kernel to a plan's state, and reports whether it changed anything. After an
	// *unreachedError the node's own pods have their network.
	apply(ctx context.Context, plan *Plan, host Host, bridge string) (changed bool, err error)
	// remove removes everything that apply has ever made, but for the bridge, to which pods may be connected.
	remove(ctx context.Context, bridge string) error
}

// unreachedError says why some of the other nodes could not be connected to.
type unreachedError struct{ err error }

func (e *unreachedError) Error() string { return e.err.Error() }

func (e *unreachedError) Unwrap() error { return e.err }

// Network is the pod network of a node.
type Network struct {
	cfg     Config
	kernel  kernel
	nodes   informer.SharedInformer[*corev1.Node]
	wake    chan struct{}
	metrics *metrics

	mu sync.Mutex
	// plan is the plan that was last put into effect, nil before; problem is why it was not the latest one.
	// since is when it got the problem, or lost it.
	plan    *Plan
	problem error
	since   time.Time
	// told are the refusals that were reported. Only Run uses it.
	told map[Refusal]bool
}

// New returns a Network. It starts nothing.
func New(cfg Config) *Network {
	if cfg.Bridge == "" {
		cfg.Bridge = DefaultBridge
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	return &Network{
		cfg: cfg, kernel: newKernel(), nodes: informer.For[*corev1.Node](cfg.Nodes), wake: make(chan struct{}, 1),
		metrics: newMetrics(cfg.Registerer), problem: errors.New("the Nodes are not known yet"), since: time.Now(),
	}
}

// Remove removes what a Network has left on the machine. The bridge stays: pods may be connected to it.
func Remove(ctx context.Context, confDir, bridge string) error {
	if bridge == "" {
		bridge = DefaultBridge
	}
	return errors.Join(removeConfiguration(confDir), newKernel().remove(ctx, bridge))
}

// Addresses returns the addresses of all interfaces of the machine, each with the length of its network.
func Addresses() ([]netip.Prefix, error) {
	found, err := addressesByIndex()
	var all []netip.Prefix
	for _, index := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[index]...)
	}
	return all, err
}

// Ready returns the reason why pods have no network; nil if they have.
func (n *Network) Ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.problem
}

// CIDRs returns the ranges of the node's pods; none until they are known.
func (n *Network) CIDRs() []netip.Prefix {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.plan == nil {
		return nil
	}
	return slices.Clone(n.plan.CIDRs)
}

// Run keeps the network in the state that the Nodes ask for until ctx ends. It then leaves it as it is, since
// pods go on.
func (n *Network) Run(ctx context.Context) error {
	if err := n.kernel.prepare(ctx); err != nil && ctx.Err() == nil {
		n.cfg.Logger.Warn("the pod network is not complete", "err", err)
		n.cfg.Event(corev1.EventTypeWarning, "PodNetworkIncomplete", err.Error())
	}
	poke := func() {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
	registration, err := n.nodes.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Node]{
		AddFunc: func(*corev1.Node, bool) { poke() },
		UpdateFunc: func(before, after *corev1.Node) {
			if !sameNetwork(before, after) {
				poke()
			}
		},
		DeleteFunc: func(informer.DeletedObject[*corev1.Node]) { poke() },
	})
	if err != nil {
		return fmt.Errorf("following the Nodes: %w", err)
	}
	select {
	case <-registration.HasSyncedChecker().Done():
	case <-ctx.Done():
		return nil
	}
	delays := backoff.Doubling(retryFirst, retryLongest, 0)
	for {
		wait := resyncPeriod
		if err := n.sync(ctx); err == nil {
			delays = backoff.Doubling(retryFirst, retryLongest, 0)
		} else if ctx.Err() == nil {
			wait = delays.Step()
			n.cfg.Logger.Error("the pod network is not in the state that it should be in", "err", err, "again", wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.wake:
			if !backoff.Sleep(ctx, settle) {
				return nil
			}
			select { // What came meanwhile is part of it.
			case <-n.wake:
			default:
			}
		case <-time.After(wait):
		}
	}
}

// sameNetwork reports whether two states of a Node mean the same to the network.
func sameNetwork(a, b *corev1.Node) bool {
	return a.UID == b.UID && slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) && slices.Equal(a.Status.Addresses, b.Status.Addresses)
}

// sync puts the plan for the present Nodes into effect.
func (n *Network) sync(ctx context.Context) error {
	start := time.Now()
	plan, changed, err := n.try(ctx)
	n.metrics.synced(plan, time.Since(start), err)
	n.mu.Lock()
	before := n.problem
	// Nodes that cannot be connected to do not keep pods from starting on this one.
	if unreached := (*unreachedError)(nil); err == nil || errors.As(err, &unreached) {
		n.plan, n.problem = plan, nil
	} else {
		n.problem = err
	}
	turned := (before == nil) != (n.problem == nil)
	if turned {
		n.since = time.Now()
	}
	n.mu.Unlock()
	if turned {
		n.cfg.Changed()
	}
	if err == nil && changed {
		n.cfg.Logger.Info("the pod network was brought up to date", "cidrs", plan.CIDRs, "nodes", len(plan.Peers), "tunnels", plan.Tunnels())
	}
	return err
}

func (n *Network) try(ctx context.Context) (plan *Plan, changed bool, err error) {
	nodes, err := n.nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, false, fmt.Errorf("listing the Nodes: %w", err)
	}
	host, err := n.kernel.host(n.cfg.Address, n.cfg.Bridge)
	if err != nil {
		return nil, false, err
	}
	decided := Decide(n.cfg.NodeName, nodes, host, n.cfg.Mode)
	plan = &decided
	n.tell(plan.Refused)
	if len(plan.CIDRs) == 0 {
		return plan, false, fmt.Errorf("the node %s has no usable pod CIDR: the controllers give it one if they run with --allocate-node-cidrs and --cluster-cidr",
			n.cfg.NodeName)
	}
	unreached := (*unreachedError)(nil)
	if changed, err = n.kernel.apply(ctx, plan, host, n.cfg.Bridge); err != nil && !errors.As(err, &unreached) {
		return plan, changed, err
	}
	content, fault := configuration(plan, n.cfg.Bridge, n.cfg.DataDir)
	if fault != nil {
		return plan, changed, fault
	}
	if err := writeConfiguration(n.cfg.ConfDir, content); err != nil {
		return plan, changed, err
	}
	if other := shadowing(n.cfg.ConfDir); other != "" {
		return plan, changed, fmt.Errorf("the container runtime uses %s, which comes before %s in %s; remove it, or switch the pod network of the node agent off (--pod-network=false)",
			other, confName, n.cfg.ConfDir)
	}
	return plan, changed, err
}

// tell reports those refusals that were not reported before.
func (n *Network) tell(refused []Refusal) {
	told := map[Refusal]bool{}
	for _, one := range refused {
		told[one] = true
		if n.told[one] {
			continue
		}
		n.cfg.Logger.Warn("a pod CIDR is not used", "node", one.Node, "cidr", printable(one.CIDR), "reason", one.Reason)
		if one.Node == n.cfg.NodeName {
			n.cfg.Event(corev1.EventTypeWarning, "PodCIDRRefused", fmt.Sprintf("pod CIDR %s is not used: %s", printable(one.CIDR), one.Reason))
		}
	}
	n.told = told
}

// printable bounds what others wrote.
func printable(text string) string {
	const most = 64
	return strings.ToValidUTF8(text[:min(len(text), most)], "?")
}
