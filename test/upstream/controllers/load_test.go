package upstream

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

var (
	scale  = flag.Int("load", 0, "pods of a load; 0 measures none")
	chosen = flag.String("loads", "", "names of the loads to measure, separated by commas; all if empty")
	side   = flag.String("side", "", "name of the controllers to measure: garboard or kube-controller-manager; both if empty")
	rounds = flag.Int("rounds", 1, "how often each load is measured, on both sets of controllers in turn")
)

// creators is how many objects a load creates at a time.
const creators = 8

// load is work for the controllers, of n pods or ten times as many other objects. All but "pods" are measured unless
// some are chosen.
type load struct {
	name string
	// prepare is done before the measurement, run is measured.
	prepare, run func(ctx context.Context, p *plane, home string, n int) error
}

// TestLoad puts the same loads on both sets of controllers, one after the other, and prints what each costs them: of
// several rounds, that of the median of CPU. It judges nothing: the machine may be busy.
func TestLoad(t *testing.T) {
	if *scale == 0 {
		t.Skip("-load N measures")
	}
	built := build(t)
	var planes []*plane
	for _, upstreams := range []bool{false, true} {
		if *side == "" || (*side == "kube-controller-manager") == upstreams {
			p := startPlane(t, built, upstreams)
			p.drive(t)
			planes = append(planes, p)
		}
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(cells ...any) { _, _ = fmt.Fprintln(table, strings.TrimSuffix(fmt.Sprintln(cells...), "\n")) }
	for name := range strings.SplitSeq(*chosen, ",") {
		if name != "" && !slices.ContainsFunc(loads(), func(l load) bool { return l.name == name }) {
			t.Fatalf("there is no load %q", name)
		}
	}
	row("load\tcontrollers\ts\tCPU s\tlowest\thighest\twrites\tMB after\tMB at most\t")
	for _, l := range loads() {
		if *chosen == "" && l.name == "pods" || *chosen != "" && !slices.Contains(strings.Split(*chosen, ","), l.name) {
			continue
		}
		costs := map[*plane][]cost{}
		for round := range *rounds {
			for _, p := range planes {
				c, err := p.measure(t.Context(), l, round, *scale)
				if err != nil {
					t.Fatalf("%s, %s: %v", l.name, p.name, err)
				}
				costs[p] = append(costs[p], c)
				t.Logf("%s, %s: %.1f s, %.2f s of CPU, %d writes: %v", l.name, p.name, c.took.Seconds(), c.cpu.Seconds(), c.writes, c.kinds)
			}
		}
		for _, p := range planes {
			all := costs[p]
			slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.cpu, b.cpu) })
			c := all[len(all)/2] // the median by CPU
			row(fmt.Sprintf("%s\t%s\t%.1f\t%.2f\t%.2f\t%.2f\t%d\t%d\t%d\t", l.name, p.name, c.took.Seconds(), c.cpu.Seconds(),
				all[0].cpu.Seconds(), all[len(all)-1].cpu.Seconds(), c.writes, c.resident>>20, c.most>>20))
		}
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods, or ten times as many other objects\n%s", *scale, text.String())
	if *report != "" {
		if err := os.WriteFile(*report, []byte(text.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// cost is what a load takes.
type cost struct {
	took, cpu      time.Duration // the latter until nothing more is written
	writes         int
	kinds          map[string]int // the writes by resource and verb
	resident, most int64          // memory in bytes, the latter since the controllers' start
}

// measure puts a load on a plane, and removes it.
func (p *plane) measure(ctx context.Context, l load, round, n int) (cost, error) {
	home := fmt.Sprintf("load-%s-%d", l.name, round)
	if err := open().do(ctx, p, home); err != nil {
		return cost{}, err
	}
	if l.prepare != nil {
		if err := l.prepare(ctx, p, home, n); err != nil {
			return cost{}, fmt.Errorf("preparing: %w", err)
		}
	}
	if err := p.calm(ctx, home); err != nil {
		return cost{}, err
	}
	before, used, began := p.audit.counts(home), p.controllers.cpu(), time.Now()
	if err := l.run(ctx, p, home, n); err != nil {
		return cost{}, err
	}
	c := cost{took: time.Since(began)}
	if err := p.calm(ctx, home); err != nil {
		return cost{}, err
	}
	c.cpu, c.kinds = p.controllers.cpu()-used, p.audit.counts(home)
	for what, n := range before {
		c.kinds[what] -= n
	}
	for _, n := range c.kinds {
		c.writes += n
	}
	c.resident, c.most = p.controllers.memory("VmRSS"), p.controllers.memory("VmHWM")
	if l.name == "namespace" || l.name == "pods" {
		return c, nil // Nothing is left, or it takes too long to remove.
	}
	return c, gone().do(ctx, p, home)
}

// calm waits until nothing is written about a load any more.
func (p *plane) calm(ctx context.Context, home string) error {
	return await(ctx, "the end of writes", func(context.Context) error {
		last, err := p.audit.quietSince(home)
		if err == nil && time.Since(last) < calm {
			err = errors.New("there was a write")
		}
		return err
	})
}

func loads() []load {
	return []load{
		{"deployment", nil, func(ctx context.Context, p *plane, home string, n int) error {
			return p.until(ctx, home, workload("apps/v1", "Deployment", "web", fmt.Sprintf("replicas: %d\n  strategy: {rollingUpdate: {maxSurge: 25%%}}", n), "stay"),
				"deployments", "web", int64(n), "status", "readyReplicas")
		}},
		{"job", nil, func(ctx context.Context, p *plane, home string, n int) error {
			return p.until(ctx, home, workload("batch/v1", "Job", "work", fmt.Sprintf("completions: %d\n  parallelism: %d", n, n), "complete"),
				"jobs", "work", int64(n), "status", "succeeded")
		}},
		{"garbage", dependents, func(ctx context.Context, p *plane, home string, _ int) error {
			if err := remove("configmaps", "owner", background).do(ctx, p, home); err != nil {
				return err
			}
			return p.none(ctx, home, "configmaps", "load=many")
		}},
		{"namespace", dependents, func(ctx context.Context, p *plane, home string, _ int) error { return gone().do(ctx, p, home) }},
		{"services", nil, rollServices},
		{"pods", nil, runningPods},
		{"daemonset", func(ctx context.Context, p *plane, home string, n int) error {
			d := &driver{client: p.typed()}
			return many(ctx, n, func(ctx context.Context, i int) error {
				err := d.addNode(ctx, fmt.Sprintf("agent.%d", i))
				if apierrors.IsAlreadyExists(err) {
					return nil // It is from the round before.
				}
				return err
			})
		}, func(ctx context.Context, p *plane, home string, n int) error {
			return p.until(ctx, home, workload("apps/v1", "DaemonSet", "agents", "", "stay"), "daemonsets", "agents", int64(n+len(nodes())), "status", "numberReady")
		}},
	}
}

// workload returns the YAML of a workload whose pods have an outcome.
func workload(version, kind, name, spec, result string) string {
	selector, restarts := "selector: {matchLabels: {app: "+name+"}}", "Always"
	if kind == "Job" {
		selector, restarts = "", "Never"
	}
	return fmt.Sprintf(`
apiVersion: %s
kind: %s
metadata: {name: %s}
spec:
  %s
  %s
  template:
    metadata: {labels: {app: %s}, annotations: {judge/outcome: %s}}
    spec: {restartPolicy: %s, containers: [{name: c, image: "one:1"}]}
`, version, kind, name, spec, selector, name, result, restarts)
}

// until creates an object and waits until a field of it has a value.
func (p *plane) until(ctx context.Context, home, text, resource, name string, want int64, fields ...string) error {
	if err := create(text).do(ctx, p, home); err != nil {
		return err
	}
	client, err := p.named(resource, home)
	if err != nil {
		return err
	}
	return await(ctx, name, func(ctx context.Context) error {
		obj, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got, _, err := unstructured.NestedInt64(obj.Object, fields...); err != nil || got != want {
			return fmt.Errorf("%s is %d, not %d, %w", strings.Join(fields, "."), got, want, err)
		}
		return nil
	})
}

// none waits until no object with a label is left.
func (p *plane) none(ctx context.Context, home, resource, labels string) error {
	client, err := p.named(resource, home)
	if err != nil {
		return err
	}
	return await(ctx, "the end of "+resource, func(ctx context.Context) error {
		found, err := client.List(ctx, metav1.ListOptions{LabelSelector: labels, Limit: 1})
		if err == nil && len(found.Items) > 0 {
			err = fmt.Errorf("%s is left", found.Items[0].GetName())
		}
		return err
	})
}

// dependents creates a ConfigMap that owns ten times n others.
func dependents(ctx context.Context, p *plane, home string, n int) error {
	maps, err := p.named("configmaps", home)
	if err != nil {
		return err
	}
	config := func(name string, owners ...any) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
		if len(owners) > 0 {
			obj.SetLabels(map[string]string{"load": "many"})
			_ = unstructured.SetNestedSlice(obj.Object, owners, "metadata", "ownerReferences")
		}
		return obj
	}
	owner, err := maps.Create(ctx, config("owner"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	reference := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": string(owner.GetUID())}
	return many(ctx, 10*n, func(ctx context.Context, i int) error {
		_, err := maps.Create(ctx, config(fmt.Sprintf("dependent-%d", i), reference), metav1.CreateOptions{})
		return err
	})
}

// runningPods makes n running pods that no controller owns, for what the controllers keep of them.
func runningPods(ctx context.Context, p *plane, home string, n int) error {
	d := &driver{client: p.typed()}
	return many(ctx, n, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("pod-%d", i)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name, Labels: map[string]string{"app": "many", "instance": name}},
			Spec: corev1.PodSpec{
				NodeName: nodes()[i%len(nodes())], SchedulerName: nobody,
				Containers: []corev1.Container{{
					Name: "main", Image: "registry.example.com/team/web:1.2.3", Args: []string{"--listen=:8080"},
					Env:   []corev1.EnvVar{{Name: "A", Value: "b"}},
					Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
				}},
			},
		}
		created, err := d.client.CoreV1().Pods(home).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return d.write(ctx, created, corev1.PodRunning, 0)
	})
}

// rollServices makes Services of ten pods each, and replaces all pods.
func rollServices(ctx context.Context, p *plane, home string, n int) error {
	const each = 10
	if err := many(ctx, n/each, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("s%d", i)
		return create(workload("apps/v1", "ReplicaSet", name, fmt.Sprintf("replicas: %d", each), "stay")+fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %s}
spec: {selector: {app: %s}, ports: [{port: 80}]}
`, name, name)).do(ctx, p, home)
	}); err != nil {
		return err
	}
	if err := p.endpoints(ctx, home, n/each*each); err != nil {
		return err
	}
	pods := p.typed().CoreV1().Pods(home)
	old, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	left := map[types.UID]bool{}
	for _, pod := range old.Items {
		left[pod.UID] = true
	}
	// A deletion of the collection may not end in time, and would then delete new pods when it is sent again.
	if err := many(ctx, len(old.Items), func(ctx context.Context, i int) error {
		return pods.Delete(ctx, old.Items[i].Name, metav1.DeleteOptions{})
	}); err != nil {
		return err
	}
	if err := await(ctx, "the end of the old pods", func(ctx context.Context) error {
		found, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range found.Items {
			if left[pod.UID] {
				return fmt.Errorf("%s is left", pod.Name)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return p.endpoints(ctx, home, n/each*each)
}

// endpoints waits until the EndpointSlices have so many ready endpoints, and no others.
func (p *plane) endpoints(ctx context.Context, home string, want int) error {
	client := p.typed()
	return await(ctx, "the endpoints", func(ctx context.Context) error {
		slices, err := client.DiscoveryV1().EndpointSlices(home).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready, others := 0, 0
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					ready++
				} else {
					others++
				}
			}
		}
		if ready != want || others > 0 {
			return fmt.Errorf("%d are ready and %d are not; want %d", ready, others, want)
		}
		return nil
	})
}

// many does something n times, a few at a time.
func many(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
