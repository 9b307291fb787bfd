package replicacalculator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/controllers/internal/metricsapi"
)

// metered returns metrics that a test sets.
type metered struct {
	pods   metricsapi.PodMetrics
	values []int64
	err    error
}

func (m metered) Resource(context.Context, corev1.ResourceName, string, labels.Selector, string) (metricsapi.PodMetrics, error) {
	return m.pods, m.err
}

func (m metered) Pods(context.Context, string, string, labels.Selector, labels.Selector) (metricsapi.PodMetrics, error) {
	return m.pods, m.err
}

func (m metered) Object(context.Context, string, string, *autoscalingv2.CrossVersionObjectReference, labels.Selector) (int64, error) {
	if m.err != nil {
		return 0, m.err
	}
	return m.values[0], nil
}

func (m metered) External(context.Context, string, string, labels.Selector) ([]int64, error) {
	return m.values, m.err
}

// readings returns metrics of the pods web-0 and so on.
func readings(levels ...int64) metricsapi.PodMetrics {
	metrics := metricsapi.PodMetrics{}
	for i, level := range levels {
		metrics[fmt.Sprintf("web-%d", i)] = metricsapi.PodMetric{Value: level, Window: time.Minute}
	}
	return metrics
}

// pods returns pods by one letter each: r is ready, u is not, h has just started, H too but is not ready, c
// started a while ago, C too but is not ready, p is pending, f has failed, and d is being deleted. Each of two
// containers requests one of requests, of which the last counts for the rest.
func pods(states string, requests ...string) []*corev1.Pod {
	var list []*corev1.Pod
	for i, state := range states {
		start, ready, phase := time.Time{}, corev1.ConditionTrue, corev1.PodRunning
		if strings.ContainsRune("uHCpfd", state) {
			ready = corev1.ConditionFalse
		}
		switch state {
		case 'h', 'H':
			start = time.Now()
		case 'c', 'C':
			start = time.Now().Add(-3 * time.Minute)
		case 'p':
			phase = corev1.PodPending
		case 'f':
			phase = corev1.PodFailed
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", i)},
			Status: corev1.PodStatus{
				Phase: phase, StartTime: &metav1.Time{Time: start}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
		}
		if state == 'd' {
			pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		if len(requests) > 0 {
			request := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(requests[min(i, len(requests)-1)])}
			pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[1].Resources.Requests = request, request
		}
		list = append(list, pod)
	}
	return list
}

func calculator(m metered) *Calculator {
	return &Calculator{Metrics: m, CPUInitialization: 2 * time.Minute, ReadinessDelay: 10 * time.Second}
}

func workload(list []*corev1.Pod, replicas int32, t *Tolerance) Workload {
	w := Workload{
		Namespace: "default", Selector: labels.Everything(), Pods: func() []*corev1.Pod { return list },
		Replicas: replicas, StatusReplicas: replicas, Tolerance: Tolerance{0.1, 0.1},
	}
	if t != nil {
		w.Tolerance = *t
	}
	return w
}

func check(t *testing.T, got Proposal, err error, want Proposal, fault string) {
	t.Helper()
	switch {
	case fault == "" && err != nil:
		t.Error(err)
	case fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
		t.Errorf("got the error %v, want %s", err, fault)
	case fault == "" && got != want:
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// mixed are the requests of three pods.
var mixed = []string{"0.9", "1.0", "1.1"}

// TestUtilization has the cases of Kubernetes' tests of the same computation.
func TestUtilization(t *testing.T) {
	both := func(levels ...int64) []int64 { // of two containers
		for i := range levels {
			levels[i] *= 2
		}
		return levels
	}
	for name, c := range map[string]struct {
		pods      string
		replicas  int32 // as many as there are pods when 0
		requests  []string
		levels    []int64
		container string
		target    int32
		tolerance *Tolerance
		want      Proposal
		fault     string
	}{
		"up":                              {pods: "rrr", levels: both(300, 500, 700), target: 30, want: Proposal{5, 1000, 50}},
		"up by a container":               {pods: "rrr", levels: []int64{300, 500, 700}, container: "b", target: 30, want: Proposal{5, 500, 50}},
		"up less for an unready pod":      {pods: "urr", levels: both(300, 500, 700), target: 30, want: Proposal{4, 1200, 60}},
		"up less for a new pod":           {pods: "hcc", levels: both(300, 500, 700), target: 30, want: Proposal{4, 1200, 60}},
		"up less for a new container":     {pods: "hcc", levels: []int64{300, 500, 700}, container: "b", target: 30, want: Proposal{4, 600, 60}},
		"unready pods hold it":            {pods: "ruu", levels: both(400, 500, 700), target: 30, want: Proposal{3, 800, 40}},
		"new unready pods hold it":        {pods: "cHH", levels: both(400, 500, 700), target: 30, want: Proposal{3, 800, 40}},
		"up without failed pods":          {pods: "rrff", replicas: 2, levels: both(500, 700), target: 30, want: Proposal{4, 1200, 60}},
		"up without deleted pods":         {pods: "rrdd", replicas: 2, levels: both(500, 700), target: 30, want: Proposal{4, 1200, 60}},
		"up by a container, some deleted": {pods: "rrdd", replicas: 2, levels: []int64{500, 700}, container: "a", target: 30, want: Proposal{4, 600, 60}},
		"down":                            {pods: "rrrrr", levels: both(100, 300, 500, 250, 250), target: 50, want: Proposal{3, 560, 28}},
		"down by a container":             {pods: "rrrrr", levels: []int64{100, 300, 500, 250, 250}, container: "b", target: 50, want: Proposal{3, 280, 28}},
		"down without unready pods":       {pods: "rrruu", levels: both(100, 300, 500, 250, 250), target: 50, want: Proposal{2, 600, 30}},
		"down by a container, some unready": {
			pods: "rrruu", levels: []int64{100, 300, 500, 250, 250}, container: "b", target: 50, want: Proposal{2, 300, 30},
		},
		"down without pending pods": {pods: "rpppp", levels: both(100), target: 50, want: Proposal{1, 200, 10}},
		"down without metrics of pending pods": {
			pods: "rpppp", levels: []int64{100, 300, 500, 250, 250}, container: "b", target: 50, want: Proposal{1, 100, 10},
		},
		"down without new pods": {pods: "ccchh", levels: both(100, 300, 500, 250, 250), target: 50, want: Proposal{2, 600, 30}},
		"down without new containers": {
			pods: "ccchh", levels: []int64{100, 300, 500, 1000, 1000}, container: "b", target: 50, want: Proposal{2, 300, 30},
		},
		"down without failed pods":  {pods: "rrrrrff", replicas: 5, levels: both(100, 300, 500, 250, 250), target: 50, want: Proposal{3, 560, 28}},
		"down without deleted pods": {pods: "rrrrrdd", replicas: 5, levels: both(100, 300, 500, 250, 250), target: 50, want: Proposal{3, 560, 28}},

		"within the tolerance":   {pods: "rrr", requests: mixed, levels: both(1010, 1030, 1020), target: 100, want: Proposal{3, 2040, 102}},
		"without tolerance":      {pods: "rrr", requests: mixed, levels: both(909, 1010, 1111), target: 100, tolerance: &Tolerance{}, want: Proposal{4, 2020, 101}},
		"a large tolerance up":   {pods: "rrr", requests: mixed, levels: both(1890, 1910, 1900), target: 100, tolerance: &Tolerance{0.1, 2}, want: Proposal{3, 3800, 190}},
		"a small tolerance up":   {pods: "rrr", requests: mixed, levels: both(1100, 1080, 1090), target: 100, tolerance: &Tolerance{2, 0.08}, want: Proposal{4, 2180, 109}},
		"a large tolerance down": {pods: "rrr", requests: mixed, levels: both(660, 640, 650), target: 100, tolerance: &Tolerance{0.36, 0.1}, want: Proposal{3, 1300, 65}},
		"a small tolerance down": {pods: "rrr", requests: mixed, levels: both(660, 640, 650), target: 100, tolerance: &Tolerance{0.34, 0.1}, want: Proposal{2, 1300, 65}},

		"strange pods count nothing":       {pods: "rrrr", levels: both(4000, 9500, 3000, 7000, 3200, 2000), target: 100, want: Proposal{24, 11750, 587}},
		"missing metrics, down":            {pods: "rrrr", levels: both(400, 95), target: 100, want: Proposal{3, 495, 24}},
		"missing metrics, on target":       {pods: "rr", levels: both(1000), target: 100, want: Proposal{2, 2000, 100}},
		"missing metrics, above target":    {pods: "rr", levels: both(1900), target: 100, want: Proposal{2, 3800, 190}},
		"missing metrics, below target":    {pods: "rr", levels: both(600), target: 100, want: Proposal{2, 1200, 60}},
		"one unready, one missing":         {pods: "urr", levels: both(100, 450), target: 50, want: Proposal{3, 900, 45}},
		"one new, one missing":             {pods: "hcc", levels: both(100, 450), target: 50, want: Proposal{3, 900, 45}},
		"one unready, one missing, up":     {pods: "urr", levels: both(100, 2000), target: 50, want: Proposal{4, 4000, 200}},
		"one new, one missing, up":         {pods: "Hcc", levels: both(100, 2000), target: 50, want: Proposal{4, 4000, 200}},
		"one unready, one missing, down":   {pods: "urrr", levels: both(100, 100, 100), target: 50, want: Proposal{3, 200, 10}},
		"a target above what is requested": {pods: "urrr", requests: []string{"1", "1", "2", "2"}, levels: both(200, 100, 100), target: 300, want: Proposal{2, 200, 6}},
		"a rollout with one pod more":      {pods: "rrr", replicas: 2, levels: both(100, 100), target: 50, want: Proposal{2, 200, 10}},

		"no pods":         {levels: both(100), target: 50, fault: "no pods returned by selector while calculating replica count"},
		"only strange":    {pods: "r", levels: nil, target: 100, fault: "did not receive metrics for targeted pods (pods might be unready)"},
		"only unready":    {pods: "uu", levels: both(1, 1), target: 100, fault: "did not receive metrics for targeted pods (pods might be unready)"},
		"no requests":     {pods: "r", requests: []string{}, levels: both(200), target: 100, fault: "missing request for cpu in container a of Pod web-0"},
		"no container":    {pods: "r", levels: both(200), container: "z", target: 100, fault: "container z not found in Pod web-0"},
		"too much to add": {pods: "rr", levels: []int64{math.MaxInt64, math.MaxInt64}, target: 1, want: Proposal{math.MaxInt32, math.MaxInt64 / 2, math.MaxInt32}},
		"negative":        {pods: "rr", levels: []int64{math.MinInt64, math.MinInt64}, target: 1, want: Proposal{0, math.MinInt64 / 2, math.MinInt32}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.requests == nil {
				c.requests = []string{"1"}
			}
			if c.replicas == 0 {
				c.replicas = int32(len(c.pods))
			}
			w := workload(pods(c.pods, c.requests...), c.replicas, c.tolerance)
			got, err := calculator(metered{pods: readings(c.levels...)}).Utilization(t.Context(), w, corev1.ResourceCPU, c.container, c.target)
			check(t, got, err, c.want, c.fault)
		})
	}
}

// TestStrangePods checks that metrics of no pod of the workload are no metrics.
func TestStrangePods(t *testing.T) {
	metrics := metered{pods: metricsapi.PodMetrics{"an-older-pod": {Value: 100}}}
	got, err := calculator(metrics).Utilization(t.Context(), workload(pods("r", "1"), 1, nil), corev1.ResourceCPU, "", 100)
	check(t, got, err, Proposal{}, "no metrics returned matched known pods")
}

// TestNothingMeasured checks what each computation says if nothing can be read.
func TestNothingMeasured(t *testing.T) {
	c, w, ctx := calculator(metered{err: errors.New("gone")}), workload(pods("r", "1"), 1, nil), t.Context()
	of := &autoscalingv2.CrossVersionObjectReference{Kind: "Service", Name: "web"}
	metric := &autoscalingv2.MetricIdentifier{Name: "qps"}
	for want, compute := range map[string]func() (Proposal, error){
		"unable to get metrics for resource cpu: gone":          func() (Proposal, error) { return c.Utilization(ctx, w, corev1.ResourceCPU, "", 1) },
		"unable to get metrics for resource memory: gone":       func() (Proposal, error) { return c.ResourceUsage(ctx, w, corev1.ResourceMemory, "", 1) },
		"unable to get metric qps: gone":                        func() (Proposal, error) { return c.PodsMetric(ctx, w, "qps", labels.Nothing(), 1) },
		"unable to get metric qps on Service default/web: gone": func() (Proposal, error) { return c.Object(ctx, w, of, "qps", labels.Nothing(), 1) },
		"unable to get metric rps on Service default/web: gone": func() (Proposal, error) { return c.ObjectAverage(ctx, w, of, "rps", labels.Nothing(), 1) },
		"unable to get external metric default/qps/nil: gone":   func() (Proposal, error) { return c.External(ctx, w, metric, 1) },
	} {
		if _, err := compute(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestPodsMetric has the cases of Kubernetes' tests of the same computation.
func TestPodsMetric(t *testing.T) {
	for name, c := range map[string]struct {
		pods      string
		replicas  int32
		levels    []int64
		target    int64
		tolerance *Tolerance
		want      Proposal
		fault     string
	}{
		"up":                           {pods: "rrr", levels: []int64{20000, 10000, 30000}, target: 15000, want: Proposal{Replicas: 4, Usage: 20000}},
		"readiness does not count":     {pods: "ccH", levels: []int64{50000, 10000, 30000}, target: 15000, want: Proposal{Replicas: 6, Usage: 30000}},
		"readiness never counts":       {pods: "HcH", levels: []int64{50000, 15000, 30000}, target: 15000, want: Proposal{Replicas: 7, Usage: 31666}},
		"down":                         {pods: "rrrrr", levels: []int64{12000, 12000, 12000, 12000, 12000}, target: 20000, want: Proposal{Replicas: 3, Usage: 12000}},
		"within the tolerance":         {pods: "rrr", levels: []int64{20000, 21000, 21000}, target: 20000, want: Proposal{Replicas: 3, Usage: 20666}},
		"a small tolerance":            {pods: "rrr", levels: []int64{20000, 21000, 21000}, target: 20000, tolerance: &Tolerance{0.1, 0.01}, want: Proposal{Replicas: 4, Usage: 20666}},
		"missing metrics":              {pods: "rrrrr", levels: []int64{20000, 19000, 21000}, target: 20000, want: Proposal{Replicas: 5, Usage: 20000}},
		"a rollout with one pod more":  {pods: "rrr", replicas: 2, levels: []int64{10000, 10000}, target: 17000, want: Proposal{Replicas: 2, Usage: 10000}},
		"no pods":                      {levels: []int64{1}, target: 1, fault: "no pods returned by selector while calculating replica count"},
		"pending pods make it less":    {pods: "rp", levels: []int64{30000}, target: 10000, want: Proposal{Replicas: 3, Usage: 30000}},
		"more than can be added":       {pods: "rr", levels: []int64{math.MaxInt64, math.MaxInt64}, target: 1, want: Proposal{Replicas: math.MaxInt32, Usage: math.MaxInt64 / 2}},
		"less than can be added":       {pods: "rr", levels: []int64{math.MinInt64, math.MinInt64}, target: 1, want: Proposal{Usage: math.MinInt64 / 2}},
		"a target that is none":        {pods: "rr", levels: []int64{0, 0}, want: Proposal{}},
		"much, with a target of none":  {pods: "rr", levels: []int64{5, 5}, want: Proposal{Replicas: math.MaxInt32, Usage: 5}},
		"little, with a negative goal": {pods: "rr", levels: []int64{5, 5}, target: -1, want: Proposal{Usage: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.replicas == 0 {
				c.replicas = int32(len(c.pods))
			}
			calc, w := calculator(metered{pods: readings(c.levels...)}), workload(pods(c.pods), c.replicas, c.tolerance)
			got, err := calc.PodsMetric(t.Context(), w, "qps", labels.Nothing(), c.target)
			check(t, got, err, c.want, c.fault)
		})
	}
}

// TestResourceUsage checks that the readiness of pods counts for their use of CPU, and only for that.
func TestResourceUsage(t *testing.T) {
	for of, want := range map[corev1.ResourceName]Proposal{
		corev1.ResourceCPU:    {Replicas: 3, Usage: 20000},
		corev1.ResourceMemory: {Replicas: 5, Usage: 23333},
	} {
		w := workload(pods("rru"), 3, nil)
		got, err := calculator(metered{pods: readings(20000, 20000, 30000)}).ResourceUsage(t.Context(), w, of, "", 15000)
		check(t, got, err, want, "")
	}
}

// TestWholes has the cases of Kubernetes' tests of metrics that belong to no pod.
func TestWholes(t *testing.T) {
	const ratio, average = "ratio", "average"
	for name, c := range map[string]struct {
		of        string
		pods      string
		values    []int64
		target    int64
		tolerance *Tolerance
		want      Proposal
		fault     string
	}{
		"up":                             {of: ratio, pods: "rrr", values: []int64{20000}, target: 15000, want: Proposal{Replicas: 4, Usage: 20000}},
		"very large":                     {of: ratio, pods: "rrr", values: []int64{math.MaxInt64}, target: 1, want: Proposal{Replicas: math.MaxInt32, Usage: math.MaxInt64}},
		"unready pods count nothing":     {of: ratio, pods: "uru", values: []int64{50000}, target: 10000, want: Proposal{Replicas: 5, Usage: 50000}},
		"unready pods, and down":         {of: ratio, pods: "uru", values: []int64{8600}, target: 4400, want: Proposal{Replicas: 2, Usage: 8600}},
		"down":                           {of: ratio, pods: "rrrrr", values: []int64{12000}, target: 20000, want: Proposal{Replicas: 3, Usage: 12000}},
		"down with a remainder":          {of: ratio, pods: "rrrrr", values: []int64{8600}, target: 14334, want: Proposal{Replicas: 3, Usage: 8600}},
		"within the tolerance":           {of: ratio, pods: "rrr", values: []int64{20666}, target: 20000, want: Proposal{Replicas: 3, Usage: 20666}},
		"below, within the tolerance":    {of: ratio, pods: "rrr", values: []int64{8600}, target: 8888, want: Proposal{Replicas: 3, Usage: 8600}},
		"a small tolerance":              {of: ratio, pods: "rrr", values: []int64{20666}, target: 20000, tolerance: &Tolerance{0.1, 0.01}, want: Proposal{Replicas: 4, Usage: 20666}},
		"from zero":                      {of: ratio, values: []int64{2001}, target: 1000, want: Proposal{Replicas: 3, Usage: 2001}},
		"to stay at zero":                {of: ratio, values: []int64{0}, target: 1000, want: Proposal{}},
		"no pods, with replicas":         {of: ratio, pods: "", values: nil, fault: "unable to calculate ready pods"},
		"negative":                       {of: ratio, pods: "rrr", values: []int64{math.MinInt64}, target: 1, want: Proposal{Usage: math.MinInt64}},
		"up, each":                       {of: average, pods: "rrr", values: []int64{20000}, target: 5000, want: Proposal{Replicas: 4, Usage: 6667}},
		"up, each, with a remainder":     {of: average, pods: "rrr", values: []int64{8600}, target: 2150, want: Proposal{Replicas: 4, Usage: 2867}},
		"down, each":                     {of: average, pods: "rrrrr", values: []int64{6000}, target: 2000, want: Proposal{Replicas: 3, Usage: 1200}},
		"down, each, with a remainder":   {of: average, pods: "rrrrr", values: []int64{8600}, target: 2867, want: Proposal{Replicas: 3, Usage: 1720}},
		"within the tolerance, each":     {of: average, pods: "rrrr", values: []int64{20166}, target: 5000, want: Proposal{Replicas: 4, Usage: 5042}},
		"a small tolerance, each":        {of: average, pods: "rrrr", values: []int64{20208}, target: 5000, tolerance: &Tolerance{0.1, 0.01}, want: Proposal{Replicas: 5, Usage: 5052}},
		"very large, each":               {of: average, pods: "r", values: []int64{math.MaxInt64}, target: 1, want: Proposal{Replicas: math.MaxInt32, Usage: math.MaxInt64}},
		"very large as the target, each": {of: average, pods: "r", values: []int64{math.MaxInt64}, target: math.MaxInt64, want: Proposal{Replicas: 1, Usage: math.MaxInt64}},
		"from zero, each":                {of: average, values: []int64{2001}, target: 1000, want: Proposal{Replicas: 3, Usage: 2001}},
		"to stay at zero, each":          {of: average, values: []int64{0}, target: 1000, want: Proposal{}},
		"negative, each":                 {of: average, pods: "r", values: []int64{math.MinInt64}, target: 1, want: Proposal{Usage: math.MinInt64}},
	} {
		t.Run(name, func(t *testing.T) {
			w := workload(pods(c.pods), int32(len(c.pods)), c.tolerance)
			if c.fault != "" {
				c.values, c.target, w.Replicas = []int64{5}, 1, 2
			}
			calc, metric, of := calculator(metered{values: c.values}), &autoscalingv2.MetricIdentifier{Name: "qps"}, &autoscalingv2.CrossVersionObjectReference{}
			object := func() (Proposal, error) { return calc.Object(t.Context(), w, of, "qps", labels.Nothing(), c.target) }
			external := func() (Proposal, error) { return calc.External(t.Context(), w, metric, c.target) }
			if c.of == average {
				object = func() (Proposal, error) {
					return calc.ObjectAverage(t.Context(), w, of, "qps", labels.Nothing(), c.target)
				}
				external = func() (Proposal, error) { return calc.ExternalAverage(t.Context(), w, metric, c.target) }
			}
			got, err := object()
			check(t, got, err, c.want, c.fault)
			got, err = external()
			check(t, got, err, c.want, c.fault)
		})
	}
}

// TestExternalSums checks that the values of an external metric are added, as far as there are numbers.
func TestExternalSums(t *testing.T) {
	for want, values := range map[int64][]int64{
		8600: {8000, 600}, math.MaxInt64: {math.MaxInt64/2 + 1, math.MaxInt64/2 + 1}, 0: {math.MinInt64, math.MaxInt64, 1},
	} {
		w := workload(pods("rrr"), 3, &Tolerance{2, 2})
		got, err := calculator(metered{values: values}).External(t.Context(), w, &autoscalingv2.MetricIdentifier{}, math.MaxInt64)
		check(t, got, err, Proposal{Replicas: 3, Usage: want}, "")
	}
}
