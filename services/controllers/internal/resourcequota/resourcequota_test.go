package resourcequota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// list parses resources such as "pods=3 requests.cpu=1".
func list(text string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for part := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(part, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return l
}

// text is the inverse of list.
func text(l corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		value := l[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, value.String()))
	}
	return strings.Join(parts, " ")
}

func limit(hard string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: list(hard)},
	}
}

func pod(name, requests string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(requests)}}}},
	}
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func start(t *testing.T, p *controltest.Plane) *controltest.Plane {
	t.Helper()
	p.Allow("list watch *", "update /resourcequotas/status", controltest.Events)
	p.Declare(func(d controller.Deps) *controller.Spec { return New(d, listwatch.New(p.Client, p.Config.Logger)) })
	p.Start()
	return p
}

func expect(t *testing.T, p *controltest.Plane, when, used string) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	q := controltest.Get[*corev1.ResourceQuota](p, "ns", "q")
	if got := text(q.Status.Used); got != used {
		t.Errorf("%s: got usage %q, want %q", when, got, used)
	}
	if text(q.Status.Hard) != text(q.Spec.Hard) {
		t.Errorf("%s: got the limits %q in the status, want the spec's %q", when, text(q.Status.Hard), text(q.Spec.Hard))
	}
}

func TestUsage(t *testing.T) {
	deadline := int64(60)
	service := func(name string, kind corev1.ServiceType) *corev1.Service {
		return &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 1}, {Port: 2}}}}
	}
	ended := pod("ended", "cpu=1")
	ended.Status.Phase = corev1.PodSucceeded
	limited := pod("limited", "cpu=1")
	limited.Spec.ActiveDeadlineSeconds = &deadline
	elsewhere := pod("elsewhere", "cpu=1")
	elsewhere.Namespace = "other"
	for name, test := range map[string]struct {
		hard   string
		change func(*corev1.ResourceQuotaSpec)
		objs   []scheme.Object
		want   string
	}{
		"nothing there":         {"pods=1 requests.cpu=1 count/secrets=2", nil, nil, "count/secrets=0 pods=0 requests.cpu=0"},
		"nothing limited":       {"", nil, []scheme.Object{pod("a", "")}, ""},
		"pods":                  {"pods=1 count/pods=9 requests.cpu=1 cpu=1 limits.cpu=1", nil, []scheme.Object{pod("a", "cpu=100m"), pod("b", "cpu=1900m"), ended, elsewhere}, "count/pods=3 cpu=2 limits.cpu=0 pods=2 requests.cpu=2"},
		"memory":                {"requests.memory=1", nil, []scheme.Object{pod("a", "memory=1Gi"), pod("b", "memory=512Mi")}, "requests.memory=1536Mi"},
		"an uncounted resource": {"pods=1 sheep=4", nil, []scheme.Object{pod("a", "")}, "pods=1"},
		"services":              {"services=9 services.nodeports=9 services.loadbalancers=9", nil, []scheme.Object{service("a", "ClusterIP"), service("b", "NodePort"), service("c", "LoadBalancer")}, "services=3 services.loadbalancers=1 services.nodeports=4"},
		"counted kinds":         {"count/deployments.apps=1 secrets=1 count/configmaps=1", nil, []scheme.Object{&appsv1.Deployment{ObjectMeta: meta("d")}, &corev1.Secret{ObjectMeta: meta("s")}, &corev1.Secret{ObjectMeta: meta("t")}}, "count/configmaps=0 count/deployments.apps=1 secrets=2"},
		"quotas":                {"resourcequotas=3", nil, nil, "resourcequotas=1"},
		"a scope": {"pods=3 requests.cpu=9", func(s *corev1.ResourceQuotaSpec) {
			s.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
		}, []scheme.Object{pod("a", "cpu=5"), limited}, "pods=1 requests.cpu=1"},
		"a scope without pods": {"pods=3", func(s *corev1.ResourceQuotaSpec) {
			s.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
		}, []scheme.Object{pod("a", "cpu=5")}, "pods=0"},
		"claims": {"persistentvolumeclaims=1 requests.storage=1", nil, []scheme.Object{&corev1.PersistentVolumeClaim{ObjectMeta: meta("c"), Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage=2Gi")},
		}}}, "persistentvolumeclaims=1 requests.storage=2Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, controltest.New(t, test.objs...))
				q := limit(test.hard)
				if test.change != nil {
					test.change(&q.Spec)
				}
				controltest.Create(p, q)
				expect(t, p, "at once", test.want)
				time.Sleep(20 * time.Minute)
				expect(t, p, "after some time", test.want)
				if n := len(p.Writes()); n > 2 {
					t.Errorf("got %d writes", n)
				}
			})
		})
	}
}

// charge charges the quota as the apiserver does before it writes an object; it returns false if
// the quota is exhausted.
func charge(p *controltest.Plane, delta string) bool {
	for {
		q, err := client.Of[*corev1.ResourceQuota](p.Client).Get(p.Context(), "ns", "q", metav1.GetOptions{})
		if err != nil {
			return false
		}
		for name, value := range list(delta) {
			used, known := q.Status.Used[name]
			hard, limited := q.Status.Hard[name]
			if !known || !limited {
				return false
			}
			if used.Add(value); used.Cmp(hard) > 0 {
				return false
			}
			q.Status.Used[name] = used
		}
		if _, err := client.Of[*corev1.ResourceQuota](p.Client).UpdateStatus(p.Context(), q, metav1.UpdateOptions{}); err == nil {
			return true
		}
	}
}

func TestWhatIsFreedIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, controltest.New(t))
		controltest.Create(p, limit("pods=5 requests.cpu=5 services.nodeports=5 requests.storage=9Gi count/secrets=5"))
		expect(t, p, "nothing", "count/secrets=0 pods=0 requests.cpu=0 requests.storage=0 services.nodeports=0")
		for _, name := range []string{"a", "b", "c"} {
			charge(p, "pods=1 requests.cpu=1")
			controltest.Create(p, pod(name, "cpu=1"))
		}
		charge(p, "services.nodeports=1")
		controltest.Create(p, &corev1.Service{ObjectMeta: meta("s"), Spec: corev1.ServiceSpec{Type: "NodePort", Ports: []corev1.ServicePort{{Port: 1}}}})
		charge(p, "count/secrets=1")
		secret := controltest.Create(p, &corev1.Secret{ObjectMeta: meta("x")})
		expect(t, p, "charged", "count/secrets=1 pods=3 requests.cpu=3 requests.storage=0 services.nodeports=1")
		controltest.SetStatus(p, "ns", "a", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		expect(t, p, "a pod failed", "count/secrets=1 pods=2 requests.cpu=2 requests.storage=0 services.nodeports=1")
		p.Remove(controltest.Get[*corev1.Pod](p, "ns", "b"))
		expect(t, p, "a pod is gone", "count/secrets=1 pods=1 requests.cpu=1 requests.storage=0 services.nodeports=1")
		controltest.Change(p, "ns", "s", func(s *corev1.Service) { s.Spec.Type = "ClusterIP" })
		expect(t, p, "no node port", "count/secrets=1 pods=1 requests.cpu=1 requests.storage=0 services.nodeports=0")
		p.Remove(secret)
		expect(t, p, "no secret", "count/secrets=0 pods=1 requests.cpu=1 requests.storage=0 services.nodeports=0")
		charge(p, "pods=1 requests.cpu=1") // One that comes and goes between two counts.
		p.Remove(controltest.Create(p, pod("short", "cpu=1")))
		expect(t, p, "came and went", "count/secrets=0 pods=1 requests.cpu=1 requests.storage=0 services.nodeports=0")
		controltest.Change(p, "ns", "q", func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods=9") })
		expect(t, p, "another limit", "pods=1")
	})
}

// TestChargesThatMayStillBeUsed checks that a count keeps the charge for an object that is still to
// come, and drops it when the object has not come.
func TestChargesThatMayStillBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, controltest.New(t))
		controltest.Create(p, limit("pods=5"))
		expect(t, p, "nothing", "pods=0")
		charge(p, "pods=1")
		old := controltest.Create(p, pod("old", ""))
		charge(p, "pods=2") // One of them comes later, the other one never.
		p.Remove(old)
		expect(t, p, "while two are to come", "pods=2")
		time.Sleep(50 * time.Second)
		controltest.Create(p, pod("late", ""))
		expect(t, p, "when one has come", "pods=2")
		time.Sleep(30 * time.Second)
		expect(t, p, "when the other cannot come any more", "pods=1")
	})
}

// TestALateCacheDropsNoCharge has a pod that was created just in time, but that the pod cache shows
// only when its charge could be dropped. A count at that time must read the current revision first.
func TestALateCacheDropsNoCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, controltest.NewLate(t, "Pod", 30*time.Second))
		controltest.Create(p, limit("pods=1"))
		time.Sleep(time.Minute)
		expect(t, p, "nothing", "pods=0")
		if !charge(p, "pods=1") {
			t.Fatal("charging the quota failed")
		}
		time.Sleep(settleTime - 5*time.Second)
		pod := controltest.Create(p, pod("late", ""))
		for range 120 {
			if charge(p, "pods=1") {
				t.Fatal("the quota allowed a second pod")
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		expect(t, p, "when the cache shows the pod", "pods=1")
		p.Remove(pod)
		time.Sleep(2 * time.Minute)
		expect(t, p, "when it is gone", "pods=0")
	})
}

// TestALateQuotaIsWaitedFor has pods that are gone before the quota cache shows their charges.
// Their deletion must not use up the charges for pods that are still to come.
func TestALateQuotaIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, controltest.NewLate(t, "ResourceQuota", 2*time.Second))
		controltest.Create(p, limit("pods=5"))
		time.Sleep(10 * time.Second)
		expect(t, p, "nothing", "pods=0")
		for _, name := range []string{"a", "b"} {
			charge(p, "pods=1")
			p.Remove(controltest.Create(p, pod(name, "")))
			time.Sleep(10 * time.Second)
			expect(t, p, name+" came and went", "pods=0")
		}
		charge(p, "pods=2") // One of them comes later.
		p.Remove(controltest.Create(p, pod("c", "")))
		time.Sleep(10 * time.Second)
		expect(t, p, "one is to come", "pods=1")
	})
}

func TestANewLeaderTrustsCharges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit("pods=9")
		q.Status = corev1.ResourceQuotaStatus{Hard: list("pods=9"), Used: list("pods=4")}
		p := start(t, controltest.New(t, q, pod("a", ""), pod("b", "")))
		expect(t, p, "at first", "pods=4")
		p.Remove(controltest.Get[*corev1.Pod](p, "ns", "a"))
		expect(t, p, "one is gone", "pods=3")
		time.Sleep(80 * time.Second)
		expect(t, p, "in the end", "pods=1")
	})
}

func TestWrongStatusesAreCorrected(t *testing.T) {
	for name, status := range map[string]corev1.ResourceQuotaStatus{
		"none":               {},
		"too little":         {Hard: list("pods=9"), Used: list("pods=1")},
		"too much":           {Hard: list("pods=9"), Used: list("pods=8")},
		"an old limit":       {Hard: list("pods=3"), Used: list("pods=2")},
		"another limit":      {Hard: list("secrets=9"), Used: list("secrets=1")},
		"no usage":           {Hard: list("pods=9")},
		"a foreign resource": {Hard: list("pods=9"), Used: list("pods=2 secrets=3")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := limit("pods=9")
				q.Status = status
				p := start(t, controltest.New(t, q, pod("a", ""), pod("b", "")))
				time.Sleep(2 * time.Minute)
				expect(t, p, "in the end", "pods=2")
			})
		})
	}
}

func TestRecountsEveryFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, controltest.New(t))
		controltest.Create(p, limit("pods=9"))
		expect(t, p, "nothing", "pods=0")
		controltest.SetStatus(p, "ns", "q", func(q *corev1.ResourceQuota) { q.Status.Used = list("pods=7") })
		expect(t, p, "written by another client", "pods=7")
		time.Sleep(7 * time.Minute)
		expect(t, p, "later", "pods=0")
	})
}

func TestAQuotaThatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, controltest.New(t, pod("a", "")))
		old := controltest.Create(p, limit("pods=9"))
		expect(t, p, "the first", "pods=1")
		charge(p, "pods=5")
		p.Remove(old)
		controltest.Create(p, limit("pods=2"))
		expect(t, p, "the second", "pods=1")
	})
}

// TestAWriteWhoseAnswerIsLost checks that a write that succeeded, though it seemed to fail, is not
// mistaken for charges that were given back.
func TestAWriteWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, controltest.New(t))
		controltest.Create(p, limit("pods=5"))
		expect(t, p, "nothing", "pods=0")
		for _, name := range []string{"a", "b"} {
			charge(p, "pods=1")
			controltest.Create(p, pod(name, ""))
		}
		charge(p, "pods=1") // Its pod comes later.
		// The controller must have seen that charge: otherwise its write conflicts, and fails.
		expect(t, p, "two are there, one is to come", "pods=3")
		p.Fail(func(call client.Call) error {
			if call.Subresource != "status" {
				return nil
			}
			p.Fail(nil)
			if err := p.Do(p.Context(), call, nil); err != nil {
				t.Errorf("writing the status: %v", err)
			}
			return errors.New("the connection broke")
		})
		p.Remove(controltest.Get[*corev1.Pod](p, "ns", "a"))
		expect(t, p, "one is gone, one is to come", "pods=2")
		p.Remove(controltest.Get[*corev1.Pod](p, "ns", "b"))
		expect(t, p, "both are gone", "pods=1")
		controltest.Create(p, pod("late", ""))
		time.Sleep(2 * time.Minute)
		expect(t, p, "in the end", "pods=1")
	})
}
