package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(name string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(cidrs) > 0 {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidrs[0], cidrs
	}
	return n
}

// declare returns the controller's constructor with options.
func declare(t *testing.T, o Options) func(controller.Deps) *controller.Spec {
	t.Helper()
	return func(d controller.Deps) *controller.Spec {
		spec, err := New(d, o)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
}

// start runs the controller, inside a bubble, with the rights of its role.
func start(t *testing.T, p *controltest.Plane, o Options) {
	t.Helper()
	p.Allow("get list watch update delete patch /nodes", controltest.Events)
	o.Allocate = true
	p.Declare(declare(t, o))
	p.Start()
}

// settle lets everything happen that happens within a second.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func cidrs(p *controltest.Plane, name string) string {
	n := controltest.Get[*corev1.Node](p, "", name)
	if len(n.Spec.PodCIDRs) > 0 && n.Spec.PodCIDR != n.Spec.PodCIDRs[0] {
		return "two different ones"
	}
	return strings.Join(n.Spec.PodCIDRs, " ")
}

func TestRangesOfNodes(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		has     []*corev1.Node
		want    string
	}{
		"the first":        {Options{ClusterCIDRs: []string{"10.244.0.0/16"}}, nil, "10.244.0.0/24"},
		"the next":         {Options{ClusterCIDRs: []string{"10.244.0.0/16"}}, []*corev1.Node{node("a", "10.244.0.0/24")}, "10.244.1.0/24"},
		"between":          {Options{ClusterCIDRs: []string{"10.244.0.0/16"}}, []*corev1.Node{node("a", "10.244.0.0/24"), node("b", "10.244.2.0/24")}, "10.244.1.0/24"},
		"after a wide one": {Options{ClusterCIDRs: []string{"10.244.0.0/16"}}, []*corev1.Node{node("a", "10.244.0.0/23")}, "10.244.2.0/24"},
		"after a part":     {Options{ClusterCIDRs: []string{"10.244.0.0/16"}}, []*corev1.Node{node("a", "10.244.0.128/25")}, "10.244.1.0/24"},
		"another size":     {Options{ClusterCIDRs: []string{"10.244.0.0/16"}, MaskSize: 20}, []*corev1.Node{node("a", "10.244.0.0/20")}, "10.244.16.0/20"},
		"of the family":    {Options{ClusterCIDRs: []string{"10.244.0.0/16"}, MaskSizeIPv4: 26}, []*corev1.Node{node("a", "10.244.0.0/26")}, "10.244.0.64/26"},
		"both families": {
			Options{ClusterCIDRs: []string{"10.244.0.0/16", "fd00:1::/48"}}, []*corev1.Node{node("a", "10.244.0.0/24", "fd00:1::/64")},
			"10.244.1.0/24 fd00:1:0:1::/64",
		},
		"IPv6 first": {
			Options{ClusterCIDRs: []string{"fd00:1::/112", "10.244.0.0/16"}, MaskSizeIPv6: 120}, []*corev1.Node{node("a", "fd00:1::/120", "10.244.0.0/24")},
			"fd00:1::100/120 10.244.1.0/24",
		},
		"without Services": {
			Options{ClusterCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.244.0.0/22"}}, nil, "10.244.4.0/24",
		},
		"Services elsewhere": {
			Options{ClusterCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/12", "fd01::/108"}}, nil, "10.244.0.0/24",
		},
		"a node elsewhere": {Options{ClusterCIDRs: []string{"10.244.0.0/16"}}, []*corev1.Node{node("a", "10.0.0.0/24")}, "10.244.0.0/24"},
		"garbage":          {Options{ClusterCIDRs: []string{"10.244.0.0/16"}}, []*corev1.Node{node("a", "x")}, "10.244.0.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t, node("new"))
				for _, n := range test.has {
					p.Load(n)
				}
				start(t, p, test.options)
				settle()
				if got := cidrs(p, "new"); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				for _, n := range test.has {
					if got := cidrs(p, n.Name); got != strings.Join(n.Spec.PodCIDRs, " ") {
						t.Errorf("node %s has got %q", n.Name, got)
					}
				}
			})
		})
	}
}

func TestAFullCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		start(t, p, Options{ClusterCIDRs: []string{"10.244.0.0/22"}})
		var all []string
		for n := range 4 {
			name := fmt.Sprint("n", n)
			p.Load(node(name))
			settle()
			all = append(all, cidrs(p, name))
		}
		slices.Sort(all)
		if !slices.Equal(all, []string{"10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"}) {
			t.Errorf("got %q", all)
		}
		p.Load(node("late"))
		settle()
		if got := p.Events("CIDRNotAvailable"); len(got) == 0 || got[0] != "Node late status is now: CIDRNotAvailable" || cidrs(p, "late") != "" {
			t.Errorf("got Events %q and %q", got, cidrs(p, "late"))
		}
		freed := cidrs(p, "n2")
		if err := client.Of[*corev1.Node](p.Client).Delete(t.Context(), "", "n2", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := cidrs(p, "late"); got != freed {
			t.Errorf("got %q, want %q, which is free again", got, freed)
		}
	})
}

// TestAWriteThatFails checks that a node gets the range that it may have got already.
func TestAWriteThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		start(t, p, Options{ClusterCIDRs: []string{"10.244.0.0/23"}})
		failures := 5
		p.Fail(func(call client.Call) error {
			if call.Verb != "patch" || call.Kind.Resource != "nodes" || failures == 0 {
				return nil
			}
			failures--
			return errors.New("it fails")
		})
		p.Load(node("a"))
		time.Sleep(10 * time.Minute)
		if got := cidrs(p, "a"); got != "10.244.0.0/24" {
			t.Errorf("got %q", got)
		}
		if got := p.Events("CIDRAssignmentFailed"); len(got) == 0 || got[0] != "Node a status is now: CIDRAssignmentFailed" {
			t.Errorf("got Events %q", got)
		}
	})
}

// TestALaterTermKnowsAllNodes checks that a term gives no range that a node has got between two terms.
func TestALaterTermKnowsAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, node("a"))
		runner := p.Runner(declare(t, Options{Allocate: true, ClusterCIDRs: []string{"10.244.0.0/22"}}))
		p.Start()
		for _, before := range [][]*corev1.Node{nil, {node("b", "10.244.1.0/24"), node("c")}} {
			for _, n := range before {
				p.Load(n)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- runner.Run(ctx) }()
			settle()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if a, c := cidrs(p, "a"), cidrs(p, "c"); a != "10.244.0.0/24" || c != "10.244.2.0/24" {
			t.Errorf("got %q and %q", a, c)
		}
	})
}

func TestActsOnceOnAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Node", 2*time.Second)
		start(t, p, Options{ClusterCIDRs: []string{"10.244.0.0/16"}})
		for n := range 5 {
			p.Load(node(fmt.Sprint("n", n)))
		}
		time.Sleep(time.Minute)
		if n := len(p.Writes()); n != 5 {
			t.Errorf("got %d writes, want 5", n)
		}
	})
}
