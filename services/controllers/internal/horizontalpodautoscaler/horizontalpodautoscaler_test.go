package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/metricsapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// meter is what a test measures.
type meter struct {
	mu    sync.Mutex
	pods  []int64 // of web-0 and so on
	value int64   // of objects, and outside
	err   error
}

func (m *meter) set(err error, value int64, pods ...int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err, m.value, m.pods = err, value, pods
}

func (m *meter) read() (metricsapi.PodMetrics, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	metrics := metricsapi.PodMetrics{}
	for i, value := range m.pods {
		metrics[fmt.Sprintf("web-%d", i)] = metricsapi.PodMetric{Timestamp: time.Now(), Value: value}
	}
	return metrics, m.value, m.err
}

func (m *meter) Resource(context.Context, corev1.ResourceName, string, labels.Selector, string) (metricsapi.PodMetrics, error) {
	metrics, _, err := m.read()
	return metrics, err
}

func (m *meter) Pods(context.Context, string, string, labels.Selector, labels.Selector) (metricsapi.PodMetrics, error) {
	metrics, _, err := m.read()
	return metrics, err
}

func (m *meter) Object(context.Context, string, string, *autoscalingv2.CrossVersionObjectReference, labels.Selector) (int64, error) {
	_, value, err := m.read()
	return value, err
}

func (m *meter) External(context.Context, string, string, labels.Selector) ([]int64, error) {
	_, value, err := m.read()
	return []int64{value}, err
}

// cpu is a metric of the use of CPU in percent of what is requested, external one of a value for each replica.
func cpu(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

func external(value string) autoscalingv2.MetricSpec {
	q := resource.MustParse(value)
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &q},
	}}
}

func hpa(name string, least, most int32, metrics ...autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    &least, MaxReplicas: most, Metrics: metrics,
		},
	}
}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     appsv1.DeploymentStatus{Replicas: replicas},
	}
}

func loadPods(p *controltest.Plane, n int) {
	for i := range n {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}}},
		}
		controltest.SetReady(pod, true)
		pod.Status.StartTime = &metav1.Time{Time: time.Now().Add(-time.Hour)}
		p.Load(pod)
	}
}

func plane(t *testing.T, m *meter) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch autoscaling/horizontalpodautoscalers", "update autoscaling/horizontalpodautoscalers/status", "get update */scale",
		controltest.Events)
	p.Declare(declare(m))
	return p
}

func declare(m *meter) func(controller.Deps) *controller.Spec {
	return func(d controller.Deps) *controller.Spec { return New(d, nil, m, Options{}) }
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func replicas(p *controltest.Plane) int32 {
	return *controltest.Get[*appsv1.Deployment](p, "default", "web").Spec.Replicas
}

// conditions returns "type status reason: message" of each condition.
func conditions(p *controltest.Plane, name string) string {
	var list []string
	for _, c := range controltest.Get[*autoscalingv2.HorizontalPodAutoscaler](p, "default", name).Status.Conditions {
		list = append(list, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(list, "\n")
}

// TestScales checks what comes of measured values, in one reconcile.
func TestScales(t *testing.T) {
	zero, generation := int32(0), int64(1)
	behavior := func(up, down autoscalingv2.HPAScalingPolicy) *autoscalingv2.HorizontalPodAutoscalerBehavior {
		most := autoscalingv2.MaxChangePolicySelect
		return &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp:   &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &zero, SelectPolicy: &most, Policies: []autoscalingv2.HPAScalingPolicy{up}},
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &zero, SelectPolicy: &most, Policies: []autoscalingv2.HPAScalingPolicy{down}},
		}
	}
	pods := func(n int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: n, PeriodSeconds: 60}
	}
	percent := func(n int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: n, PeriodSeconds: 60}
	}
	for name, c := range map[string]struct {
		current  int32
		least    int32
		most     int32
		metrics  []autoscalingv2.MetricSpec
		behavior *autoscalingv2.HorizontalPodAutoscalerBehavior
		err      error
		value    int64
		pods     []int64
		want     int32
		has      []string // conditions
		event    string
	}{
		"up": {
			current: 3, least: 2, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(30)}, pods: []int64{300, 500, 700}, want: 5,
			has: []string{
				"AbleToScale True SucceededRescale: the HPA controller was able to update the target scale to 5",
				"ScalingActive True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
				"ScalingLimited False DesiredWithinRange: the desired count is within the acceptable range",
				"ScaledToZero False NotScaledToZero: the HPA controller did not scale the workload to zero",
			},
			event: "SuccessfulRescale New size: 5; reason: cpu resource utilization (percentage of request) above target",
		},
		"no further than allowed": {
			current: 3, least: 2, most: 4, metrics: []autoscalingv2.MetricSpec{cpu(30)}, pods: []int64{300, 500, 700}, want: 4,
			has: []string{"ScalingLimited True TooManyReplicas: the desired replica count is more than the maximum replica count"},
		},
		"no faster than twice": {
			current: 3, least: 2, most: 100, metrics: []autoscalingv2.MetricSpec{cpu(1)}, pods: []int64{300, 500, 700}, want: 6,
			has: []string{"ScalingLimited True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate"},
		},
		"absurd values go no further": {
			current: 3, least: 2, most: 5, metrics: []autoscalingv2.MetricSpec{cpu(30)}, pods: []int64{1 << 62, 1 << 62, 1 << 62}, want: 5,
		},
		"no lower than allowed": {
			current: 5, least: 4, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(50)}, behavior: behavior(pods(1), percent(100)),
			pods: []int64{100, 300, 500, 250, 250}, want: 4,
			has:   []string{"ScalingLimited True TooFewReplicas: the desired replica count is less than the minimum replica count"},
			event: "SuccessfulRescale New size: 4; reason: All metrics below target",
		},
		"down only later": {
			current: 5, least: 2, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(50)}, pods: []int64{100, 300, 500, 250, 250}, want: 5,
			has: []string{"AbleToScale True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation"},
		},
		"down by a policy": {
			current: 5, least: 1, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(50)}, behavior: behavior(pods(1), pods(1)),
			pods: []int64{100, 300, 500, 250, 250}, want: 4,
			has: []string{"ScalingLimited True ScaleDownLimit: the desired replica count is decreasing faster than the maximum scale rate"},
		},
		"up by a policy": {
			current: 3, least: 1, most: 600, metrics: []autoscalingv2.MetricSpec{cpu(1)}, behavior: behavior(percent(10), pods(1)),
			pods: []int64{300, 500, 700}, want: 4,
			has: []string{"ScalingLimited True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate"},
		},
		"too many to begin with": {
			current: 9, least: 2, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(30)}, err: errors.New("gone"), want: 6,
			event: "SuccessfulRescale New size: 6; reason: Current number of replicas above Spec.MaxReplicas",
		},
		"too few to begin with": {
			current: 1, least: 2, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(30)}, err: errors.New("gone"), want: 2,
			event: "SuccessfulRescale New size: 2; reason: Current number of replicas below Spec.MinReplicas",
		},
		"nothing to begin with": {
			current: 0, least: 2, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(30)}, want: 0,
			has: []string{"ScalingActive False ScalingDisabled: scaling is disabled since the replica count of the target is zero"},
		},
		"nothing is measured": {
			current: 3, least: 2, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(30)}, err: errors.New("gone"), want: 3,
			has: []string{"ScalingActive False FailedGetResourceMetric: the HPA was unable to compute the replica count: " +
				"failed to get cpu utilization: unable to get metrics for resource cpu: gone"},
			event: "FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: " +
				"failed to get cpu utilization: unable to get metrics for resource cpu: gone",
		},
		"the larger of two": {
			current: 3, least: 2, most: 6, metrics: []autoscalingv2.MetricSpec{cpu(30), external("1")}, value: 2000, pods: []int64{300, 300, 300}, want: 6,
			event: "SuccessfulRescale New size: 6; reason: external metric queue(nil) above target",
		},
		"to zero": {
			current: 3, least: 0, most: 6, metrics: []autoscalingv2.MetricSpec{external("1")}, behavior: behavior(pods(1), percent(100)), want: 0,
			has: []string{"ScaledToZero True ScaledToZero: the HPA controller scaled the workload to zero"},
		},
		"an unknown metric": {
			current: 3, least: 1, most: 6, metrics: []autoscalingv2.MetricSpec{{Type: "Odd"}}, want: 3,
			has: []string{`ScalingActive False InvalidMetricSourceType: the HPA was unable to compute the replica count: unknown metric source type "Odd"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &meter{}
				m.set(c.err, c.value, c.pods...)
				p := plane(t, m)
				p.Load(deployment(c.current))
				loadPods(p, int(c.current))
				p.Start()
				settle(time.Second)
				object := hpa("one", c.least, c.most, c.metrics...)
				object.Spec.Behavior = c.behavior
				p.Load(object)
				settle(time.Second)
				if got := replicas(p); got != c.want {
					t.Errorf("got %d replicas, want %d", got, c.want)
				}
				status := controltest.Get[*autoscalingv2.HorizontalPodAutoscaler](p, "default", "one").Status
				if status.CurrentReplicas != c.current || status.ObservedGeneration == nil || *status.ObservedGeneration != generation {
					t.Errorf("got the status %+v", status)
				}
				if scaled := c.want != c.current; scaled != (status.LastScaleTime != nil) || scaled && status.DesiredReplicas != c.want {
					t.Errorf("got the last time %v and %d desired replicas", status.LastScaleTime, status.DesiredReplicas)
				}
				got := conditions(p, "one")
				for _, want := range c.has {
					if !slices.Contains(strings.Split(got, "\n"), want) {
						t.Errorf("no condition %s in\n%s", want, got)
					}
				}
				if reason, message, _ := strings.Cut(c.event, " "); c.event != "" && !slices.Contains(p.Events(reason), message) {
					t.Errorf("got the Events %q, want %s", p.Events(reason), message)
				}
			})
		})
	}
}

// TestReturnsFromZero checks that a target that the controller scaled to zero is scaled up again.
func TestReturnsFromZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		p := plane(t, m)
		p.Load(deployment(2))
		loadPods(p, 2)
		p.Load(hpa("one", 0, 6, external("1")))
		p.Start()
		settle(6 * time.Minute)
		if got := replicas(p); got != 0 {
			t.Fatalf("got %d replicas without anything to do", got)
		}
		m.set(nil, 2500)
		settle(16 * time.Second)
		if got := replicas(p); got != 3 {
			t.Errorf("got %d replicas, want 3", got)
		}
	})
}

// TestScalesDownWhenItIsTime checks that the highest recommendation counts for as long as it is recent, and
// that a status is written only when it changes.
func TestScalesDownWhenItIsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		m.set(nil, 0, 100, 100, 100, 100)
		p := plane(t, m)
		p.Load(deployment(4))
		loadPods(p, 4)
		p.Load(hpa("one", 1, 6, cpu(50)))
		p.Start()
		settle(time.Minute)
		p.ClearCalls()
		settle(3 * time.Minute)
		if writes := p.Writes(); len(writes) > 0 || replicas(p) != 4 {
			t.Errorf("got %d replicas and the writes %v", replicas(p), writes)
		}
		settle(90 * time.Second)
		if got := replicas(p); got != 1 {
			t.Errorf("got %d replicas, want 1", got)
		}
	})
}

// TestAmbiguousSelectors checks that of several autoscalers of the same pods none acts.
func TestAmbiguousSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		m.set(nil, 0, 500, 500, 500)
		p := plane(t, m)
		p.Load(deployment(3))
		loadPods(p, 3)
		p.Start()
		settle(time.Second)
		p.Load(hpa("a", 1, 6, cpu(50)))
		settle(time.Second)
		p.Load(hpa("b", 1, 6, cpu(50)))
		settle(20 * time.Second)
		const want = "ScalingActive False AmbiguousSelector: pods by selector app=web are controlled by more than one HPA (e.g. [{a default} {b default}])"
		for _, name := range []string{"a", "b"} {
			if got := conditions(p, name); !strings.Contains(got, want) {
				t.Errorf("%s: got the conditions\n%s", name, got)
			}
		}
		p.Remove(hpa("a", 1, 6))
		settle(20 * time.Second)
		if got := conditions(p, "b"); !strings.Contains(got, "ScalingActive True") {
			t.Errorf("got the conditions\n%s", got)
		}
	})
}

// TestTargets checks what is said of targets that cannot be scaled, and that those of other kinds can.
func TestTargets(t *testing.T) {
	for name, c := range map[string]struct {
		ref  autoscalingv2.CrossVersionObjectReference
		want string
	}{
		"no such object": {autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "gone"}, `deployments.apps "gone" not found`},
		"no such kind":   {autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Ship", Name: "web"}, `no matches for kind "Ship" in group "apps"`},
		"no version":     {autoscalingv2.CrossVersionObjectReference{APIVersion: "a/b/c", Kind: "Deployment", Name: "web"}, `unexpected GroupVersion string: a/b/c`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t, &meter{})
				object := hpa("one", 1, 6, cpu(50))
				object.Spec.ScaleTargetRef = c.ref
				p.Load(object)
				p.Start()
				settle(time.Second)
				if got := p.Events("FailedGetScale"); len(got) != 1 || got[0] != c.want {
					t.Errorf("got the Events %q", got)
				}
				want := "AbleToScale False FailedGetScale: the HPA controller was unable to get the target's current scale: " + c.want
				if got := conditions(p, "one"); got != want {
					t.Errorf("got the conditions %s", got)
				}
			})
		})
	}
}

// TestCustomResources checks that an object of a custom kind is scaled.
func TestCustomResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		m.set(nil, 2000)
		p := plane(t, m)
		definition := controltest.Definition("Fleet", "v1")
		fleet := controltest.Custom("Fleet", metav1.ObjectMeta{Namespace: "default", Name: "web"}).(*unstructured.Unstructured)
		fleet.Object["spec"] = map[string]any{"replicas": int64(2)}
		fleet.Object["status"] = map[string]any{"replicas": int64(2), "selector": "app=web"}
		controltest.LoadCustom(p, definition, fleet)
		loadPods(p, 2)
		object := hpa("one", 1, 6, external("1"))
		object.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Fleet", Name: "web"}
		p.Load(object)
		kinds, err := customkinds.Kinds(definition)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Table().Install(kinds...); err != nil {
			t.Fatal(err)
		}
		p.Start()
		settle(time.Second)
		kind := p.Table().Kind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fleet"})
		got, err := client.OfKind[*unstructured.Unstructured](p.Client, kind).Get(p.Context(), "default", "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas"); n != 4 {
			t.Errorf("got %d replicas, want 4; conditions:\n%s", n, conditions(p, "one"))
		}
	})
}

// TestConflicts checks that a scale that others write at the same time is written in the end, and that one that
// cannot be written is reported.
func TestConflicts(t *testing.T) {
	for conflicts, want := range map[int]int32{3: 5, 1000: 3} {
		synctest.Test(t, func(t *testing.T) {
			m := &meter{}
			m.set(nil, 0, 500, 500, 500)
			p := plane(t, m)
			p.Load(deployment(3))
			loadPods(p, 3)
			left := conflicts
			p.Fail(func(call client.Call) error {
				if call.Subresource == "scale" && call.Verb == "update" && left > 0 {
					left--
					return apierrors.NewConflict(call.Kind.GroupResource(), call.Name, errors.New("changed"))
				}
				return nil
			})
			p.Load(hpa("one", 1, 6, cpu(30)))
			p.Start()
			settle(5 * time.Second)
			if got := replicas(p); got != want {
				t.Errorf("got %d replicas, want %d", got, want)
			}
			failed := strings.Contains(conditions(p, "one"), "AbleToScale False FailedUpdateScale: the HPA controller was unable to update the target scale:")
			if failed != (want == 3) || failed != (len(p.Events("FailedRescale")) > 0) {
				t.Errorf("got the conditions\n%s", conditions(p, "one"))
			}
		})
	}
}

// TestAStaleCache checks that a target is scaled once for one recommendation, however late the cache is.
func TestAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		m.set(nil, 0, 500, 500, 500)
		p := controltest.NewLate(t, "HorizontalPodAutoscaler", 2*time.Second)
		p.Declare(declare(m))
		p.Load(deployment(3))
		loadPods(p, 3)
		p.Load(hpa("one", 1, 6, cpu(30)))
		p.Start()
		settle(10 * time.Second)
		controltest.Change(p, "default", "one", func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 5 })
		settle(20 * time.Second)
		scaled := 0
		for _, call := range p.Writes() {
			if call.Subresource == "scale" {
				scaled++
			}
		}
		if scaled != 1 || replicas(p) != 5 {
			t.Errorf("got %d replicas after %d writes", replicas(p), scaled)
		}
	})
}

// TestASecondTerm checks that a term takes up where another ended, and acts on a spec at once.
func TestASecondTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		m.set(nil, 0, 500, 500, 500)
		p := controltest.New(t)
		runner := p.Runner(declare(m))
		p.Load(deployment(3))
		loadPods(p, 3)
		p.Load(hpa("one", 1, 4, cpu(30)))
		p.Start()
		synctest.Wait()
		for _, want := range []int32{4, 5} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx) }()
			settle(time.Second)
			if want == 5 {
				controltest.Change(p, "default", "one", func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 5 })
				settle(time.Second)
			}
			if got := replicas(p); got != want {
				t.Errorf("got %d replicas, want %d", got, want)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
