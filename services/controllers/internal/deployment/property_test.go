package deployment

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pgregory.net/rapid"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// model is a Deployment with its ReplicaSets, and pods that are only ready or not.
type model struct {
	t    *rapid.T
	ctx  context.Context
	run  *reconciler
	pods map[types.UID][]bool // readiness, by ReplicaSet
}

func newModel(ctx context.Context, t *rapid.T) *model {
	c := fake.New(scheme.New())
	m := &model{
		t: t, ctx: ctx, pods: map[types.UID][]bool{},
		run: &reconciler{
			deployments: &controller.Objects[*appsv1.Deployment]{Client: client.Of[*appsv1.Deployment](c)},
			replicaSets: &controller.Owned[*appsv1.ReplicaSet, *appsv1.Deployment]{Client: client.Of[*appsv1.ReplicaSet](c)},
			logger:      slog.New(slog.DiscardHandler),
		},
	}
	replicas := rapid.Int32Range(1, 12).Draw(t, "replicas")
	surge := intstr.FromInt32(rapid.Int32Range(0, 4).Draw(t, "surge"))
	unavailable := intstr.FromInt32(rapid.Int32Range(0, 4).Draw(t, "unavailable"))
	labels := map[string]string{"app": "web"}
	_, err := m.run.deployments.Client.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "0"}}},
			},
		},
	}, metav1.CreateOptions{})
	m.must(err)
	return m
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) deployment() *appsv1.Deployment {
	d, err := m.run.deployments.Client.Get(m.ctx, "default", "web", metav1.GetOptions{})
	m.must(err)
	return d
}

func (m *model) sets() []*appsv1.ReplicaSet {
	sets, _, err := m.run.replicaSets.Client.List(m.ctx, "default", metav1.ListOptions{})
	m.must(err)
	return sets
}

// anySet draws one of the ReplicaSets; nil if there is none.
func (m *model) anySet() *appsv1.ReplicaSet {
	sets := m.sets()
	if len(sets) == 0 {
		return nil
	}
	return rapid.SampledFrom(sets).Draw(m.t, "set")
}

// step reconciles the Deployment once.
func (m *model) step() {
	r := &rollout{reconciler: m.run, d: m.deployment(), sets: m.sets()}
	_, err := r.step(m.ctx)
	m.must(err)
}

// follow gives a ReplicaSet as many pods as it asks for, as the ReplicaSet controller does: pods
// that are not ready go first.
func (m *model) follow(rs *appsv1.ReplicaSet) {
	pods := slices.Clone(m.pods[rs.UID])
	for len(pods) < int(size(rs)) {
		pods = append(pods, false)
	}
	slices.SortFunc(pods, func(a, b bool) int { // The ready ones first.
		switch {
		case a == b:
			return 0
		case a:
			return -1
		default:
			return 1
		}
	})
	m.pods[rs.UID] = pods[:size(rs)]
}

// report writes a ReplicaSet's status. Until then the Deployment sees an old one.
func (m *model) report(rs *appsv1.ReplicaSet) {
	ready := int32(0)
	for _, is := range m.pods[rs.UID] {
		if is {
			ready++
		}
	}
	rs.Status = appsv1.ReplicaSetStatus{
		Replicas: int32(len(m.pods[rs.UID])), ReadyReplicas: ready, AvailableReplicas: ready, ObservedGeneration: rs.Generation,
	}
	_, err := m.run.replicaSets.Client.UpdateStatus(m.ctx, rs, metav1.UpdateOptions{})
	m.must(err)
}

func (m *model) ready() (count int32) {
	for _, pods := range m.pods {
		for _, is := range pods {
			if is {
				count++
			}
		}
	}
	return count
}

// finish runs all parts until nothing changes any more.
func (m *model) finish() {
	for range 200 {
		m.step()
		for _, rs := range m.sets() {
			m.follow(rs)
			for i := range m.pods[rs.UID] {
				m.pods[rs.UID][i] = true
			}
			m.report(rs)
		}
		if d := m.deployment(); complete(d, &d.Status) {
			return
		}
	}
	d := m.deployment()
	m.t.Fatalf("the rollout does not end: %+v", d.Status)
}

func (m *model) retemplate() {
	d := m.deployment()
	d.Spec.Template.Spec.Containers[0].Image = fmt.Sprint(rapid.IntRange(0, 3).Draw(m.t, "image"))
	_, err := m.run.deployments.Client.Update(m.ctx, d, metav1.UpdateOptions{})
	m.must(err)
}

func (m *model) checkSurge() {
	d := m.deployment()
	if total, most := sum(m.sets(), size), replicas(d)+boundsOf(d).surge; total > most {
		m.t.Fatalf("got %d desired pods, want at most %d", total, most)
	}
}

// TestBoundsHold checks that a rolling update keeps its bounds at every moment and always ends,
// however late each status arrives, and whatever templates come in between. Pods do not fail by
// themselves.
func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(t.Context(), rt)
		m.finish()
		check := func() {
			m.checkSurge()
			d := m.deployment()
			if least := replicas(d) - boundsOf(d).unavailable; m.ready() < least {
				rt.Fatalf("got %d ready pods, want at least %d", m.ready(), least)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":                      func(*rapid.T) { check() },
			"deployment reconciles": func(*rapid.T) { m.step() },
			"replicaset follows": func(*rapid.T) {
				if rs := m.anySet(); rs != nil {
					m.follow(rs)
				}
			},
			"replicaset reports": func(*rapid.T) {
				if rs := m.anySet(); rs != nil {
					m.report(rs)
				}
			},
			"pods become ready": func(*rapid.T) {
				if rs := m.anySet(); rs != nil {
					for i := range m.pods[rs.UID] {
						m.pods[rs.UID][i] = m.pods[rs.UID][i] || rapid.Bool().Draw(rt, "ready")
					}
				}
			},
			"template changes": func(*rapid.T) { m.retemplate() },
		})
		m.finish()
	})
}

// TestFailingPodsAreNotMadeWorse checks rollouts in which pods also fail by themselves. The surge
// bound still holds, and pods that the controller removes never leave fewer ready pods than the
// bound.
func TestFailingPodsAreNotMadeWorse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(t.Context(), rt)
		m.finish()
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { m.checkSurge() },
			"all reconcile": func(*rapid.T) {
				for _, rs := range m.sets() {
					m.follow(rs)
					m.report(rs)
				}
				before := m.ready()
				m.step()
				for _, rs := range m.sets() {
					m.follow(rs)
				}
				d := m.deployment()
				if after, least := m.ready(), replicas(d)-boundsOf(d).unavailable; after < before && after < least {
					rt.Fatalf("got %d of %d ready pods left, want at least %d", after, before, least)
				}
			},
			"pods change": func(*rapid.T) {
				if rs := m.anySet(); rs != nil {
					for i := range m.pods[rs.UID] {
						m.pods[rs.UID][i] = rapid.Bool().Draw(rt, "ready")
					}
				}
			},
			"template changes": func(*rapid.T) { m.retemplate() },
		})
		m.finish()
	})
}
