package nodemetrics

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/libs/scheme"
)

// Config configures Metrics. All fields but Registerer are required.
type Config struct {
	// To returns the round tripper to the agent of a node.
	To func(node string) http.RoundTripper
	// Pods returns the pods of a namespace, or of all if it is empty: only the one with a name unless that is
	// empty. They are shared and not changed. A pod that does not exist is no error.
	Pods func(ctx context.Context, namespace, name string) ([]scheme.Object, error)
	// Nodes returns the nodes, as Pods the pods.
	Nodes      func(ctx context.Context, namespace, name string) ([]scheme.Object, error)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Metrics observes what nodes and pods use. Any goroutine may use it.
type Metrics struct {
	cfg   Config
	asker *asker
}

// New returns Metrics. It asks no node before somebody reads.
func New(cfg Config) *Metrics {
	return &Metrics{cfg: cfg, asker: newAsker(cfg.To, cfg.Logger, newMetrics(cfg.Registerer))}
}

// Nodes returns what the nodes use that match; only the one with a name unless that is empty. A node without
// figures is left out. That is NotFound if it was named.
func (m *Metrics) Nodes(ctx context.Context, _, name string, matches func(metav1.Object) bool) ([]scheme.Object, error) {
	all, err := m.cfg.Nodes(ctx, "", name)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(node scheme.Object) bool { return !matches(node) })
	if name != "" && len(all) == 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("node"), name)
	}
	names := make([]string, len(all))
	for i, node := range all {
		names[i] = node.GetName()
	}
	answers, found := m.asker.read(ctx, names), []scheme.Object{}
	for _, node := range all {
		if a := answers[node.GetName()]; a != nil && a.node.complete {
			found = append(found, &metricsv1beta1.NodeMetrics{
				ObjectMeta: metadata(node), Timestamp: metav1.NewTime(a.node.at), Window: metav1.Duration{Duration: a.node.window}, Usage: a.node.usage(),
			})
		}
	}
	if name != "" && len(found) == 0 {
		return nil, apierrors.NewNotFound(unmeasured("nodemetrics"), name)
	}
	return found, nil
}

// Pods returns what the running pods use that match, in a namespace or in all if it is empty; only the one with
// a name unless that is empty. A pod with a container without figures is left out, as in metrics-server, except
// a container that its node does not report at all. A named pod without figures is NotFound.
func (m *Metrics) Pods(ctx context.Context, namespace, name string, matches func(metav1.Object) bool) ([]scheme.Object, error) {
	all, err := m.cfg.Pods(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	on := map[string]bool{}
	for _, obj := range all {
		p, ok := obj.(*corev1.Pod)
		if ok && p.Status.Phase == corev1.PodRunning && p.Spec.NodeName != "" && matches(p) {
			pods = append(pods, p)
			on[p.Spec.NodeName] = true
		}
	}
	if name != "" && len(pods) == 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	answers, found := m.asker.read(ctx, slices.Sorted(maps.Keys(on))), []scheme.Object{}
	for _, p := range pods {
		if a := answers[p.Spec.NodeName]; a != nil {
			if measured := a.of(p); measured != nil {
				found = append(found, measured)
			}
		}
	}
	if name != "" && len(found) == 0 {
		return nil, apierrors.NewNotFound(unmeasured("podmetrics"), namespace+"/"+name)
	}
	return found, nil
}

// unmeasured is how metrics-server names what it has no figures of.
func unmeasured(what string) schema.GroupResource {
	return metricsv1beta1.SchemeGroupVersion.WithResource(what).GroupResource()
}

// of returns what a pod uses that is bound to the node; nil if the node did not report all of it. Only the
// containers of the pod count, whatever the node reports.
func (a *answer) of(p *corev1.Pod) *metricsv1beta1.PodMetrics {
	reported, ok := a.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
	if !ok || !isOf(p, reported.uid) {
		return nil
	}
	m := &metricsv1beta1.PodMetrics{ObjectMeta: metadata(p)}
	var first figure
	for _, name := range containers(p) {
		f, ok := reported.containers[name]
		if !ok {
			continue
		}
		if !f.complete {
			return nil
		}
		if len(m.Containers) == 0 || f.at.Before(first.at) {
			first = f
		}
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: name, Usage: f.usage()})
	}
	if len(m.Containers) == 0 {
		return nil
	}
	m.Timestamp, m.Window = metav1.NewTime(first.at), metav1.Duration{Duration: first.window}
	return m
}

// isOf reports whether a UID is that of a pod, or of the static pod that it mirrors.
func isOf(p *corev1.Pod, uid string) bool {
	return uid == "" || uid == string(p.UID) || uid == p.Annotations[corev1.MirrorPodAnnotationKey]
}

func containers(p *corev1.Pod) []string {
	var names []string
	for i := range p.Spec.InitContainers {
		names = append(names, p.Spec.InitContainers[i].Name)
	}
	for i := range p.Spec.Containers {
		names = append(names, p.Spec.Containers[i].Name)
	}
	for i := range p.Spec.EphemeralContainers {
		names = append(names, p.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// metadata returns that of the metrics of an object, whose labels it shares.
func metadata(of metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: of.GetNamespace(), Name: of.GetName(), Labels: of.GetLabels(), CreationTimestamp: metav1.NewTime(time.Now()),
	}
}

// usage returns a complete figure as quantities, in the forms of metrics-server.
func (f figure) usage() corev1.ResourceList {
	cpu := resource.NewScaledQuantity(int64(f.nanoCores), resource.Nano)
	return corev1.ResourceList{corev1.ResourceCPU: *cpu, corev1.ResourceMemory: *resource.NewQuantity(int64(f.bytes), resource.BinarySI)}
}
