package trace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/trace"
)

func TestRecorderKeepsTheLatest(t *testing.T) {
	all := func(trace.Hop) bool { return true }
	var none *trace.Recorder
	none.Record(trace.Hop{Name: "nobody"})
	if hops := none.Hops(all); hops != nil {
		t.Errorf("a nil recorder kept %v", hops)
	}
	r := trace.NewRecorder(3)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r.Record(trace.Hop{Name: name})
	}
	var names []string
	for _, hop := range r.Hops(all) {
		names = append(names, hop.Name)
		if hop.Time.IsZero() {
			t.Error("a hop without a time")
		}
	}
	if got := strings.Join(names, ""); got != "cde" {
		t.Errorf("kept %q, want the latest three, oldest first", got)
	}
	if hops := r.Hops(func(h trace.Hop) bool { return h.Name == "d" }); len(hops) != 1 {
		t.Errorf("got %v, want one hop", hops)
	}
}

// TestRecorderOfManyBlocks records around the ends of blocks and of the ring.
func TestRecorderOfManyBlocks(t *testing.T) {
	for _, size := range []int{1, 1023, 1024, 1025, 2500} {
		r := trace.NewRecorder(size)
		for i := range 3*size + 2 {
			r.Record(trace.Hop{Revision: int64(i)})
			if i > 3 && i%997 != 0 && i%1024 > 2 && i < 3*size {
				continue // Reading after each of them takes too long.
			}
			hops := r.Hops(func(trace.Hop) bool { return true })
			if len(hops) != min(size, i+1) {
				t.Fatalf("a recorder of %d keeps %d hops after %d", size, len(hops), i+1)
			}
			for j, hop := range hops {
				if want := int64(i - len(hops) + 1 + j); hop.Revision != want {
					t.Fatalf("a recorder of %d has hop %d at position %d after %d, want %d", size, hop.Revision, j, i+1, want)
				}
			}
		}
	}
}

func TestTell(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int, step, resource, name, detail string) trace.Hop {
		return trace.Hop{Time: began.Add(time.Duration(ms) * time.Millisecond), Step: step, Resource: resource, Namespace: "default", Name: name, Detail: detail, Service: "s"}
	}
	hops := []trace.Hop{
		at(0, trace.Request, "deployments", "web", "create by admin"),
		at(5, trace.Reconcile, "deployments", "web", ""),
		// The second rollout, with its hops out of order, as several services report them.
		at(130, trace.Request, "deployments", "web", "update status by system:kube-controller-manager"),
		at(100, trace.Request, "deployments", "web", "patch by admin"),
		at(99, trace.Commit, "deployments", "web", ""),
		at(120, trace.Bind, "pods", "web-1", ""),
		at(121, trace.Bind, "pods", "other-1", ""),
		at(110, trace.Commit, "replicasets", "web-x", ""),
	}
	hops[3].Took = 10 * time.Millisecond
	rollout := trace.LatestRollout(hops, trace.Ref{Resource: "deployments", Namespace: "default", Name: "web"}, func(ref trace.Ref) bool {
		return strings.HasPrefix(ref.Name, "web-")
	})
	var out strings.Builder
	if err := rollout.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"AT      TOOK  STEP     REVISION  BY  OBJECT             DETAIL",
		"+9ms          commit             s   deployments/web    ",
		"+10ms   10ms  request            s   deployments/web    patch by admin",
		"+20ms         commit             s   replicasets/web-x  ",
		"+30ms         bind               s   pods/web-1         ",
		"+40ms         request            s   deployments/web    update status by system:kube-controller-manager",
	}
	// The first hop to end is the commit, which is within the request.
	got := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("told\n%s", out.String())
	}
	for i := range want {
		if strings.Join(strings.Fields(got[i])[1:], " ") != strings.Join(strings.Fields(want[i])[1:], " ") {
			t.Errorf("line %d is %q, want %q", i, got[i], want[i])
		}
	}
	out.Reset()
	if err := (trace.LatestRollout(nil, trace.Ref{}, nil)).Write(&out); err != nil || !strings.Contains(out.String(), "no hops are recorded") {
		t.Errorf("an empty rollout is written as %q, %v", out.String(), err)
	}
}
