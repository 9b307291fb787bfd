package nodemetrics

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/libs/scheme"
)

// show returns what was found, or the error.
func show(found []scheme.Object, err error) string {
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, obj := range found {
		switch m := obj.(type) {
		case *metricsv1beta1.NodeMetrics:
			lines = append(lines, fmt.Sprintf("%s %v %s %s/%s", m.Name, m.Labels, m.Window.Duration, m.Usage.Cpu(), m.Usage.Memory()))
		case *metricsv1beta1.PodMetrics:
			line := fmt.Sprintf("%s/%s %v %s", m.Namespace, m.Name, m.Labels, m.Window.Duration)
			for _, c := range m.Containers {
				line += fmt.Sprintf(" %s=%s/%s", c.Name, c.Usage.Cpu(), c.Usage.Memory())
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// TestMeasured shows figures as metrics-server does, and only those that a node may report.
func TestMeasured(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	full := func(name string) string { return stats(name, now, 1500001, 5<<20) }
	mirror := running("kube", "static", "n1", "c")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	several := running("a", "several", "n1", "c", "d", "gone")
	several.Spec.InitContainers = []corev1.Container{{Name: "side"}}
	several.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	pending := running("a", "pending", "n1", "c")
	pending.Status.Phase = corev1.PodPending
	c := &cluster{
		nodes: []scheme.Object{node("n1"), node("n2"), node("n3")},
		pods: []scheme.Object{
			running("a", "one", "n1", "c"), several, running("a", "part", "n1", "c", "d"), running("a", "new", "n1", "c"), running("a", "none", "n1", "c"),
			running("a", "elsewhere", "n2", "c"), running("a", "free", "", "c"), pending, running("a", "untold", "n1", "c"), running("b", "one", "n2", "c"), mirror,
		},
		answer: func(_ context.Context, node string) (string, error) {
			switch node {
			case "n1":
				return summaryOf(full(""),
					podStats("a", "one", "uid-one", full("c"), stats("c", now, 9, 9), full("stranger")), podStats("a", "one", "uid-one", stats("c", now, 9, 9)),
					podStats("a", "several", "", full("d"), stats("c", now.Add(-time.Minute), 0, 1<<10), full("debug"), full("side")),
					podStats("a", "part", "uid-part", full("c"), stats("d", now, "null", 0)), podStats("a", "new", "uid-old", full("c")), podStats("a", "none", "uid-none"),
					podStats("a", "elsewhere", "uid-elsewhere", full("c")), podStats("b", "one", "uid-one", stats("c", now, 9, 9)), podStats("a", "free", "uid-free", full("c")),
					podStats("a", "pending", "uid-pending", full("c")), podStats("../x", "<script>", "", full("c")), podStats("kube", "static", "hash", full("c"))), nil
			case "n2":
				return summaryOf(stats("", now, 250000000, "0"), podStats("b", "one", "uid-one", full("c"))), nil
			}
			return "", status(500)
		},
	}
	m := c.start()
	const one, several1 = `a/one map[app:one] 15s c=1500001n/5Mi`, `a/several map[app:several] 15s side=1500001n/5Mi c=0/1Ki d=1500001n/5Mi debug=1500001n/5Mi`
	for name, each := range map[string]struct {
		namespace, name, label, want string
	}{
		"all":           {want: one + "\n" + several1 + "\nb/one map[app:one] 15s c=1500001n/5Mi\nkube/static map[app:static] 15s c=1500001n/5Mi"},
		"a namespace":   {namespace: "a", want: one + "\n" + several1},
		"a label":       {namespace: "a", label: "several", want: several1},
		"no label":      {label: "nothing"},
		"no namespace":  {namespace: "c"},
		"one":           {namespace: "a", name: "one", want: one},
		"no pod":        {namespace: "a", name: "x", want: `pods "x" not found`},
		"a pending pod": {namespace: "a", name: "pending", want: `pods "pending" not found`},
		"a part":        {namespace: "a", name: "part", want: `podmetrics.metrics.k8s.io "a/part" not found`},
		"another node":  {namespace: "a", name: "elsewhere", want: `podmetrics.metrics.k8s.io "a/elsewhere" not found`},
		"another pod":   {namespace: "a", name: "new", want: `podmetrics.metrics.k8s.io "a/new" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			got := show(m.Pods(t.Context(), each.namespace, each.name, func(obj metav1.Object) bool {
				return each.label == "" || obj.GetLabels()["app"] == each.label
			}))
			if diff := cmp.Diff(each.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, want := range map[string]string{
		"": "n1 map[zone:n1] 15s 1500001n/5Mi", "n1": "n1 map[zone:n1] 15s 1500001n/5Mi", "n2": `nodemetrics.metrics.k8s.io "n2" not found`,
		"n3": `nodemetrics.metrics.k8s.io "n3" not found`, "n4": `node "n4" not found`,
	} {
		if got := show(m.Nodes(t.Context(), "", name, everything)); got != want {
			t.Errorf("node %q: got %s, want %s", name, got, want)
		}
	}
	found, err := m.Pods(t.Context(), "a", "several", everything)
	if err != nil {
		t.Fatal(err)
	}
	if got := found[0].(*metricsv1beta1.PodMetrics).Timestamp; !got.Equal(&metav1.Time{Time: now.Add(-time.Minute)}) {
		t.Errorf("got the time %s, want that of the first of its containers", got)
	}
}

// TestUnselectedNodesAreNotAsked expects questions to those nodes alone whose figures are read.
func TestUnselectedNodesAreNotAsked(t *testing.T) {
	c := &cluster{
		nodes: []scheme.Object{node("n1"), node("n2")}, pods: []scheme.Object{running("a", "one", "n1", "c"), running("b", "two", "n2", "c")},
		answer: func(context.Context, string) (string, error) { return "{}", nil },
	}
	m := c.start()
	if len(c.asked) != 0 {
		t.Errorf("asked %v before anybody read", c.asked)
	}
	show(m.Pods(t.Context(), "a", "", everything))
	show(m.Nodes(t.Context(), "", "n1", everything))
	show(m.Pods(t.Context(), "", "", func(obj metav1.Object) bool { return obj.GetNamespace() == "a" }))
	if c.asked["n1"] != 1 || c.asked["n2"] != 0 {
		t.Errorf("asked %v, want n1 once", c.asked)
	}
}

// TestRates computes rates of nodes that report counters alone.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		uid, report, total := "u", func() time.Time { return time.Now() }, uint64(0)
		c := &cluster{
			nodes: []scheme.Object{node("n1")}, pods: []scheme.Object{running("a", "one", "n1", "c")},
			answer: func(context.Context, string) (string, error) {
				counter := fmt.Sprintf(`{"name":"c","startTime":%q,"cpu":{"time":%q,"usageCoreNanoSeconds":%d},"memory":{"workingSetBytes":1024}}`,
					start.Format(time.RFC3339), report().Format(time.RFC3339), total)
				return summaryOf(counter, podStats("a", "one", uid, counter)), nil
			},
		}
		uid = string(c.pods[0].GetUID())
		m := c.start()
		check := func(what string, wait time.Duration, node, pod string) {
			t.Helper()
			time.Sleep(wait)
			if got := show(m.Nodes(t.Context(), "", "", everything)); got != node {
				t.Errorf("%s: got the node %q, want %q", what, got, node)
			}
			if got := show(m.Pods(t.Context(), "", "", everything)); got != pod {
				t.Errorf("%s: got the pod %q, want %q", what, got, pod)
			}
		}
		total = 5e9
		check("too young", 5*time.Second, "", "")
		total = 25e9
		check("two samples", 20*time.Second, "n1 map[zone:n1] 20s 1/1Ki", "a/one map[app:one] 20s c=1/1Ki")
		total = 26e9
		check("remembered", 10*time.Second, "n1 map[zone:n1] 20s 1/1Ki", "a/one map[app:one] 20s c=1/1Ki")
		at := time.Now().Add(-10 * time.Second)
		total, report = 25e9, func() time.Time { return at }
		check("not measured again", 15*time.Second, "n1 map[zone:n1] 20s 1/1Ki", "a/one map[app:one] 20s c=1/1Ki")
		report, start, total = time.Now, time.Now().Add(18*time.Second), 1e9
		check("started again", 38*time.Second, "", "a/one map[app:one] 20s c=50m/1Ki")
		start = time.Now().Add(-time.Hour)
		check("an older start", 20*time.Second, "n1 map[zone:n1] 20s 0/1Ki", "a/one map[app:one] 20s c=0/1Ki")
		total = 0
		check("a counter that falls", 20*time.Second, "", "")
	})
}

// TestUntrue refuses figures that cannot be true.
func TestUntrue(t *testing.T) {
	now := time.Now()
	for name, report := range map[string]string{
		"too much CPU": stats("c", now, "1000000000000001", 1024), "too much memory": stats("c", now, 1, "1152921504606846977"), "no memory": stats("c", now, 1, 0),
		"no CPU":   `{"name":"c","cpu":{"time":"` + now.Format(time.RFC3339) + `"},"memory":{"workingSetBytes":1}}`,
		"long ago": stats("c", now.Add(-2*time.Hour), 1, 1), "in the future": stats("c", now.Add(2*time.Hour), 1, 1), "at no time": `{"name":"c","cpu":{"usageNanoCores":1},"memory":{"workingSetBytes":1}}`,
		"a counter that cannot be": `{"name":"c","startTime":"` + now.Add(-20*time.Second).Format(time.RFC3339) + `","cpu":{"time":"` + now.Format(time.RFC3339) +
			`","usageCoreNanoSeconds":18446744073709551615},"memory":{"workingSetBytes":1}}`,
	} {
		a, err := parse([]byte(summaryOf(report, podStats("a", "p", "", report), podStats("a", "q", "", stats("c", now, 1, 1)))), nil, now)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.node.complete || a.of(running("a", "p", "n", "c")) != nil || a.of(running("a", "q", "n", "c")) == nil {
			t.Errorf("%s: got the figures %+v", name, a)
		}
	}
	var pods []string
	for i := range maxFigures/100 + 1 {
		var containers []string
		for j := range 100 {
			containers = append(containers, fmt.Sprintf(`{"name":"c%d"}`, j))
		}
		pods = append(pods, podStats("a", fmt.Sprintf("p%d", i), "", containers...))
	}
	for _, wrong := range []string{"", summaryOf("{}", pods...), "[]", `{"pods":{}}`, `{"pods":[7]}`, `{"pods":[{"containers":7}]}`, `{"pods":[` + strings.Repeat("{},", maxPods) + `{}]}`,
		`{"pods":[{"containers":[` + strings.Repeat("null,", maxContainers) + `null]}]}`, stats("", now, -1, 1)[:20], summaryOf(stats("", now, -1, 1)), summaryOf(stats("", now, 1, "1e30")), `{"node":{"startTime":"x"}}`} {
		if a, err := parse([]byte(wrong), nil, now); err == nil {
			t.Errorf("%.100q gave %+v", wrong, a)
		}
	}
}

func FuzzParse(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	f.Add(summaryOf(stats("", now, 1, 1), podStats("a", "p", "u", stats("c", now, 1, 1))), summaryOf(stats("", now, "null", 1)))
	f.Fuzz(func(t *testing.T, first, second string) {
		before, err := parse([]byte(first), nil, now)
		if err != nil {
			before = nil
		}
		a, err := parse([]byte(second), before, now.Add(fresh))
		if err != nil {
			return
		}
		figures := []figure{a.node}
		for _, p := range a.pods {
			for _, c := range p.containers {
				figures = append(figures, c)
			}
		}
		for _, f := range figures {
			usage := f.usage()
			if f.complete && (usage.Cpu().Sign() < 0 || usage.Memory().Sign() <= 0 || f.window <= 0) {
				t.Errorf("got the figure %+v", f)
			}
		}
	})
}
