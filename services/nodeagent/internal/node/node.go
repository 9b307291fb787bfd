package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	goruntime "runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/localvolume"
)

const (
	// KubeletVersion is the Kubernetes version whose node behaviour the agent reports.
	KubeletVersion = "v1.37.2"
	// LabelSimulated marks nodes whose runtime starts nothing.
	LabelSimulated = "garboard.io/simulated"
	// CheckPeriod is the interval between status checks; ReportPeriod the interval after which an
	// unchanged status is written again (the kubelet's nodeStatusUpdateFrequency and
	// nodeStatusReportFrequency).
	CheckPeriod  = 10 * time.Second
	ReportPeriod = 5 * time.Minute
	// Registering is retried after retryPeriod, and then less and less often, up to retryLongest.
	retryPeriod  = 500 * time.Millisecond
	retryLongest = 7 * time.Second
)

// Config configures a Node.
type Config struct {
	Name   string
	Client client.Interface
	Events *events.Recorder
	// IP is the node's address.
	IP string
	// Port is where the agent serves the kubelet's API, for clients that connect to nodes; 0 for nowhere.
	Port int32
	// Labels are set on the Node in addition to Kubernetes' own.
	Labels  map[string]string
	MaxPods int
	// LocalVolumes is the folder of the node's local volumes, which the Node publishes; none when empty.
	LocalVolumes string
	// VolumesInUse returns the volumes that the status lists, and nil means none; may be nil. When it fails,
	// the list stays as it is.
	VolumesInUse func() ([]corev1.UniqueVolumeName, error)
	// DataDir is on the file system whose space the node reports.
	DataDir string
	// Runtime and RuntimeVersion identify the container runtime: "containerd", "1.6.20".
	Runtime, RuntimeVersion string
	// Simulated reports that the runtime starts nothing.
	Simulated bool
	// LeaseDuration is how long a renewed Lease of the node holds, in whole seconds; DefaultLeaseDuration when 0.
	LeaseDuration time.Duration
	// Conditions returns further conditions that the status has, and the types of those that it no longer has, given
	// the present ones; may be nil. Others' conditions stay.
	Conditions func(present []corev1.NodeCondition) (wanted []corev1.NodeCondition, gone []corev1.NodeConditionType)
	// Ready returns the reason why the node cannot run pods; nil when it can.
	Ready  func(ctx context.Context) error
	Logger *slog.Logger
}

// Node maintains one Node of the API.
type Node struct {
	cfg   Config
	nodes client.Resource[*corev1.Node]

	// reporting is held while the status is read and written, so that a later list of volumes is never
	// replaced by an earlier one.
	reporting sync.Mutex

	mu sync.Mutex
	// wanted is the Node as the agent wants it, with what it has learned from the API.
	wanted   *corev1.Node
	reported time.Time
	// poke triggers an immediate status check.
	poke chan struct{}
	// labels are those that the agent sets.
	labels map[string]string
}

// New returns a Node. It reads the machine's state but makes no calls.
func New(cfg Config) (*Node, error) {
	cfg.LeaseDuration = cmp.Or(cfg.LeaseDuration, DefaultLeaseDuration)
	all, allocatable, err := capacity(cfg.DataDir, cfg.MaxPods)
	if err != nil {
		return nil, fmt.Errorf("describing the node: %w", err)
	}
	labels := map[string]string{
		corev1.LabelHostname:    cfg.Name,
		corev1.LabelOSStable:    goruntime.GOOS,
		corev1.LabelArchStable:  goruntime.GOARCH,
		"beta.kubernetes.io/os": goruntime.GOOS, "beta.kubernetes.io/arch": goruntime.GOARCH,
	}
	if cfg.Simulated {
		labels[LabelSimulated] = "true"
	}
	maps.Copy(labels, cfg.Labels)
	annotations := map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	if cfg.LocalVolumes != "" {
		annotations[localvolume.NodeAnnotation] = cfg.LocalVolumes
	}
	n := &Node{cfg: cfg, nodes: client.Of[*corev1.Node](cfg.Client), poke: make(chan struct{}, 1), labels: labels}
	n.wanted = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: cfg.Name, Labels: labels, Annotations: annotations,
		},
		Status: corev1.NodeStatus{
			Capacity: all, Allocatable: allocatable,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: cfg.IP},
				{Type: corev1.NodeHostName, Address: cfg.Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: cfg.Port}},
			NodeInfo:        systemInfo(cfg.Runtime + "://" + cfg.RuntimeVersion),
		},
	}
	return n, nil
}

// Object returns the Node as the agent sees it, with the API's labels once it is registered. The
// object is shared: do not modify it.
func (n *Node) Object() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wanted
}

// Fetch returns Object after it has read the Node's labels and spec again.
func (n *Node) Fetch(ctx context.Context) (*corev1.Node, error) {
	node, err := n.nodes.Get(ctx, "", n.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the node: %w", err)
	}
	n.learn(node)
	return n.Object(), nil
}

// Poke triggers an immediate status check, since the node's readiness may have changed.
func (n *Node) Poke() {
	select {
	case n.poke <- struct{}{}:
	default:
	}
}

// Run registers the node, then reports its status and renews its Lease until ctx ends. It retries
// while the apiserver is unavailable.
func (n *Node) Run(ctx context.Context) error {
	if !n.register(ctx) {
		return nil
	}
	n.cfg.Events.Event(n.Object(), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { n.renew(ctx) })
	for {
		wait := CheckPeriod
		if err := n.Report(ctx); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Error("updating the node's status failed", "node", n.cfg.Name, "err", err)
			wait = 2 * time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.poke:
		case <-time.After(wait):
		}
	}
}

// register creates or relabels the Node and retries until it succeeds; false when ctx ended first.
func (n *Node) register(ctx context.Context) bool {
	delays := backoff.Doubling(retryPeriod, retryLongest, 0)
	for {
		err := n.tryRegister(ctx)
		if err == nil {
			return true
		}
		wait := delays.Step()
		if ctx.Err() == nil {
			n.cfg.Logger.Warn("registering the node failed", "node", n.cfg.Name, "err", err, "again", wait)
		}
		if !backoff.Sleep(ctx, wait) {
			return false
		}
	}
}

func (n *Node) tryRegister(ctx context.Context) error {
	fresh := n.Object().DeepCopy()
	// Of a Node that was deleted, neither the ranges that controllers gave it nor others' labels are the agent's to set.
	fresh.UID, fresh.Spec, fresh.Labels = "", corev1.NodeSpec{}, maps.Clone(n.labels)
	fresh.Status.VolumesInUse = n.volumesInUse(nil)
	_, wanted := n.judge(ctx, nil)
	fresh.Status.Conditions, _ = mergeConditions(nil, wanted, metav1.Now().Rfc3339Copy())
	node, err := n.nodes.Create(ctx, fresh, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if node, err = n.nodes.Get(ctx, "", n.cfg.Name, metav1.GetOptions{}); err == nil {
			node, err = n.relabel(ctx, node)
		}
	} else if err == nil {
		n.cfg.Logger.Info("node registered", "node", n.cfg.Name)
	}
	if err != nil {
		return err
	}
	n.learn(node)
	return nil
}

// relabel sets the agent's labels on an existing Node, and publishes the folder of local volumes.
func (n *Node) relabel(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	labels := map[string]string{}
	for key, value := range n.Object().Labels {
		if node.Labels[key] != value {
			labels[key] = value
		}
	}
	metadata := map[string]any{}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	switch published, has := node.Annotations[localvolume.NodeAnnotation]; {
	case n.cfg.LocalVolumes == "" && has:
		metadata["annotations"] = map[string]any{localvolume.NodeAnnotation: nil}
	case published != n.cfg.LocalVolumes:
		metadata["annotations"] = map[string]any{localvolume.NodeAnnotation: n.cfg.LocalVolumes}
	}
	if len(metadata) == 0 {
		return node, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("encoding the node's labels: %w", err)
	}
	return n.nodes.Patch(ctx, "", n.cfg.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "")
}

// learn adopts the UID, labels and spec of the Node as the API has it.
func (n *Node) learn(node *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wanted := *n.wanted
	wanted.UID, wanted.Labels, wanted.Spec = node.UID, node.Labels, node.Spec
	n.wanted = &wanted
}

// uid returns the Node's UID; empty before registration.
func (n *Node) uid() types.UID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wanted.UID
}

// volumesInUse returns the volumes that the status is to list, given what it lists.
func (n *Node) volumesInUse(listed []corev1.UniqueVolumeName) []corev1.UniqueVolumeName {
	if n.cfg.VolumesInUse == nil {
		return listed
	}
	volumes, err := n.cfg.VolumesInUse()
	if err != nil {
		n.cfg.Logger.Error("the volumes in use are not known; the node's status lists the last known ones", "node", n.cfg.Name, "err", err)
		return listed
	}
	return volumes
}

// Report writes the node's status if it changed or ReportPeriod has passed.
func (n *Node) Report(ctx context.Context) error {
	n.reporting.Lock()
	defer n.reporting.Unlock()
	node, err := n.nodes.Get(ctx, "", n.cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// The Node was deleted while the machine is alive.
		if err := n.tryRegister(ctx); err != nil {
			return err
		}
		node, err = n.nodes.Get(ctx, "", n.cfg.Name, metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	want := node.DeepCopy()
	wanted := n.Object()
	want.Status.Capacity, want.Status.Allocatable = wanted.Status.Capacity.DeepCopy(), wanted.Status.Allocatable.DeepCopy()
	want.Status.Addresses, want.Status.NodeInfo = wanted.Status.Addresses, wanted.Status.NodeInfo
	want.Status.DaemonEndpoints = wanted.Status.DaemonEndpoints
	want.Status.VolumesInUse = n.volumesInUse(node.Status.VolumesInUse)
	now := metav1.Now().Rfc3339Copy()
	var changed []corev1.NodeCondition
	kept, judged := n.judge(ctx, node.Status.Conditions)
	want.Status.Conditions, changed = mergeConditions(kept, judged, now)
	n.mu.Lock()
	due := time.Since(n.reported) >= ReportPeriod
	n.mu.Unlock()
	if due || !sameButHeartbeats(&node.Status, &want.Status) {
		if node, err = n.patchStatus(ctx, node, want); err != nil {
			return err
		}
		n.mu.Lock()
		n.reported = time.Now()
		n.mu.Unlock()
		for _, c := range changed {
			reason, message := event(n.cfg.Name, c)
			n.cfg.Events.Event(node, corev1.EventTypeNormal, reason, "%s", message)
		}
	}
	n.learn(node)
	return nil
}

func sameButHeartbeats(a, b *corev1.NodeStatus) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	for _, s := range []*corev1.NodeStatus{x, y} {
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(x, y)
}

func (n *Node) patchStatus(ctx context.Context, old, want *corev1.Node) (*corev1.Node, error) {
	from, err := json.Marshal(corev1.Node{Status: old.Status})
	if err != nil {
		return nil, fmt.Errorf("encoding the node's old status: %w", err)
	}
	to, err := json.Marshal(corev1.Node{Status: want.Status})
	if err != nil {
		return nil, fmt.Errorf("encoding the node's status: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(from, to, corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("comparing the node's status: %w", err)
	}
	return n.nodes.Patch(ctx, "", n.cfg.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}
