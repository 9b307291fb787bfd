package upstream

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var probes = flag.Int("probes", 0, "ReplicaSets that TestHostile times per run; 0 times none")

const (
	// runs is how often the probes are timed without hostile objects, and with them.
	runs = 3
	// probePause is the time from one probe to the next.
	probePause = 100 * time.Millisecond
	// backedOff is how long hostile objects exist before they are judged: controllers have begun to hold back.
	backedOff = 2 * time.Minute
	// mostWrites is how many writes a minute a controller may make then for one key.
	mostWrites = 30
	foes       = "hostile"
)

// hostile are objects that have controllers busy for ever: two that own each other, sets that select each other's
// pods, schedules that never fire, numbers that no cluster can hold. A quota bounds the pods.
const hostile = `
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {pods: "20"}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: vast}
spec:
  replicas: 2147483647
  selector: {matchLabels: {app: vast}}
  template: {metadata: {labels: {app: vast}}, spec: {containers: [{name: c, image: "one:1"}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: endless}
spec:
  completions: 1000000000
  parallelism: 1000000000
  template: {metadata: {annotations: {judge/outcome: wait}}, spec: {restartPolicy: Never, containers: [{name: c, image: "one:1"}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: never}
spec:
  schedule: "0 0 31 2 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "one:1"}]}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: absurd}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: ReplicaSet, name: vast}
  minReplicas: 1
  maxReplicas: 2147483647
  metrics: [{type: External, external: {metric: {name: none}, target: {type: Value, value: "9223372036854775807"}}}]
`

// rivals are two of the same kind and selector.
const rivals = `
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s-%[3]d}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[2]s}}
  template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: c, image: "one:1"}]}}
`

// TestHostile times how soon a new ReplicaSet has its pod, without and with hostile objects beside it, and counts what
// the controllers write about these. It judges the writes; times it prints, for the machine may be busy.
func TestHostile(t *testing.T) {
	if *probes == 0 {
		t.Skip("-probes N times controllers beside hostile objects")
	}
	p := startPlane(t, build(t), false)
	p.drive(t)
	for run := range runs {
		p.probe(t, fmt.Sprintf("without-%d", run))
	}
	if err := open().do(t.Context(), p, foes); err != nil {
		t.Fatal(err)
	}
	texts := []string{hostile}
	for n := range 2 {
		texts = append(texts, fmt.Sprintf(rivals, "ReplicaSet", "twin", n), fmt.Sprintf(rivals, "Deployment", "rival", n))
	}
	if err := create(strings.Join(texts, "---")).do(t.Context(), p, foes); err != nil {
		t.Fatal(err)
	}
	if err := p.cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	fighting, end := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error { return p.fight(fighting) })
	defer func() {
		end()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}()
	<-time.After(backedOff)
	if _, err := p.audit.quietSince(foes); err != nil { // It reads what was written until now.
		t.Fatal(err)
	}
	earlier, began := p.audit.byKey(foes), time.Now()
	for run := range runs {
		p.probe(t, fmt.Sprintf("with-%d", run))
	}
	if rest := time.Minute - time.Since(began); rest > 0 {
		<-time.After(rest)
	}
	minutes := time.Since(began).Minutes()
	if _, err := p.audit.quietSince(foes); err != nil {
		t.Fatal(err)
	}
	writes, all := map[string]float64{}, 0
	for key, n := range p.audit.byKey(foes) {
		if n -= earlier[key]; n > 0 {
			writes[key], all = math.Round(float64(n)/minutes*10)/10, all+n
		}
	}
	t.Logf("the controllers wrote %d times in %.1f minutes about hostile objects; a minute and key: %v", all, minutes, writes)
	for key, each := range writes {
		if each > mostWrites {
			t.Errorf("the controllers wrote %.1f times a minute for %s, more than %d", each, key, mostWrites)
		}
	}
	if all == 0 {
		t.Error("the controllers wrote nothing about hostile objects")
	}
}

// cycle makes two ConfigMaps that own each other.
func (p *plane) cycle(ctx context.Context) error {
	maps := p.typed().CoreV1().ConfigMaps(foes)
	var uids [2]types.UID
	for i, name := range []string{"hen", "egg"} {
		created, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		uids[i] = created.UID
	}
	for i, name := range []string{"hen", "egg"} {
		owner := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]}}`, []string{"egg", "hen"}[i], uids[1-i])
		if _, err := maps.Patch(ctx, name, types.MergePatchType, []byte(owner), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// fight undoes what the Deployment controller writes, ten times a second, until ctx ends.
func (p *plane) fight(ctx context.Context) error {
	sets := p.typed().AppsV1().ReplicaSets(foes)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		all, err := sets.List(ctx, metav1.ListOptions{LabelSelector: "app=rival"})
		for i := range all.Items {
			if err == nil {
				_, err = sets.Patch(ctx, all.Items[i].Name, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
			}
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("fighting the Deployment controller: %w", err)
		}
	}
}

// probe creates ReplicaSets of one pod, and prints how long it takes until the pods exist.
func (p *plane) probe(t *testing.T, home string) {
	t.Helper()
	ctx, client := t.Context(), p.typed()
	if err := open().do(ctx, p, home); err != nil {
		t.Fatal(err)
	}
	watched, err := client.CoreV1().Pods(home).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	began, seen := map[string]time.Time{}, make(chan map[string]time.Time, 1)
	go func() {
		came := map[string]time.Time{}
		for event := range watched.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || len(pod.OwnerReferences) == 0 {
				continue
			}
			if owner := pod.OwnerReferences[0].Name; came[owner].IsZero() {
				came[owner] = time.Now()
			}
			if len(came) == *probes {
				break
			}
		}
		seen <- came
	}()
	for i := range *probes {
		name := fmt.Sprintf("probe-%d", i)
		labels := map[string]string{"probe": name}
		began[name] = time.Now()
		_, err := client.AppsV1().ReplicaSets(home).Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.ReplicaSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one:1"}}}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(probePause)
	}
	var came map[string]time.Time
	select {
	case came = <-seen:
	case <-time.After(patience):
		t.Fatal(errors.New("not all ReplicaSets got their pod"))
	}
	var took []time.Duration
	for name, at := range came {
		took = append(took, at.Sub(began[name]))
	}
	slices.Sort(took)
	t.Logf("%s: a pod after %v (median), %v (99 %%), %v at most", home, took[len(took)/2].Round(time.Millisecond),
		took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
}
