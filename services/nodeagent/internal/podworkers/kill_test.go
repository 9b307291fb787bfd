package podworkers_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
)

// slowOrphans takes two seconds to stop an orphan.
type slowOrphans struct{ *syncer }

func (s slowOrphans) TerminateOrphan(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) error {
	<-time.After(2 * time.Second)
	return s.syncer.TerminateOrphan(ctx, pod, state)
}

// TestOrphanThatIsKnownAfterAll: the API turns out to know a pod while the agent stops it as an
// orphan. Its termination must be completed as that of any other pod, else it would have no final
// status.
func TestOrphanThatIsKnownAfterAll(t *testing.T) {
	for name, when := range map[string]time.Duration{"before": 0, "while": time.Second} {
		t.Run(name, func(t *testing.T) {
			s := &syncer{}
			runWith(t, s, slowOrphans{s}, func(ws *podworkers.Workers) {
				ws.KillOrphan(pod(""))
				if when > 0 {
					<-time.After(when)
				}
				ws.Update(pod("1"), podworkers.Create)
				<-time.After(10 * time.Second)
				if when > 0 {
					s.want(t, "orphan", "terminated")
				} else {
					s.want(t, "terminate 30", "terminated")
				}
				if known, done := ws.Known("u"); !known || !done {
					t.Errorf("the pod is known: %t, and finished: %t", known, done)
				}
			})
		})
	}
}

// TestGraceOfKills: a kill's own grace period counts, is at least a second, and later kills only
// shorten it.
func TestGraceOfKills(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	ended := pod("1")
	ended.Status.Phase = corev1.PodSucceeded
	for _, c := range []struct {
		name  string
		start func(ws *podworkers.Workers)
		want  string
	}{
		{"the pod's", func(ws *podworkers.Workers) { ws.Kill(pod("1"), podworkers.Kill{}) }, "terminate 30"},
		{"the kill's", func(ws *podworkers.Workers) { ws.Kill(pod("1"), podworkers.Kill{Grace: seconds(5)}) }, "terminate 5"},
		{"at once", func(ws *podworkers.Workers) { ws.Kill(pod("1"), podworkers.Kill{Grace: seconds(0)}) }, "terminate 1"},
		{"a negative one", func(ws *podworkers.Workers) { ws.Kill(pod("1"), podworkers.Kill{Grace: seconds(-5)}) }, "terminate 1"},
		{"two, the shorter first", func(ws *podworkers.Workers) {
			ws.Kill(pod("1"), podworkers.Kill{Grace: seconds(5)})
			ws.Kill(pod("1"), podworkers.Kill{Grace: seconds(50)})
		}, "terminate 5"},
		{"two, the shorter last", func(ws *podworkers.Workers) {
			ws.Kill(pod("1"), podworkers.Kill{Grace: seconds(50)})
			ws.Kill(pod("1"), podworkers.Kill{Grace: seconds(5)})
		}, "terminate 5"},
		{"the API shows it as ended", func(ws *podworkers.Workers) { ws.Update(ended, podworkers.Create) }, "terminate 30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &syncer{}
			// A worker that worked already might have ended the pod between two kills.
			runFrom(t, s, s, c.start, func(*podworkers.Workers) {
				<-time.After(time.Minute)
				s.want(t, c.want, "terminated")
			})
		})
	}
}

// TestForget keeps what is wanted or still ends, and names the pods that nobody told to end.
func TestForget(t *testing.T) {
	s := &syncer{}
	run(t, s, func(ws *podworkers.Workers) {
		ws.Update(pod("1"), podworkers.Create)
		<-time.After(10 * time.Second)
		unwanted := func(string) bool { return false }
		if dropped, alive := ws.Forget(unwanted); len(dropped) != 0 || len(alive) != 1 || ws.Terminating("u") {
			t.Errorf("of a living pod: dropped %q, alive %v", dropped, alive)
		}
		ws.Kill(pod("1"), podworkers.Kill{})
		if dropped, alive := ws.Forget(unwanted); len(dropped)+len(alive) != 0 || !ws.Terminating("u") {
			t.Errorf("of a pod that ends: dropped %q, alive %v", dropped, alive)
		}
		<-time.After(10 * time.Second)
		if dropped, _ := ws.Forget(func(string) bool { return true }); len(dropped) != 0 {
			t.Errorf("of a wanted pod: dropped %q", dropped)
		}
		if dropped, _ := ws.Forget(unwanted); len(dropped) != 1 {
			t.Errorf("of a finished pod: dropped %q", dropped)
		}
		ws.Wake("u")
		if ws.Terminating("u") || len(ws.Due(time.Now().Add(time.Hour))) != 0 {
			t.Error("a forgotten pod is not forgotten")
		}
	})
}
