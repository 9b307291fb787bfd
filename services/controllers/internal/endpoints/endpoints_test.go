package endpoints

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs the controller, inside a bubble, with the rights of its role.
func start(t *testing.T, p *controltest.Plane) {
	t.Helper()
	p.Allow("get list watch create update delete /endpoints", controltest.Events)
	p.Declare(New)
	p.Start()
}

// settle lets everything happen that happens within three seconds.
func settle() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

func service(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"team": "x"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, f := range change {
		f(svc)
	}
	return svc
}

func pod(n int, change ...func(*corev1.Pod)) *corev1.Pod {
	ip := fmt.Sprintf("10.1.%d.%d", n/250, n%250+1)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("web-%d", n), UID: types.UID(fmt.Sprint(n)), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{
			Name: "c", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: int32(9090 + n%2), Protocol: corev1.ProtocolTCP}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}, {IP: fmt.Sprintf("fd00::%x", n+1)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

// describe returns subsets as text: addresses, those that are not ready after a slash, and ports.
func describe(all []corev1.EndpointSubset) string {
	var texts []string
	for _, subset := range all {
		var words []string
		for _, address := range subset.Addresses {
			words = append(words, strings.TrimSuffix(address.IP+" "+address.Hostname, " "))
		}
		for _, address := range subset.NotReadyAddresses {
			words = append(words, "/"+address.IP)
		}
		for _, port := range subset.Ports {
			words = append(words, fmt.Sprintf("%s:%d", port.Name, port.Port))
		}
		texts = append(texts, strings.Join(words, " "))
	}
	return strings.Join(texts, "; ")
}

func TestEndpoints(t *testing.T) {
	publish := func(svc *corev1.Service) { svc.Spec.PublishNotReadyAddresses = true }
	terminating := func(p *corev1.Pod) {
		now := metav1.Now()
		p.DeletionTimestamp, p.Finalizers = &now, []string{"example.com/hold"}
	}
	for name, test := range map[string]struct {
		pods    []*corev1.Pod
		service func(*corev1.Service)
		want    string
	}{
		"no pods":                {nil, nil, ""},
		"two pods":               {[]*corev1.Pod{pod(1), pod(2)}, nil, "10.1.0.2 10.1.0.3 http:8080"},
		"one is not ready":       {[]*corev1.Pod{pod(1), pod(2, unready)}, nil, "10.1.0.2 /10.1.0.3 http:8080"},
		"published":              {[]*corev1.Pod{pod(1), pod(2, unready)}, publish, "10.1.0.2 10.1.0.3 http:8080"},
		"terminating":            {[]*corev1.Pod{pod(1, terminating)}, nil, ""},
		"terminating, published": {[]*corev1.Pod{pod(1, terminating)}, publish, "10.1.0.2 http:8080"},
		"ended":                  {[]*corev1.Pod{pod(1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, nil, ""},
		"of another app":         {[]*corev1.Pod{pod(1, func(p *corev1.Pod) { p.Labels["app"] = "db" })}, nil, ""},
		"IPv6": {
			[]*corev1.Pod{pod(1)}, func(svc *corev1.Service) { svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }, "fd00::2 http:8080",
		},
		"only the first of both families": {
			[]*corev1.Pod{pod(1)},
			func(svc *corev1.Service) { svc.Spec.IPFamilies = []corev1.IPFamily{"IPv4", "IPv6"} }, "10.1.0.2 http:8080",
		},
		"no family is named": {
			[]*corev1.Pod{pod(1)}, func(svc *corev1.Service) { svc.Spec.IPFamilies, svc.Spec.ClusterIP = nil, "fd01::1" }, "fd00::2 http:8080",
		},
		"ports by name": {
			[]*corev1.Pod{pod(1), pod(2)}, func(svc *corev1.Service) { svc.Spec.Ports[0].TargetPort = intstr.FromString("metrics") },
			"10.1.0.3 http:9090; 10.1.0.2 http:9091",
		},
		"a name that no pod has": {
			[]*corev1.Pod{pod(1)}, func(svc *corev1.Service) { svc.Spec.Ports[0].TargetPort = intstr.FromString("x") }, "",
		},
		"two ports": {
			[]*corev1.Pod{pod(1)}, func(svc *corev1.Service) {
				svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "a", Port: 1, TargetPort: intstr.FromInt32(1)})
			}, "10.1.0.2 a:1 http:8080",
		},
		"headless without ports": {
			[]*corev1.Pod{pod(1, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "one", "web" })},
			func(svc *corev1.Service) { svc.Spec.Ports, svc.Spec.ClusterIP = nil, corev1.ClusterIPNone }, "10.1.0.2 one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t)
				for _, pod := range test.pods {
					p.Load(pod)
				}
				start(t, p)
				svc := service()
				if test.service != nil {
					test.service(svc)
				}
				controltest.Create(p, svc)
				settle()
				got := controltest.Get[*corev1.Endpoints](p, "default", "web")
				if text := describe(got.Subsets); text != test.want {
					t.Errorf("got %q, want %q", text, test.want)
				}
				want := map[string]string{"team": "x", labelManagedBy: "endpoint-controller"}
				if svc.Spec.ClusterIP == corev1.ClusterIPNone {
					want[corev1.IsHeadlessService] = ""
				}
				if !maps.Equal(got.Labels, want) {
					t.Errorf("got labels %v, want %v", got.Labels, want)
				}
				p.ClearCalls()
				time.Sleep(time.Hour)
				if n := len(p.Writes()); n > 0 {
					t.Errorf("got %d writes without a change", n)
				}
			})
		})
	}
}

func TestServicesWithoutASelectorAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, pod(1))
		start(t, p)
		settle()
		controltest.Create(p, service(func(svc *corev1.Service) { svc.Spec.Selector = nil }))
		controltest.Create(p, &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}},
		})
		settle()
		if got := controltest.Get[*corev1.Endpoints](p, "default", "web"); describe(got.Subsets) != "192.0.2.1" || len(got.Labels) > 0 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestADeletedServiceTakesItsEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, pod(1))
		start(t, p)
		svc := controltest.Create(p, service())
		settle()
		p.Remove(controltest.Get[*corev1.Endpoints](p, "default", "web"))
		settle()
		if got := controltest.Get[*corev1.Endpoints](p, "default", "web"); len(got.Subsets) != 1 {
			t.Errorf("Endpoints that were deleted are not made anew: %+v", got)
		}
		if err := client.Of[*corev1.Service](p.Client).Delete(t.Context(), "default", svc.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if all := controltest.List[*corev1.Endpoints](p); len(all) > 0 {
			t.Errorf("got %+v", all)
		}
	})
}

// TestLeftovers checks Endpoints whose Service was deleted while no controller ran.
func TestLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := func(name string, annotations map[string]string) *corev1.Endpoints {
			return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations}}
		}
		p := controltest.New(t, old("gone", nil), old("leader", map[string]string{leaderAnnotation: "{}"}))
		time.Sleep(time.Minute)
		start(t, p)
		settle()
		controltest.Create(p, old("new", nil))
		settle()
		var names []string
		for _, e := range controltest.List[*corev1.Endpoints](p) {
			names = append(names, e.Name)
		}
		if !slices.Equal(names, []string{"leader", "new"}) {
			t.Errorf("got Endpoints %q, want leader and new", names)
		}
	})
}

func TestOverCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		for n := range 1100 {
			p.Load(pod(n))
		}
		start(t, p)
		settle()
		controltest.Create(p, service())
		settle()
		got := controltest.Get[*corev1.Endpoints](p, "default", "web")
		if n := len(got.Subsets[0].Addresses); n != 1000 || got.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
			t.Errorf("got %d addresses, annotations %v", n, got.Annotations)
		}
		for n := 500; n < 1100; n++ {
			p.Remove(pod(n))
		}
		settle()
		got = controltest.Get[*corev1.Endpoints](p, "default", "web")
		if _, marked := got.Annotations[corev1.EndpointsOverCapacity]; marked || len(got.Subsets[0].Addresses) != 500 {
			t.Errorf("got %d addresses, annotations %v", len(got.Subsets[0].Addresses), got.Annotations)
		}
	})
}

// TestTruncate has how many addresses of each subset remain, those that are not ready last.
func TestTruncate(t *testing.T) {
	for name, test := range map[string]struct{ in, want [][2]int }{
		"room":                     {[][2]int{{600, 400}}, [][2]int{{600, 400}}},
		"too many":                 {[][2]int{{1001, 0}}, [][2]int{{1000, 0}}},
		"those that are not ready": {[][2]int{{800, 400}}, [][2]int{{800, 200}}},
		"in proportion":            {[][2]int{{1000, 5}, {500, 5}, {500, 5}}, [][2]int{{500, 0}, {250, 0}, {250, 0}}},
		"not ready in proportion":  {[][2]int{{500, 500}, {0, 500}}, [][2]int{{500, 250}, {0, 250}}},
		"rounded up":               {[][2]int{{334, 0}, {334, 0}, {334, 0}}, [][2]int{{334, 0}, {334, 0}, {332, 0}}},
	} {
		var in []corev1.EndpointSubset
		for _, sizes := range test.in {
			in = append(in, corev1.EndpointSubset{
				Addresses: make([]corev1.EndpointAddress, sizes[0]), NotReadyAddresses: make([]corev1.EndpointAddress, sizes[1]),
			})
		}
		out, cut := truncate(in)
		var got [][2]int
		for _, subset := range out {
			got = append(got, [2]int{len(subset.Addresses), len(subset.NotReadyAddresses)})
		}
		if !slices.Equal(got, test.want) || cut == slices.Equal(test.in, test.want) {
			t.Errorf("%s: got %v, cut %t; want %v", name, got, cut, test.want)
		}
	}
}

// TestActsOnceOnAStaleCache checks that a late cache makes no write twice.
func TestActsOnceOnAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Endpoints", 2*time.Second, pod(1))
		start(t, p)
		settle()
		controltest.Create(p, service())
		for n := range 20 {
			controltest.Change(p, "default", "web", func(svc *corev1.Service) { svc.Annotations = map[string]string{"n": fmt.Sprint(n)} })
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		writes := 0
		for _, call := range p.Writes() {
			if call.Kind.Resource == "endpoints" {
				writes++
			}
		}
		if writes != 1 || len(p.Events("FailedToCreateEndpoint")) > 0 {
			t.Errorf("got %d writes and Events %q", writes, p.Events("FailedToCreateEndpoint"))
		}
	})
}

// TestManyServicesAreBatched makes the pods of many Services ready three times, a second apart, and checks that the
// Endpoints of most are written once, with the last state.
func TestManyServicesAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 150
		p := controltest.New(t)
		start(t, p)
		for i := range n {
			app := map[string]string{"app": fmt.Sprint(i)}
			p.Load(pod(i, func(pod *corev1.Pod) { pod.Labels = app }))
			controltest.Create(p, service(func(svc *corev1.Service) { svc.Name, svc.Spec.Selector = fmt.Sprint("s", i), app }))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		p.ClearCalls()
		controltest.Flap(p, "web-", n)
		time.Sleep(time.Minute)
		synctest.Wait()
		writes := 0
		for _, call := range p.Writes() {
			if call.Kind.Resource == "endpoints" {
				writes++
			}
		}
		if writes < n || writes > n+n/2 {
			t.Errorf("got %d writes for %d Services", writes, n)
		}
		for _, ep := range controltest.List[*corev1.Endpoints](p) {
			if got := describe(ep.Subsets); !strings.HasPrefix(got, "/") {
				t.Errorf("the Endpoints of %s say %q, want not ready", ep.Name, got)
			}
		}
	})
}
