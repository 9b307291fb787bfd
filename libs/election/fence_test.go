package election_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/fence"
)

// term is one term of a leader: its fence, and the context of its writes.
type term struct {
	ctx   context.Context
	fence fence.Fence
	ended chan struct{}
}

// terms runs a candidate and returns a channel with each of its terms.
func (a *arena) terms(t *testing.T, cfg election.Config) <-chan term {
	began := make(chan term, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- election.Run(ctx, cfg, func(ctx context.Context) error {
			f, ok := fence.From(ctx)
			if !ok {
				t.Error("a leader has no fence")
			}
			this := term{ctx: ctx, fence: f, ended: make(chan struct{})}
			began <- this
			<-ctx.Done()
			close(this.ended)
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return began
}

func (a *arena) write(ctx context.Context, name string) error {
	_, err := client.Of[*corev1.ConfigMap](a.api).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}, metav1.CreateOptions{})
	return err
}

func (a *arena) take(t *testing.T, by string) {
	t.Helper()
	lease := a.lease(t)
	transitions := *lease.Spec.LeaseTransitions + 1
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &by, &transitions
	if _, err := client.Of[*coordinationv1.Lease](a.api).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestLeaderIsFenced checks that the fence of a term is that of the lease, from the first renewal
// to the last.
func TestLeaderIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		began := a.terms(t, a.config(a.api, "one"))
		this := <-began
		for i := range 20 {
			if held := fence.Of(a.lease(t)); held != this.fence || held.Holder != "one" || held.Check() != nil {
				t.Fatalf("the lease is %+v, the fence %+v", held, this.fence)
			}
			if err := a.write(this.ctx, "m"+strings.Repeat("x", i)); err != nil {
				t.Errorf("a write of the leader failed: %v", err)
			}
			time.Sleep(1310 * time.Millisecond) // Never at the moment of a renewal.
		}
		a.take(t, "thief")
		if err := a.write(this.ctx, "late"); !fence.IsLost(err) {
			t.Errorf("a deposed leader wrote: %v", err)
		}
	})
}

// TestRefusalEndsTheTerm checks that a leader reads the lease at once after a refusal, not at the
// next renewal.
func TestRefusalEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		cfg := a.config(a.api, "one")
		cfg.Timing = election.Timing{LeaseDuration: 60 * time.Second, RenewDeadline: 50 * time.Second, RetryPeriod: 30 * time.Second}
		this := <-a.terms(t, cfg)
		time.Sleep(time.Second)
		a.take(t, "thief")
		at := time.Now()
		if err := a.write(this.ctx, "late"); !fence.IsLost(err) {
			t.Fatalf("a deposed leader wrote: %v", err)
		}
		<-this.ended
		if took := time.Since(at); took > time.Second {
			t.Errorf("the term ended %v after the refusal", took)
		}
	})
}

// TestAnotherTerm checks that a lease that was deleted and created again, or that another candidate
// held meanwhile, begins another term with another fence, even for the same replica.
func TestAnotherTerm(t *testing.T) {
	for name, happens := range map[string]func(t *testing.T, a *arena){
		"deleted": func(t *testing.T, a *arena) {
			if err := client.Of[*coordinationv1.Lease](a.api).Delete(t.Context(), "kube-system", "test", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"released by another": func(t *testing.T, a *arena) { a.take(t, "") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArena()
				began := a.terms(t, a.config(a.api, "one"))
				first := <-began
				time.Sleep(time.Second)
				happens(t, a)
				second := <-began
				<-first.ended
				if first.fence == second.fence || second.fence != fence.Of(a.lease(t)) || second.fence.Holder != "one" {
					t.Errorf("the first fence is %+v, the second %+v", first.fence, second.fence)
				}
				if err := a.write(context.WithoutCancel(first.ctx), "late"); !fence.IsLost(err) {
					t.Errorf("a write of the first term: %v", err)
				}
				if err := a.write(second.ctx, "now"); err != nil {
					t.Errorf("a write of the second term: %v", err)
				}
			})
		})
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		registry := prometheus.NewRegistry()
		cfg := a.config(a.api, "one")
		cfg.Registerer = registry
		shows := func(status, slow float64) {
			t.Helper()
			synctest.Wait()
			families, err := registry.Gather()
			if err != nil || len(families) != 2 {
				t.Fatalf("%d metrics, %v", len(families), err)
			}
			for i, name := range []string{"leader_election_master_status", "leader_election_slowpath_total"} {
				one := families[i].GetMetric()
				if families[i].GetName() != name || len(one) != 1 || one[0].GetLabel()[0].GetName() != "name" || one[0].GetLabel()[0].GetValue() != "test" {
					t.Errorf("the metric is %v", families[i])
				}
			}
			gauge, counter := families[0].GetMetric()[0].GetGauge(), families[1].GetMetric()[0].GetCounter()
			if gauge.GetValue() != status || counter.GetValue() != slow {
				t.Errorf("status %v and slow paths %v, want %v and %v", gauge.GetValue(), counter.GetValue(), status, slow)
			}
		}
		holder, seconds := "before", int32(15)
		a.api.Load(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "test"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
		})
		began := a.terms(t, cfg)
		shows(0, 0)
		this := <-began
		shows(1, 0)
		time.Sleep(61 * time.Second) // Between two renewals.
		shows(1, 0)
		a.take(t, "thief")
		<-this.ended
		shows(0, 1)
	})
}

// TestHandOverAfterDeath checks that a replica that dies is replaced within the lease duration and
// two pauses between attempts.
func TestHandOverAfterDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		link := &cut{Interface: a.api}
		<-a.terms(t, a.config(link, "one"))
		standby := a.terms(t, a.config(a.api, "two"))
		time.Sleep(time.Minute)
		link.set(true)
		at := time.Now()
		this := <-standby
		// A pause is up to 2.2 times the retry period, once before the candidate sees the lease and
		// once after.
		if took := time.Since(at); took > election.DefaultLeaseDuration+2*22*election.DefaultRetryPeriod/10 {
			t.Errorf("the hand-over took %v", took)
		}
		if this.fence.Holder != "two" || this.fence.Transitions != 1 {
			t.Errorf("the fence is %+v", this.fence)
		}
	})
}
