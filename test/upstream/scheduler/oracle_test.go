// Package upstream asks Kubernetes' own code where the pods of cases can run.
package upstream

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/garboard/garboard/services/scheduler/internal/conformance"
)

// Oracle answers cases as Kubernetes does, with its default profile and feature gates.
type Oracle struct {
	profile config.KubeSchedulerProfile
	weights map[string]int64
}

// NewOracle returns an oracle.
func NewOracle() (*Oracle, error) {
	cfg, err := latest.Default()
	if err != nil {
		return nil, err
	}
	o := &Oracle{profile: cfg.Profiles[0], weights: map[string]int64{}}
	points := o.profile.Plugins.MultiPoint
	points.Enabled = slices.DeleteFunc(slices.Clone(points.Enabled), func(p config.Plugin) bool { return leftOut(p.Name) })
	o.profile.Plugins.MultiPoint = points
	for _, plugin := range points.Enabled {
		o.weights[plugin.Name] = max(1, int64(plugin.Weight))
	}
	return o, nil
}

// judged is a case at Kubernetes.
type judged struct {
	c        *conformance.Case
	oracle   *Oracle
	fwk      framework.Framework
	snapshot *cache.Snapshot
	state    fwk.CycleState
	answer   conformance.Answer
}

// Answer answers a case. It must be called in a bubble, in which wait returns when all goroutines are
// idle; all that it starts ends with ctx.
func (o *Oracle) Answer(ctx context.Context, c *conformance.Case, wait func()) (conformance.Answer, error) {
	ctx, cancel := context.WithCancel(logr.NewContext(ctx, logr.Discard()))
	defer wait()
	defer cancel()
	j := &judged{c: c, oracle: o, snapshot: cache.NewSnapshot(c.Pods, c.Nodes), state: framework.NewCycleState()}
	j.answer.Nodes = map[string]conformance.Verdict{}
	stop, err := j.start(ctx, wait)
	if err != nil {
		return conformance.Answer{}, err
	}
	defer stop()
	defer cancel()
	fit, diagnosis, err := j.filter(ctx)
	switch {
	case err != nil:
		return conformance.Answer{}, err
	case len(fit) == 0:
		return j.answer, j.fail(ctx, diagnosis)
	case len(fit) > 1:
		return j.answer, j.score(ctx, fit)
	}
	return j.answer, nil
}

// start builds the framework. It returns a function that waits until its informers have stopped.
func (j *judged) start(ctx context.Context, wait func()) (stop func(), err error) {
	client := fake.NewSimpleClientset(objects(j.c)...) //nolint:staticcheck // Its successor takes seconds to start.
	factory := informers.NewSharedInformerFactory(client, 0)
	dra, err := newDRAManager(ctx, client, factory)
	if err != nil {
		return nil, err
	}
	j.fwk, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &j.oracle.profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithSharedDRAManager(dra),
		frameworkruntime.WithSnapshotSharedLister(j.snapshot), frameworkruntime.WithMutableSnapshotLister(j.snapshot),
		frameworkruntime.WithPodNominator(nobody{}), frameworkruntime.WithParallelism(1))
	if err != nil {
		return nil, fmt.Errorf("building the framework: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	wait() // until handlers have what the informers have
	return factory.Shutdown, nil
}

// newDRAManager returns the manager of claims for devices, as kube-scheduler builds it.
func newDRAManager(ctx context.Context, client *fake.Clientset, factory informers.SharedInformerFactory) (*dynamicresources.DefaultDRAManager, error) {
	options := resourceslicetracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		KubeClient:               client,
	}
	if options.EnableDeviceTaintRules {
		options.TaintInformer = factory.Resource().V1().DeviceTaintRules()
	}
	slices, err := resourceslicetracker.StartTracker(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("starting the tracker of resource slices: %w", err)
	}
	claims := assumecache.NewAssumeCache(logr.FromContextOrDiscard(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	return dynamicresources.NewDRAManager(ctx, claims, slices, factory), nil
}

// filter asks the filters about each node, and returns the nodes that can run the pod.
func (j *judged) filter(ctx context.Context) ([]fwk.NodeInfo, framework.Diagnosis, error) {
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	nodes, err := j.snapshot.NodeInfos().List()
	if err != nil {
		return nil, diagnosis, err
	}
	// The scheduler's cache lists nodes in the order of zones; only the order of ties depends on it.
	slices.SortFunc(nodes, func(a, b fwk.NodeInfo) int { return compareNames(a.Node(), b.Node()) })
	only, status, named := j.fwk.RunPreFilterPlugins(ctx, j.state, j.c.Pod)
	diagnosis.UnschedulablePlugins = named
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, diagnosis, status.AsError()
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		for _, node := range nodes {
			j.answer.Nodes[node.Node().Name] = refusal("", status)
		}
		return nil, diagnosis, nil
	}
	var fit []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		if !only.AllNodes() && !only.NodeNames.Has(name) {
			by := slices.Sorted(maps.Keys(named))
			absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", by))
			diagnosis.NodeToStatus.SetAbsentNodesStatus(absent)
			j.answer.Nodes[name] = refusal(by[0], absent)
			continue
		}
		status := j.fwk.RunFilterPlugins(ctx, j.state, j.c.Pod, node)
		switch {
		case status.IsSuccess():
			fit = append(fit, node)
			j.answer.Nodes[name] = conformance.Verdict{}
		case status.IsRejected():
			diagnosis.NodeToStatus.Set(name, status)
			j.answer.Nodes[name] = refusal(status.Plugin(), status)
		default:
			return nil, diagnosis, status.AsError()
		}
	}
	return fit, diagnosis, nil
}

func compareNames(a, b *corev1.Node) int {
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// refusal returns the verdict on a node that a plugin refuses.
func refusal(plugin string, status *fwk.Status) conformance.Verdict {
	reasons := slices.Clone(status.Reasons())
	slices.Sort(reasons)
	return conformance.Verdict{Filter: plugin, Reasons: reasons, Final: status.Code() == fwk.UnschedulableAndUnresolvable}
}

// fail adds the message of the failure.
func (j *judged) fail(ctx context.Context, diagnosis framework.Diagnosis) error {
	if len(j.c.Nodes) == 0 {
		j.answer.Message = "no nodes available to schedule pods"
		return nil
	}
	failure := &framework.FitError{Pod: j.c.Pod, NumAllNodes: len(j.c.Nodes), Diagnosis: diagnosis}
	if diagnosis.PreFilterMsg != "" || !j.c.Comparable() {
		j.answer.Message = failure.Error()
		return nil
	}
	_, status := j.fwk.RunPostFilterPlugins(ctx, j.state, j.c.Pod, diagnosis.NodeToStatus)
	if status.Code() == fwk.Error {
		return status.AsError()
	}
	failure.Diagnosis.PostFilterMsg = status.Message()
	j.answer.Message = failure.Error()
	return nil
}

// score adds the scores of the nodes that can run the pod.
func (j *judged) score(ctx context.Context, fit []fwk.NodeInfo) error {
	if status := j.fwk.RunPreScorePlugins(ctx, j.state, j.c.Pod, fit); !status.IsSuccess() {
		return status.AsError()
	}
	nodes, status := j.fwk.RunScorePlugins(ctx, j.state, j.c.Pod, fit)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for _, node := range nodes {
		verdict := conformance.Verdict{Total: node.TotalScore}
		for _, score := range node.Scores {
			if !isScored(score.Name) && score.Score != 0 {
				return fmt.Errorf("%s scores a node, but is not compared", score.Name)
			}
			verdict.Score(score.Name, score.Score/j.oracle.weights[score.Name])
		}
		j.answer.Nodes[node.Name] = verdict
	}
	return nil
}

// objects returns the objects of a case that Kubernetes' plugins look up.
func objects(c *conformance.Case) []runtime.Object {
	var all []runtime.Object
	all = appendObjects(all, c.Nodes)
	all = appendObjects(all, append([]*corev1.Pod{c.Pod}, c.Pods...))
	all = appendObjects(all, c.Namespaces)
	all = appendObjects(all, c.Services)
	all = appendObjects(all, c.ReplicationControllers)
	all = appendObjects(all, c.ReplicaSets)
	all = appendObjects(all, c.StatefulSets)
	all = appendObjects(all, c.Claims)
	all = appendObjects(all, c.Volumes)
	all = appendObjects(all, c.Classes)
	all = appendObjects(all, c.Drivers)
	return appendObjects(all, c.Capacities)
}

func appendObjects[T runtime.Object](all []runtime.Object, some []T) []runtime.Object {
	for _, obj := range some {
		all = append(all, obj.DeepCopyObject())
	}
	return all
}

// nobody nominates no pods: nothing is preempted.
type nobody struct{}

func (nobody) AddNominatedPod(logr.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (nobody) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (nobody) UpdateNominatedPod(logr.Logger, *corev1.Pod, fwk.PodInfo)      {}
func (nobody) NominatedPodsForNode(string) []fwk.PodInfo                     { return nil }
func (nobody) NominatedPods() map[string][]types.UID                         { return nil }
