package status

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/informer/workqueue"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/trace"
)

// maxReportDelay bounds how late the watch may report a write: an informer that receives nothing
// asks long before that.
const maxReportDelay = time.Minute

// WriterConfig configures a Writer.
type WriterConfig struct {
	Client     client.Interface
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Trace      *trace.Recorder
	// Service is the writer's name in hops.
	Service string
}

// Writer holds the last status of every pod and writes it to the API until the API shows the same.
// When a pod that is being deleted is finished, it deletes the pod for good. Any goroutine may use
// it.
type Writer struct {
	cfg     WriterConfig
	pods    client.Resource[*corev1.Pod]
	control *reconcile.Controller[string]
	started prometheus.Observer

	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	// seen is when the agent first observed a pod that did not run yet; zero if it already ran
	// then, or runs by now.
	seen time.Time
	// api is the newest known state of the pod in the API.
	api *corev1.Pod
	// observed is the last state that the watch reported; nil before the first. Responses to writes
	// carry later states earlier; the last one arrived at answered.
	observed *corev1.Pod
	answered time.Time
	// status is the agent's status of the pod; nil until the agent has set one.
	status *corev1.PodStatus
	// finished reports that nothing of the pod is left on the node.
	finished bool
	// deleted reports that the API has accepted the pod's final deletion.
	deleted bool
}

// NewWriter returns a Writer; it writes nothing before Run.
func NewWriter(cfg WriterConfig) *Writer {
	w := &Writer{cfg: cfg, pods: client.Of[*corev1.Pod](cfg.Client), entries: map[string]*entry{}}
	w.started = metric.Register(cfg.Registerer, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_pod_start_duration_seconds", Help: "Duration in seconds from the agent seeing a pod for the first time to the pod starting to run.",
		Buckets: []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600},
	}))
	w.control = reconcile.New(reconcile.Config[string]{
		Name: "pod-status", Workers: 4, Reconcile: w.write, Logger: cfg.Logger, Registerer: cfg.Registerer,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second),
	})
	return w
}

// Run writes statuses until ctx ends.
func (w *Writer) Run(ctx context.Context) error { return w.control.Run(ctx) }

// Set sets the pod's status.
func (w *Writer) Set(pod *corev1.Pod, status *corev1.PodStatus) {
	w.mu.Lock()
	e := w.entry(pod)
	e.status = status
	if status.Phase == corev1.PodRunning && !e.seen.IsZero() {
		w.started.Observe(time.Since(e.seen).Seconds())
		e.seen = time.Time{}
	}
	w.mu.Unlock()
	w.control.Enqueue(string(pod.UID))
}

// Finish reports that nothing of the pod is left on the node, so that the API may remove it if it
// is being deleted.
func (w *Writer) Finish(pod *corev1.Pod) {
	w.mu.Lock()
	w.entry(pod).finished = true
	w.mu.Unlock()
	w.control.Enqueue(string(pod.UID))
}

// Observe records the pod as the API has it now; a difference from the last status is written
// again.
func (w *Writer) Observe(pod *corev1.Pod) {
	w.mu.Lock()
	e := w.entry(pod)
	if e.observed != nil && revision(pod) < revision(e.observed) {
		// The watch goes back only when etcd was restored: later writes are lost.
		e.api = pod
	}
	e.observed = pod
	w.mu.Unlock()
	w.control.Enqueue(string(pod.UID))
}

// Recheck rewrites statuses whose write the watch has not reported for longer than maxReportDelay
// at now: an etcd restored to just before the write has nothing to report.
func (w *Writer) Recheck(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, e := range w.entries {
		if e.observed != nil && revision(e.api) > revision(e.observed) && now.Sub(e.answered) > maxReportDelay {
			e.api = e.observed
			w.control.Enqueue(uid)
		}
	}
}

// Get returns the last status of a pod: the agent's, else the API's.
func (w *Writer) Get(pod *corev1.Pod) *corev1.PodStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[string(pod.UID)]
	switch {
	case e == nil:
		return pod.Status.DeepCopy()
	case e.status == nil:
		return e.api.Status.DeepCopy()
	}
	status := e.status.DeepCopy()
	// Conditions of other writers are newer in the API.
	status.Conditions = merge(e.api.Status.Conditions, status.Conditions)
	return status
}

// EndReported reports whether the API knows that a pod has ended, and nothing of it is left on the
// node.
func (w *Writer) EndReported(pod *corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[string(pod.UID)]
	return e == nil || e.deleted || e.finished && terminal(e.api.Status.Phase) && e.api.DeletionTimestamp == nil
}

// Forget drops a pod that is gone from the API.
func (w *Writer) Forget(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, uid)
}

// entry returns the entry of pod, creating it if necessary, and keeps the newest state in the API.
// The caller holds w.mu.
func (w *Writer) entry(pod *corev1.Pod) *entry {
	e := w.entries[string(pod.UID)]
	if e == nil {
		e = &entry{api: pod}
		if pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "" {
			e.seen = time.Now()
		}
		w.entries[string(pod.UID)] = e
	}
	if revision(pod) > revision(e.api) {
		e.api = pod
	}
	return e
}

func revision(pod *corev1.Pod) int64 {
	r, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	if err != nil {
		return 0 // Only pods from an apiserver have a revision.
	}
	return r
}

// write writes the agent's status of one pod to the API.
func (w *Writer) write(ctx context.Context, uid string) (reconcile.Result, error) {
	w.mu.Lock()
	e := w.entries[uid]
	if e == nil || e.deleted {
		w.mu.Unlock()
		return reconcile.Result{}, nil
	}
	api, status, finished := e.api, e.status, e.finished
	w.mu.Unlock()

	if status != nil {
		written, err := w.patch(ctx, api, status)
		if apierrors.IsNotFound(err) || isOtherPod(err) {
			return reconcile.Result{}, nil // It is gone; the informer will report that.
		}
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("writing the status of pod %s/%s: %w", api.Namespace, api.Name, err)
		}
		if written != nil {
			api = written
			w.mu.Lock()
			if e := w.entries[uid]; e != nil && revision(written) > revision(e.api) {
				e.api, e.answered = written, time.Now()
			}
			w.mu.Unlock()
		}
	}
	if !finished || api.DeletionTimestamp == nil {
		return reconcile.Result{}, nil
	}
	err := w.pods.Delete(ctx, api.Namespace, api.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      &metav1.Preconditions{UID: &api.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return reconcile.Result{}, fmt.Errorf("deleting the ended pod %s/%s: %w", api.Namespace, api.Name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[uid]; e != nil {
		e.deleted = true
	}
	w.cfg.Logger.Info("pod deleted", "namespace", api.Namespace, "name", api.Name, "uid", uid)
	return reconcile.Result{}, nil
}

// patch writes the differences between status and api; it returns nil if there are none.
func (w *Writer) patch(ctx context.Context, api *corev1.Pod, status *corev1.PodStatus) (*corev1.Pod, error) {
	want := status.DeepCopy()
	want.Conditions = merge(api.Status.Conditions, want.Conditions)
	if terminal(api.Status.Phase) && !terminal(want.Phase) {
		want.Phase = api.Status.Phase
	}
	if equality.Semantic.DeepEqual(&api.Status, want) {
		return nil, nil
	}
	data, err := statusPatch(api, want)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	ctx = w.cfg.Trace.Continue(ctx, trace.Ref{Resource: "pods", Namespace: api.Namespace, Name: api.Name})
	written, err := w.pods.Patch(ctx, api.Namespace, api.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, err
	}
	w.cfg.Trace.Record(trace.Hop{
		Took: time.Since(began), Service: w.cfg.Service, Step: trace.Status, Resource: "pods",
		Namespace: api.Namespace, Name: api.Name, UID: string(api.UID), Revision: revision(written), Detail: detail(written),
	})
	return written, nil
}

// detail summarizes a pod's status.
func detail(pod *corev1.Pod) string {
	ready := 0
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Ready {
			ready++
		}
	}
	return fmt.Sprintf("%s %d/%d ready", pod.Status.Phase, ready, len(pod.Spec.Containers))
}

// merge takes the agent's own conditions from ours and the others from the API, in Kubernetes'
// order: the others first, in the order of the API.
func merge(api, ours []corev1.PodCondition) []corev1.PodCondition {
	var merged []corev1.PodCondition
	for _, c := range api {
		if !isOwned(c.Type) || !isPassing(c.Type) && !has(ours, c.Type) {
			merged = append(merged, c)
		}
	}
	for _, c := range ours {
		if isOwned(c.Type) || !has(api, c.Type) {
			merged = append(merged, c)
		}
	}
	return merged
}

func has(conditions []corev1.PodCondition, t corev1.PodConditionType) bool {
	for i := range conditions {
		if conditions[i].Type == t {
			return true
		}
	}
	return false
}
