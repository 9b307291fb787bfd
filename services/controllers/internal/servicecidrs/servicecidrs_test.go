package servicecidrs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func cidr(name string, ranges ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: ranges},
	}
}

func address(ip, manager string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{
		Name: ip, Labels: map[string]string{networkingv1.LabelManagedBy: manager},
	}}
}

const allocator = "ipallocator.k8s.io"

// start runs the controller on an API with objects, with the rights of its role.
func start(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch patch update networking.k8s.io/servicecidrs",
		"patch update networking.k8s.io/servicecidrs/status", "get list watch networking.k8s.io/ipaddresses")
	p.Declare(New)
	p.Start()
	return p
}

func remove(t *testing.T, p *controltest.Plane, name string) {
	t.Helper()
	if err := client.Of[*networkingv1.ServiceCIDR](p.Client).Delete(p.Context(), "", name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func release(t *testing.T, p *controltest.Plane, ip string) {
	t.Helper()
	if err := client.Of[*networkingv1.IPAddress](p.Client).Delete(p.Context(), "", ip, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// names returns the names of the existing ServiceCIDRs.
func names(p *controltest.Plane) []string {
	var all []string
	for _, c := range controltest.List[*networkingv1.ServiceCIDR](p) {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return all
}

func TestANewServiceCIDRIsHeldAndReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		controltest.Create(p, cidr("a", "10.0.0.0/24"))
		time.Sleep(time.Second)
		got := controltest.Get[*networkingv1.ServiceCIDR](p, "", "a")
		if !slices.Equal(got.Finalizers, []string{finalizer}) {
			t.Errorf("got finalizers %q", got.Finalizers)
		}
		ready := meta.FindStatusCondition(got.Status.Conditions, "Ready")
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.Message != "Kubernetes Service CIDR is ready" || ready.LastTransitionTime.IsZero() {
			t.Errorf("got condition Ready %+v", ready)
		}
		// Nothing more remains to be reported: no further writes follow.
		time.Sleep(time.Hour)
		if again := controltest.Get[*networkingv1.ServiceCIDR](p, "", "a"); again.ResourceVersion != got.ResourceVersion {
			t.Errorf("got resourceVersions %s, then %s, want no second write", got.ResourceVersion, again.ResourceVersion)
		}
	})
}

func TestRemovedFinalizerIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		controltest.Create(p, cidr("a", "10.0.0.0/24"))
		time.Sleep(time.Second)
		controltest.Change(p, "", "a", func(c *networkingv1.ServiceCIDR) { c.Finalizers = []string{"example.com/x"} })
		time.Sleep(time.Second)
		if got := controltest.Get[*networkingv1.ServiceCIDR](p, "", "a"); !slices.Equal(got.Finalizers, []string{"example.com/x", finalizer}) {
			t.Errorf("got finalizers %q", got.Finalizers)
		}
	})
}

func TestAServiceCIDRStaysWhileItIsNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		addresses []*networkingv1.IPAddress
		others    []*networkingv1.ServiceCIDR
		needed    bool
	}{
		"no addresses":                  {nil, nil, false},
		"an address":                    {[]*networkingv1.IPAddress{address("10.0.0.7", allocator)}, nil, true},
		"an address of the other range": {[]*networkingv1.IPAddress{address("fd00::7", allocator)}, nil, true},
		"an address of another range":   {[]*networkingv1.IPAddress{address("10.0.1.7", allocator)}, nil, false},
		"an address of another owner":   {[]*networkingv1.IPAddress{address("10.0.0.7", "example.com")}, nil, false},
		"a wider range has it": {
			[]*networkingv1.IPAddress{address("10.0.0.7", allocator)},
			[]*networkingv1.ServiceCIDR{cidr("b", "10.0.0.0/16")}, false,
		},
		"a narrower range has it": {
			[]*networkingv1.IPAddress{address("10.0.0.7", allocator)},
			[]*networkingv1.ServiceCIDR{cidr("b", "10.0.0.0/28")}, false,
		},
		"a narrower range has one of them": {
			[]*networkingv1.IPAddress{address("10.0.0.7", allocator), address("10.0.0.77", allocator)},
			[]*networkingv1.ServiceCIDR{cidr("b", "10.0.0.0/28")}, true,
		},
		"another has one family": {
			[]*networkingv1.IPAddress{address("10.0.0.7", allocator), address("fd00::7", allocator)},
			[]*networkingv1.ServiceCIDR{cidr("b", "10.0.0.0/24")}, true,
		},
		"another has the same": {
			[]*networkingv1.IPAddress{address("10.0.0.7", allocator), address("fd00::7", allocator)},
			[]*networkingv1.ServiceCIDR{cidr("b", "fd00::/112", "10.0.0.0/24")}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				controltest.Create(p, cidr("a", "10.0.0.0/24", "fd00::/112"))
				for _, other := range test.others {
					controltest.Create(p, other)
				}
				for _, ip := range test.addresses {
					controltest.Create(p, ip)
				}
				time.Sleep(time.Second)
				remove(t, p, "a")
				time.Sleep(9 * time.Second)
				if !slices.Contains(names(p), "a") {
					t.Fatal("the ServiceCIDR was released before the grace period ended")
				}
				time.Sleep(2 * time.Second)
				if there := slices.Contains(names(p), "a"); there != test.needed {
					t.Fatalf("got existing %t, want %t", there, test.needed)
				}
				if !test.needed {
					return
				}
				ready := meta.FindStatusCondition(controltest.Get[*networkingv1.ServiceCIDR](p, "", "a").Status.Conditions, "Ready")
				if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "Terminating" {
					t.Errorf("got condition Ready %+v", ready)
				}
				for i, ip := range test.addresses {
					if slices.Contains(names(p), "a") != (i < len(test.addresses)) {
						t.Errorf("the ServiceCIDR was released with %d addresses left", len(test.addresses)-i)
					}
					release(t, p, ip.Name)
					time.Sleep(time.Second)
				}
				if slices.Contains(names(p), "a") {
					t.Error("the ServiceCIDR remains after its last address was released")
				}
			})
		})
	}
}

// TestTwoThatAreDeleted checks two deleted ServiceCIDRs with the same addresses: neither allows the
// other to be released.
func TestTwoThatAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		controltest.Create(p, cidr("a", "10.0.0.0/24"))
		controltest.Create(p, cidr("b", "10.0.0.0/24"))
		controltest.Create(p, address("10.0.0.7", allocator))
		time.Sleep(time.Second)
		remove(t, p, "a")
		remove(t, p, "b")
		time.Sleep(time.Minute)
		if got := names(p); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("got ServiceCIDRs %q, want a and b", got)
		}
		// A third ServiceCIDR covers the address: both may be released.
		controltest.Create(p, cidr("c", "10.0.0.0/28"))
		time.Sleep(time.Second)
		if got := names(p); !slices.Equal(got, []string{"c"}) {
			t.Errorf("got ServiceCIDRs %q", got)
		}
	})
}

// TestAnAddressTheCacheDoesNotShow checks an address that was allocated just before, and whose
// event is late.
func TestAnAddressTheCacheDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "IPAddress", time.Minute)
		p.Declare(New)
		p.Start()
		controltest.Create(p, cidr("a", "10.0.0.0/24"))
		time.Sleep(time.Minute)
		controltest.Create(p, address("10.0.0.7", allocator))
		remove(t, p, "a")
		time.Sleep(30 * time.Second)
		if got := names(p); !slices.Equal(got, []string{"a"}) {
			t.Errorf("got ServiceCIDRs %q", got)
		}
		release(t, p, "10.0.0.7")
		time.Sleep(2 * time.Minute)
		if got := names(p); len(got) > 0 {
			t.Errorf("got ServiceCIDRs %q", got)
		}
	})
}
