package devicetainteviction

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

const (
	marking    = "Marking for deletion"
	cancelling = "Cancelling deletion"
)

// taint returns a taint that is added now.
func taint(effect resourcev1.DeviceTaintEffect) resourcev1.DeviceTaint {
	now := metav1.Now()
	return resourcev1.DeviceTaint{Key: "k", Value: "v", Effect: effect, TimeAdded: &now}
}

func noExecute() resourcev1.DeviceTaint { return taint(resourcev1.DeviceTaintEffectNoExecute) }

// slice returns a slice of a pool with the devices "gpu", which has taints, and "spare".
func slice(name string, generation int64, taints ...resourcev1.DeviceTaint) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.Pool = "driver", resourcev1.ResourcePool{Name: "pool", Generation: generation, ResourceSliceCount: 1}
	s.Spec.Devices = []resourcev1.Device{{Name: "gpu", Taints: taints}, {Name: "spare"}}
	return s
}

// rule returns a rule that taints all devices of the driver.
func rule(effect resourcev1.DeviceTaintEffect) *resourcev1.DeviceTaintRule {
	r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule", UID: "rule", Generation: 1}}
	r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: new("driver")}
	r.Spec.Taint = taint(effect)
	return r
}

// claim returns a claim of the device "gpu", reserved for the pod of its name.
func claim(name string, tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: "r", Driver: "driver", Pool: "pool", Device: "gpu", Tolerations: tolerations,
		}},
	}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID(name)}}
	return c
}

// tolerates returns a toleration of NoExecute taints for some seconds, or for ever if they are negative.
func tolerates(seconds int64) resourcev1.DeviceToleration {
	t := resourcev1.DeviceToleration{Key: "k", Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}
	if seconds >= 0 {
		t.TolerationSeconds = &seconds
	}
	return t
}

// pod returns a running pod with the claim of its name.
func pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = "n", new(int64)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}
	p.Status.Phase = corev1.PodRunning
	return p
}

func run(t *testing.T, p *controltest.Plane) *controltest.Plane {
	t.Helper()
	p.Allow("get list watch delete /pods", "patch update /pods/status", "patch update resource.k8s.io/devicetaintrules/status", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

func left(p *controltest.Plane) (names []string) {
	for _, pod := range controltest.List[*corev1.Pod](p) {
		names = append(names, pod.Name)
	}
	return names
}

func wantEvents(t *testing.T, p *controltest.Plane, want ...string) {
	t.Helper()
	settle()
	if got := p.Events(reason); !slices.Equal(got, want) {
		t.Errorf("Events %q, want %q", got, want)
	}
}

// TestWhoMustGo checks which pods leave at once when their device has a taint.
func TestWhoMustGo(t *testing.T) {
	changed := func(c *resourcev1.ResourceClaim, change func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		change(c)
		return c
	}
	unscheduled, made := pod("p"), pod("p")
	unscheduled.Spec.NodeName = ""
	made.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: new("t")}}
	made.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: new("p")}}
	own := func(c *resourcev1.ResourceClaim) {
		yes := true
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: &yes}}
	}
	wrong := tolerates(-1)
	wrong.Effect = resourcev1.DeviceTaintEffectNoSchedule
	tainted := slice("s", 1, noExecute())
	for name, tt := range map[string]struct {
		slices []*resourcev1.ResourceSlice
		rule   *resourcev1.DeviceTaintRule
		claim  *resourcev1.ResourceClaim
		pod    *corev1.Pod
		goes   bool
	}{
		"the device has a taint":                    {[]*resourcev1.ResourceSlice{tainted}, nil, claim("p"), pod("p"), true},
		"no NoExecute taint":                        {[]*resourcev1.ResourceSlice{slice("s", 1, taint(resourcev1.DeviceTaintEffectNoSchedule))}, nil, claim("p"), pod("p"), false},
		"a rule":                                    {nil, rule(resourcev1.DeviceTaintEffectNoExecute), claim("p"), pod("p"), true},
		"a rule without effect":                     {nil, rule(resourcev1.DeviceTaintEffectNone), claim("p"), pod("p"), false},
		"the slice is outdated":                     {[]*resourcev1.ResourceSlice{slice("t", 2), tainted}, nil, claim("p"), pod("p"), false},
		"it is in the newest slice":                 {[]*resourcev1.ResourceSlice{slice("a", 1), slice("s", 2, noExecute())}, nil, claim("p"), pod("p"), true},
		"it is tolerated":                           {[]*resourcev1.ResourceSlice{tainted}, nil, claim("p", tolerates(-1)), pod("p"), false},
		"it is tolerated for a while":               {[]*resourcev1.ResourceSlice{tainted}, nil, claim("p", tolerates(60)), pod("p"), false},
		"it is tolerated for no time":               {[]*resourcev1.ResourceSlice{tainted}, nil, claim("p", tolerates(0)), pod("p"), true},
		"another effect is tolerated":               {[]*resourcev1.ResourceSlice{tainted}, nil, claim("p", wrong), pod("p"), true},
		"the claim has another device":              {[]*resourcev1.ResourceSlice{tainted}, nil, changed(claim("p"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "spare" }), pod("p"), false},
		"the claim has a device of another pool":    {[]*resourcev1.ResourceSlice{tainted}, nil, changed(claim("p"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Pool = "other" }), pod("p"), false},
		"the claim has no devices":                  {[]*resourcev1.ResourceSlice{tainted}, nil, changed(claim("p"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }), pod("p"), false},
		"the claim is reserved for another pod":     {[]*resourcev1.ResourceSlice{tainted}, nil, changed(claim("p"), func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "q" }), pod("p"), false},
		"the pod is not scheduled":                  {[]*resourcev1.ResourceSlice{tainted}, nil, claim("p"), unscheduled, false},
		"the claim was made for the pod":            {[]*resourcev1.ResourceSlice{tainted}, nil, changed(claim("p"), own), made, true},
		"the claim was not made for it, as it says": {[]*resourcev1.ResourceSlice{tainted}, nil, claim("p"), made, false},
	} {
		for _, order := range []string{"the taint first", "the pod first"} {
			t.Run(name+", "+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := run(t, controltest.New(t))
					devices := func() {
						now := metav1.Now() // The test's clock is not that of the table.
						for _, s := range tt.slices {
							for i := range s.Spec.Devices[0].Taints {
								s.Spec.Devices[0].Taints[i].TimeAdded = &now
							}
							p.Load(s)
						}
						if tt.rule != nil {
							tt.rule.Spec.Taint.TimeAdded = &now
							p.Load(tt.rule)
						}
						settle()
					}
					if order == "the taint first" {
						devices()
					}
					p.Load(tt.claim)
					settle()
					p.Load(tt.pod)
					settle()
					if order == "the pod first" {
						devices()
					}
					if goes := len(left(p)) == 0; goes != tt.goes {
						t.Errorf("it goes: %v, want %v", goes, tt.goes)
					}
				})
			})
		}
	}
}

// TestTolerationSeconds checks the time of a deletion, and what the pod and the metrics say of it.
func TestTolerationSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		p := controltest.New(t, slice("s", 1))
		p.Config.Registerer = registry
		run(t, p)
		slow := pod("p")
		slow.Spec.TerminationGracePeriodSeconds = new(int64(30))
		p.Load(claim("p", tolerates(60), tolerates(100)), slow, claim("q", tolerates(70)), pod("q"))
		settle()
		p.Load(slice("s", 1, noExecute()))
		time.Sleep(58 * time.Second)
		wantEvents(t, p)
		time.Sleep(3 * time.Second)
		got := controltest.Get[*corev1.Pod](p, "default", "p")
		c := podstate.Condition(got, corev1.DisruptionTarget)
		if got.DeletionTimestamp == nil || c == nil || c.Status != corev1.ConditionTrue || c.Reason != "DeletionByDeviceTaintManager" ||
			c.Message != "Device Taint manager: deleting due to NoExecute taint" {
			t.Errorf("the pod is deleted at %v with the condition %+v", got.DeletionTimestamp, c)
		}
		wantEvents(t, p, marking)
		time.Sleep(10 * time.Second)
		if names := left(p); !slices.Equal(names, []string{"p"}) {
			t.Errorf("the pods %v are left", names)
		}
		found := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			m := family.GetMetric()[0]
			found[family.GetName()] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		for _, name := range []string{"pod_deletions_total", "pod_deletion_duration_seconds"} {
			if n := found["device_taint_eviction_controller_"+name]; n != 2 {
				t.Errorf("%s counts %v", name, n)
			}
		}
	})
}

// TestPlansAreCancelled checks that a deletion that was planned is dropped with an Event.
func TestPlansAreCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(p *controltest.Plane)
		events []string
	}{
		"the driver removes the taint": {func(p *controltest.Plane) {
			controltest.Change(p, "", "s", func(s *resourcev1.ResourceSlice) { s.Spec.Devices[0].Taints = nil })
		}, []string{cancelling}},
		"a newer slice has no taint": {func(p *controltest.Plane) { p.Load(slice("t", 2)) }, []string{cancelling}},
		"the slice is deleted": {func(p *controltest.Plane) {
			p.Remove(controltest.Get[*resourcev1.ResourceSlice](p, "", "s"))
		}, []string{cancelling}},
		"the claim is freed": {func(p *controltest.Plane) {
			controltest.SetStatus(p, "default", "p", func(c *resourcev1.ResourceClaim) { c.Status = resourcev1.ResourceClaimStatus{} })
		}, []string{cancelling}},
		"a rule comes": {func(p *controltest.Plane) {
			r := rule(resourcev1.DeviceTaintEffectNoExecute)
			r.Spec.Taint.Key = "other"
			p.Load(r)
		}, []string{marking}},
		"the pod is deleted": {func(p *controltest.Plane) {
			p.Remove(controltest.Get[*corev1.Pod](p, "default", "p"))
		}, nil},
		"nothing happens": {func(*controltest.Plane) { time.Sleep(2 * time.Minute) }, []string{marking}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := run(t, controltest.New(t, slice("s", 1, noExecute())))
				p.Load(claim("p", tolerates(100)))
				settle()
				p.Load(pod("p"))
				time.Sleep(30 * time.Second)
				wantEvents(t, p)
				tt.change(p)
				wantEvents(t, p, tt.events...)
				time.Sleep(5 * time.Minute)
				wantEvents(t, p, tt.events...)
				if stays := slices.Equal(tt.events, []string{cancelling}); stays != (len(left(p)) == 1) {
					t.Errorf("the pod stays: %v, want %v", !stays, stays)
				}
			})
		})
	}
}

// TestASecondTermTakesUp checks that a deletion happens in time though another replica has taken over.
func TestASecondTermTakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, slice("s", 1, noExecute()), claim("p", tolerates(100)), pod("p"), rule(resourcev1.DeviceTaintEffectNone))
		runner := p.Runner(New)
		p.Start()
		for i, wait := range []time.Duration{50 * time.Second, 45 * time.Second, 10 * time.Second} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx) }()
			time.Sleep(wait)
			if stays := len(left(p)) == 1; stays != (i < 2) {
				t.Errorf("in term %d the pod stays: %v", i, stays)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestALateCacheMarksOnce checks that a pod is marked for deletion once though the controller sees late that
// it was.
func TestALateCacheMarksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, controltest.NewLate(t, "Pod", 3*time.Second, slice("s", 1), claim("p")))
		slow := pod("p")
		slow.Spec.TerminationGracePeriodSeconds = new(int64(600))
		p.Load(slow)
		time.Sleep(10 * time.Second)
		for i := range 3 {
			p.Load(slice("s", int64(i+2), noExecute()))
			settle()
		}
		time.Sleep(time.Minute)
		wantEvents(t, p, marking)
	})
}

// TestDepartures checks the times of tolerations that are at their bounds.
func TestDepartures(t *testing.T) {
	now := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	for i, tt := range []struct {
		seconds []int64
		want    time.Duration
	}{{nil, 0}, {[]int64{-5}, 0}, {[]int64{30, 20, 40}, 20 * time.Second}, {[]int64{1 << 62}, longest}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			var tolerations []resourcev1.DeviceToleration
			for _, s := range tt.seconds {
				toleration := tolerates(0)
				toleration.TolerationSeconds = &s
				tolerations = append(tolerations, toleration)
			}
			added := resourcev1.DeviceTaint{Key: "k", Effect: resourcev1.DeviceTaintEffectNoExecute, TimeAdded: &now}
			if leaves, at := departure(&added, tolerations); !leaves || at.Sub(now.Time) != tt.want {
				t.Errorf("leaves %v after %v, want %v", leaves, at.Sub(now.Time), tt.want)
			}
			added.TimeAdded = nil
			if leaves, _ := departure(&added, tolerations); leaves {
				t.Error("a taint without a time drives off")
			}
		})
	}
}
