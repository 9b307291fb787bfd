package availability

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// others are the APIs of a test.
type others struct {
	mu        sync.Mutex
	kept      []string
	checked   int
	described int
	fault     error
}

func (o *others) Keep(services []*apiService) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = nil
	for _, one := range services {
		o.kept = append(o.kept, one.Name+" "+fmt.Sprint(one.Spec.Service != nil && helper.IsAPIServiceConditionTrue(one, apiregistrationv1.Available)))
	}
}

func (o *others) Check(context.Context, string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checked++
	return o.fault
}

func (o *others) Describe(context.Context, string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.described++
	return o.fault
}

func (o *others) fail(with error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fault = with
}

func (o *others) has(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.kept, what)
}

// world is a registry with a keeper that runs.
type world struct {
	*registrytest.World
	others  *others
	metrics *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: registrytest.New(t), others: &others{}, metrics: prometheus.NewRegistry()}
	keeper := New(Config{
		APIs: w.others, Table: w.Table, Registry: w.Registry, Feeds: w.Feeds, Registerer: w.metrics,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Service: func(ctx context.Context, namespace, name string) (*corev1.Service, error) {
			obj, err := registry.Of[*corev1.Service](w.Registry).GetAt(ctx, namespace, name, "0")
			if err != nil {
				return nil, err
			}
			return obj.(*corev1.Service), nil
		},
		Slices: func(ctx context.Context, namespace string) ([]*discoveryv1.EndpointSlice, error) {
			found, err := registry.Of[*discoveryv1.EndpointSlice](w.Registry).Read(ctx, namespace, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return nil, err
			}
			var all []*discoveryv1.EndpointSlice
			for _, obj := range found.Objects() {
				all = append(all, obj.(*discoveryv1.EndpointSlice))
			}
			return all, nil
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- keeper.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the keeper ended: %v", err)
		}
	})
	return w
}

func named(port int32) *apiService {
	return &apiService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.wardle.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "wardle.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 15, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "api", Port: &port},
		},
	}
}

// until waits for the condition of the APIService, REASON: MESSAGE.
func (w *world) until(want string) *apiService {
	w.T.Helper()
	got := ""
	for deadline := time.Now().Add(registrytest.Patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		obj, err := registrytest.Of[*apiService](w.World).Get(w.T.Context(), "", "v1.wardle.example.com")
		if err != nil {
			w.T.Fatal(err)
		}
		one := obj.(*apiService)
		condition := helper.GetAPIServiceConditionByType(one, apiregistrationv1.Available)
		if condition == nil {
			continue
		}
		if got = fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message); got == want {
			return one
		}
	}
	w.T.Fatalf("the condition is %q, want %q", got, want)
	return nil
}

func (w *world) change(what func(*apiService)) {
	w.T.Helper()
	_, err := registrytest.Of[*apiService](w.World).Update(w.T.Context(), "", "v1.wardle.example.com", func(current scheme.Object) (scheme.Object, error) {
		next := current.DeepCopyObject().(*apiService)
		what(next)
		return next, nil
	}, registry.UpdateOptions{})
	if err != nil {
		w.T.Fatal(err)
	}
}

const well = "True Passed: all checks passed"

// TestAvailable follows an APIService from its creation, through all that its Service may lack, to its end.
func TestAvailable(t *testing.T) {
	w := newWorld(t)
	registrytest.Create(w.World, "", named(443))
	w.until(`False ServiceNotFound: service/api in "default" is not present`)
	registrytest.Create(w.World, "default", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "api"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}}},
	})
	w.until(`False EndpointsNotFound: cannot find endpointslices for service/api in "default"`)
	ready, https, number, tcp := false, "https", int32(8443), corev1.ProtocolTCP
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "api-1", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &https, Port: &number, Protocol: &tcp}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	registrytest.Create(w.World, "default", slice)
	w.until(`False MissingEndpoints: endpointslices for service/api in "default" have no addresses with port name "https"`)
	w.others.fail(errors.New("connection refused"))
	_, err := registrytest.Of[*discoveryv1.EndpointSlice](w.World).Update(t.Context(), "default", "api-1", func(current scheme.Object) (scheme.Object, error) {
		next := current.DeepCopyObject().(*discoveryv1.EndpointSlice)
		next.Endpoints[0].Conditions.Ready = new(true)
		return next, nil
	}, registry.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.until("False FailedDiscoveryCheck: connection refused")
	if got := w.series("aggregator_unavailable_apiservice"); !slices.Equal(got, []float64{1}) {
		t.Errorf("the gauge of unavailable APIs is %v", got)
	}
	w.others.fail(nil)
	w.until(well)
	w.change(func(s *apiService) { s.Spec.Service.Port = new(int32(80)) })
	w.until(`False ServicePortError: service/api in "default" is not listening on port 80`)
	if got := w.series("aggregator_unavailable_apiservice_total"); !slices.Equal(got, []float64{1}) {
		t.Errorf("the counter of APIs that became unavailable is %v", got)
	}
	w.change(func(s *apiService) { s.Spec.Service.Port = new(int32(443)) })
	before := w.until(well)
	w.wait("it is not passed on", func() bool { return w.others.has("v1.wardle.example.com true") })
	w.change(func(s *apiService) { s.Labels = map[string]string{"a": "b"} })
	if after := w.until(well); after.Status.Conditions[0].LastTransitionTime != before.Status.Conditions[0].LastTransitionTime {
		t.Error("the condition changed with a label")
	}
	w.change(func(s *apiService) { s.Spec.Service, s.Spec.InsecureSkipTLSVerify = nil, false })
	w.until("True Local: Local APIServices are always available")
	w.wait("the series stay", func() bool {
		return len(w.series("aggregator_unavailable_apiservice"))+len(w.series("aggregator_unavailable_apiservice_total")) == 0
	})
	w.others.mu.Lock()
	defer w.others.mu.Unlock()
	if w.others.described == 0 {
		t.Error("nobody asked what it serves")
	}
}

// series returns the values of a metric, one for each of its series.
func (w *world) series(name string) (values []float64) {
	w.T.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.T.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, one := range family.GetMetric() {
				values = append(values, one.GetGauge().GetValue()+one.GetCounter().GetValue())
			}
		}
	}
	return values
}

func (w *world) wait(what string, is func() bool) {
	w.T.Helper()
	for deadline := time.Now().Add(registrytest.Patience); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.T.Fatal(what)
		}
	}
}
