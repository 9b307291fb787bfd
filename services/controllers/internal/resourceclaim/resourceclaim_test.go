package resourceclaim

import (
	"slices"
	"strings"
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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settle() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// fromTemplate and fromClaim are the claims of a pod.
func fromTemplate(name string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: new("template")}
}

func fromClaim(name, claim string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: name, ResourceClaimName: &claim}
}

func aPod(claims ...corev1.PodResourceClaim) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}}
	p.Spec.ResourceClaims, p.Status.Phase = claims, corev1.PodPending
	return p
}

func aTemplate() *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "template"}}
	t.Spec.Labels, t.Spec.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
		Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpus"},
	}}
	return t
}

// aClaim returns a claim, allocated and protected, with reservations of pods with some UIDs.
func aClaim(name string, pods ...types.UID) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	c.Finalizers = []string{resourcev1.Finalizer}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, uid := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			Resource: "pods", Name: strings.TrimSuffix(string(uid), "-uid"), UID: uid,
		})
	}
	return c
}

// owned makes a pod the owner of a claim that was made for it.
func owned(c *resourcev1.ResourceClaim, of string) *resourcev1.ResourceClaim {
	yes := true
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "web-uid", Controller: &yes}}
	c.Annotations = map[string]string{resourcev1.PodResourceClaimAnnotation: of}
	return c
}

// named adds the name of a claim to a pod's status.
func named(pod *corev1.Pod, of, claim string) *corev1.Pod {
	pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{
		Name: of, ResourceClaimName: &claim,
	})
	return pod
}

func run(t *testing.T, p *controltest.Plane) *controltest.Plane {
	t.Helper()
	p.Allow("get list watch /pods", "update patch /pods/status", "get list watch create delete update patch resource.k8s.io/resourceclaims",
		"update patch resource.k8s.io/resourceclaims/status", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

func claims(p *controltest.Plane) []*resourcev1.ResourceClaim {
	return controltest.List[*resourcev1.ResourceClaim](p)
}

func statuses(p *controltest.Plane) map[string]string {
	found := map[string]string{}
	for _, s := range controltest.Get[*corev1.Pod](p, "default", "web").Status.ResourceClaimStatuses {
		found[s.Name] = *s.ResourceClaimName
	}
	return found
}

// TestAClaimFromATemplate checks what a claim is made of, that it is made once, and again when it is deleted.
func TestAClaimFromATemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "ResourceClaim", 3*time.Second)
		p.Load(aTemplate())
		run(t, p)
		settle()
		pod := aPod(fromTemplate("gpu"), fromClaim("shared", "mine"))
		p.Load(pod)
		settle()
		made := claims(p)
		if len(made) != 1 {
			t.Fatalf("%d claims, want 1", len(made))
		}
		c := made[0]
		if !strings.HasPrefix(c.Name, "web-gpu-") || !metav1.IsControlledBy(c, pod) || c.OwnerReferences[0].BlockOwnerDeletion != nil ||
			c.Labels["a"] != "b" || c.Annotations["c"] != "d" || c.Annotations["resource.kubernetes.io/pod-claim-name"] != "gpu" ||
			c.Spec.Devices.Requests[0].Exactly.DeviceClassName != "gpus" {
			t.Errorf("the claim is %+v", c)
		}
		if got := statuses(p); len(got) != 1 || got["gpu"] != c.Name {
			t.Errorf("the pod names %v", got)
		}
		if annotations := controltest.Get[*resourcev1.ResourceClaimTemplate](p, "default", "template").Spec.Annotations; len(annotations) != 1 {
			t.Errorf("the template has the annotations %v", annotations)
		}
		p.Remove(c)
		settle()
		made = claims(p)
		if len(made) != 1 || made[0].Name == c.Name || statuses(p)["gpu"] != made[0].Name {
			t.Errorf("after a deletion there are %d claims, and the pod names %v", len(made), statuses(p))
		}
	})
}

// TestAnEndedPodGetsNoClaimAnew checks that the claim of a pod that has ended goes, and stays away.
func TestAnEndedPodGetsNoClaimAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Load(aTemplate())
		run(t, p)
		settle()
		p.Load(aPod(fromTemplate("gpu")))
		settle()
		if n := len(claims(p)); n != 1 {
			t.Fatalf("%d claims of a pod that runs, want 1", n)
		}
		named := statuses(p)["gpu"]
		controltest.SetStatus(p, "default", "web", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
		time.Sleep(time.Minute)
		synctest.Wait()
		if made, got := claims(p), statuses(p)["gpu"]; len(made) != 0 || got != named {
			t.Errorf("%d claims after the end, and the pod names %q, want none and %q", len(made), got, named)
		}
	})
}

// TestClaimsOfAPod checks what is done for a pod with claims that exist, or do not.
func TestClaimsOfAPod(t *testing.T) {
	deleted := aPod(fromTemplate("gpu"))
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/stay"}
	foreign := aClaim("foreign")
	for name, tt := range map[string]struct {
		pod       *corev1.Pod
		claim     *resourcev1.ResourceClaim
		count     int
		named     string // what the pod's status names for gpu; the first of those made if "new"
		noWarning bool
	}{
		"an orphan is used":                        {aPod(fromTemplate("gpu")), owned(aClaim("orphan"), "gpu"), 1, "orphan", true},
		"an orphan of another claim is not":        {aPod(fromTemplate("gpu")), owned(aClaim("orphan"), "nic"), 2, "new", true},
		"a claim of the same name is not":          {aPod(fromTemplate("gpu")), foreign, 2, "new", true},
		"the claim exists":                         {named(aPod(fromTemplate("gpu")), "gpu", "ours"), owned(aClaim("ours"), "gpu"), 1, "ours", true},
		"somebody else's claim is in the way":      {named(aPod(fromTemplate("gpu")), "gpu", "foreign"), foreign, 1, "foreign", true},
		"the pod is being deleted":                 {deleted, foreign, 1, "", true},
		"the user creates the claim":               {aPod(fromClaim("gpu", "later")), foreign, 1, "", true},
		"the claim is not needed":                  {withoutClaim(aPod(fromTemplate("gpu"))), foreign, 1, "", true},
		"one claim is there, the other is to come": {named(aPod(fromTemplate("nic"), fromTemplate("gpu")), "nic", "ours"), owned(aClaim("ours"), "nic"), 2, "new", true},
		"the template is missing":                  {aPod(corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("absent")}), foreign, 1, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t, aTemplate(), tt.claim)
				run(t, p)
				settle()
				p.Load(tt.pod)
				settle()
				made := claims(p)
				if len(made) != tt.count {
					t.Errorf("%d claims, want %d", len(made), tt.count)
				}
				want := tt.named
				if i := slices.IndexFunc(made, func(c *resourcev1.ResourceClaim) bool { return c.Name != tt.claim.Name }); want == "new" && i >= 0 {
					want = made[i].Name
				}
				if got := named1(p, "gpu"); got != want {
					t.Errorf("the pod names %q, want %q", got, want)
				}
				warnings := p.Events("FailedResourceClaimCreation")
				text := `PodResourceClaim gpu: resource claim template "absent": resourceclaimtemplate.resource.k8s.io "absent" not found`
				if tt.noWarning && len(warnings) > 0 || !tt.noWarning && !slices.Contains(warnings, text) {
					t.Errorf("Events %q", warnings)
				}
			})
		})
	}
}

// withoutClaim marks the first claim of a pod as not needed.
func withoutClaim(pod *corev1.Pod) *corev1.Pod {
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: pod.Spec.ResourceClaims[0].Name}}
	return pod
}

func named1(p *controltest.Plane, of string) string {
	for _, s := range controltest.Get[*corev1.Pod](p, "default", "web").Status.ResourceClaimStatuses {
		if s.Name == of && s.ResourceClaimName != nil {
			return *s.ResourceClaimName
		}
	}
	return ""
}

// TestATemplateThatComesLater checks that a pod need not wait for the next try.
func TestATemplateThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, controltest.New(t))
		p.Load(aPod(fromTemplate("gpu")))
		time.Sleep(10 * time.Minute)
		other := aTemplate()
		other.Namespace = "elsewhere"
		p.Load(other)
		time.Sleep(time.Second)
		if got := len(claims(p)); got != 0 {
			t.Fatalf("%d claims, want none", got)
		}
		p.Load(aTemplate())
		time.Sleep(time.Second)
		if got := len(claims(p)); got != 1 {
			t.Errorf("%d claims, want 1", got)
		}
	})
}

// TestReservations checks which pods reserve their claims by this controller.
func TestReservations(t *testing.T) {
	on := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.NodeName = "n"
		return pod
	}
	free := aClaim("c")
	free.Status.Allocation = nil
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		claim *resourcev1.ResourceClaim
		want  int
	}{
		"the pod has a node":       {on(aPod(fromClaim("gpu", "c"))), aClaim("c"), 1},
		"it was made for the pod":  {on(named(aPod(fromTemplate("gpu")), "gpu", "c")), owned(aClaim("c"), "gpu"), 1},
		"the pod has no node":      {aPod(fromClaim("gpu", "c")), aClaim("c"), 0},
		"it is reserved":           {on(aPod(fromClaim("gpu", "c"))), aClaim("c", "web-uid"), 1},
		"it is reserved for other": {on(aPod(fromClaim("gpu", "c"))), aClaim("c", "other-uid"), 2},
		"it has no devices":        {on(aPod(fromClaim("gpu", "c"))), free, 0},
		"it is made for another":   {on(named(aPod(fromTemplate("gpu")), "gpu", "c")), aClaim("c"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := aPod()
				other.Name, other.UID = "other", "other-uid"
				p := run(t, controltest.New(t, other, tt.pod))
				settle()
				p.Load(tt.claim)
				settle()
				got := controltest.Get[*resourcev1.ResourceClaim](p, "default", "c").Status.ReservedFor
				if len(got) != tt.want {
					t.Fatalf("reserved for %v, want %d", got, tt.want)
				}
				want := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "web", UID: "web-uid"}
				if tt.want > 0 && got[tt.want-1] != want {
					t.Errorf("reserved for %v", got)
				}
			})
		})
	}
}

// TestNamesOfClaims checks that long names are shortened in proportion.
func TestNamesOfClaims(t *testing.T) {
	for _, tt := range []struct{ pod, claim, want string }{
		{"web", "gpu", "web-gpu-"},
		{strings.Repeat("p", 40), strings.Repeat("c", 15), strings.Repeat("p", 40) + "-" + strings.Repeat("c", 15) + "-"},
		{strings.Repeat("p", 253), strings.Repeat("c", 63), strings.Repeat("p", 45) + "-" + strings.Repeat("c", 11)},
		{"p", strings.Repeat("c", 63), "-" + strings.Repeat("c", 54)},
	} {
		if got := prefix(tt.pod, tt.claim); got != tt.want {
			t.Errorf("%s and %s: %q, want %q", tt.pod, tt.claim, got, tt.want)
		}
	}
}

// TestMetrics checks the numbers of claims and of their creations.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		extended, template := aClaim("extended"), aTemplate()
		extended.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		template.Spec.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
		p := controltest.New(t, template, extended, aClaim("mine"))
		p.Config.Registerer = registry
		run(t, p)
		p.Load(aPod(fromTemplate("gpu")))
		settle()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, family := range families {
			if !strings.HasPrefix(family.GetName(), "dynamic_resource_allocation_") {
				continue
			}
			for _, m := range family.GetMetric() {
				line := strings.TrimPrefix(family.GetName(), "dynamic_resource_allocation_")
				for _, l := range m.GetLabel() {
					line += " " + l.GetValue()
				}
				if m.GetGauge().GetValue()+m.GetCounter().GetValue() == 1 {
					got = append(got, line)
				}
			}
		}
		slices.Sort(got)
		want := []string{ // labels sorted by name
			"resource_claims false true ", "resource_claims false true extended_resource", "resource_claims true false resource_claim_template",
			"resourceclaim_creates_total true  Pod success",
		}
		if !slices.Equal(got, want) {
			t.Errorf("metrics %q, want %q", got, want)
		}
	})
}
