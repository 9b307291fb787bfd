package doctor

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/report"
)

// api is an apiserver that answers as its test says, and notes what it is asked for.
type api struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	// codes are the status codes of paths other than 200.
	codes map[string]int
	ready string
	// hang are the paths that are never answered.
	hang map[string]bool
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{codes: map[string]int{}, ready: "[+]ping ok\nreadyz check passed\n", hang: map[string]bool{}}
	a.Server = httptest.NewTLSServer(a)
	t.Cleanup(a.Close)
	return a
}

// config returns the configuration of a client that trusts the server.
func (a *api) config() *rest.Config {
	return &rest.Config{Host: a.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}),
	}}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.URL.Path)
	a.mu.Unlock()
	if a.hang[r.URL.Path] {
		<-r.Context().Done()
		return
	}
	list := metav1.TypeMeta{APIVersion: "v1"}
	var answer any
	switch r.URL.Path {
	case "/readyz":
		w.WriteHeader(max(a.codes[r.URL.Path], http.StatusOK))
		_, _ = fmt.Fprint(w, a.ready)
		return
	case report.StatusPath:
		answer = report.Status{Apiserver: "a1"}
	case "/api/v1/nodes":
		list.Kind = "NodeList"
		answer = corev1.NodeList{TypeMeta: list, Items: []corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Status: corev1.NodeStatus{VolumesInUse: []corev1.UniqueVolumeName{
				"kubernetes.io/local-volume/pvc-1", "kubernetes.io/local-volume/pvc-2", "kubernetes.io/csi/other",
			}},
		}}}
	case "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases":
		name := "kube-scheduler"
		if strings.Contains(r.URL.Path, "node-lease") {
			name = "n1"
		}
		answer = coordinationv1.LeaseList{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"},
			Items:    []coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Name: name}}},
		}
	case "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices":
		answer = discoveryv1.EndpointSliceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"},
			Items: []discoveryv1.EndpointSlice{{AddressType: "IPv4", Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"192.0.2.1"}}, {Addresses: []string{"192.0.2.2"}},
			}}},
		}
		if r.URL.Query().Get("labelSelector") != "kubernetes.io/service-name=kubernetes" {
			a.codes[r.URL.Path] = http.StatusBadRequest
		}
	}
	if answer == nil {
		answer = a.objects(r)
	}
	w.Header().Set("Content-Type", "application/json")
	if code := a.codes[r.URL.Path]; code != 0 || answer == nil {
		reasons := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound}
		w.WriteHeader(max(code, http.StatusBadRequest))
		answer = metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: "no",
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// objects answers requests for claims, volumes, classes, Events, autoscalers and the network; nil for anything else.
func (a *api) objects(r *http.Request) any {
	list := metav1.TypeMeta{APIVersion: "v1"}
	switch r.URL.Path {
	case "/api/v1/persistentvolumes":
		list.Kind = "PersistentVolumeList"
		volumes := corev1.PersistentVolumeList{TypeMeta: list, Items: []corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}}}
		a.mu.Lock()
		defer a.mu.Unlock()
		if slices.Contains(a.asked, "/api/v1/nodes") { // The second time: one was created meanwhile.
			volumes.Items = append(volumes.Items, corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-2"}})
		}
		return volumes
	case "/api/v1/persistentvolumeclaims":
		list.Kind = "PersistentVolumeClaimList"
		bound := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
		waits := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "waits", UID: "w"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
		return corev1.PersistentVolumeClaimList{TypeMeta: list, Items: []corev1.PersistentVolumeClaim{bound, waits}}
	case "/api/v1/events":
		list.Kind = "EventList"
		if r.URL.Query().Get("fieldSelector") != "involvedObject.kind=PersistentVolumeClaim,reason=ProvisioningFailed" {
			return nil
		}
		event := func(message string, at time.Time) corev1.Event {
			return corev1.Event{InvolvedObject: corev1.ObjectReference{UID: "w"}, Message: message, LastTimestamp: metav1.NewTime(at)}
		}
		series := event("newest", now)
		series.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(now.Add(time.Hour))}
		return corev1.EventList{TypeMeta: list, Items: []corev1.Event{series, event("newer", now.Add(time.Minute)), event("old", now.Add(-time.Minute))}}
	case "/api/v1/namespaces/kube-system/services/kube-dns":
		list.Kind = "Service"
		return corev1.Service{TypeMeta: list, ObjectMeta: metav1.ObjectMeta{Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.10"}}
	case "/apis/networking.k8s.io/v1/servicecidrs":
		return networkingv1.ServiceCIDRList{
			TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDRList"},
			Items:    []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12", "fd00::/108"}}}},
		}
	case "/apis/storage.k8s.io/v1/storageclasses":
		return storagev1.StorageClassList{
			TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClassList"},
			Items:    []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}},
		}
	case "/apis/apiregistration.k8s.io/v1/apiservices":
		return apiregistrationv1.APIServiceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIServiceList"},
			Items:    []apiregistrationv1.APIService{{ObjectMeta: metav1.ObjectMeta{Name: "v1.apps"}}},
		}
	case "/apis/autoscaling/v2/horizontalpodautoscalers":
		return autoscalingv2.HorizontalPodAutoscalerList{
			TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscalerList"},
			Items:    []autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}},
		}
	}
	return extension(r)
}

// TestGatherStorage gathers what the checks of claims and autoscalers need.
func TestGatherStorage(t *testing.T) {
	a := newAPI(t)
	f := Gather(t.Context(), a.config(), "v1")
	if err := errors.Join(f.Storage.Err, f.AutoscalersErr, f.APIServicesErr); err != nil {
		t.Fatal(err)
	}
	s := f.Storage
	if len(s.Claims) != 1 || s.Claims[0].Name != "waits" || s.Classes["fast"] == nil || s.Refusals["w"] != "newest" {
		t.Errorf("the claims are %v, the classes %v, the Events %v", s.Claims, s.Classes, s.Refusals)
	}
	if !s.Volumes["pvc-1"] || !s.Volumes["pvc-2"] {
		t.Errorf("a volume is unknown that was created before the nodes were read: %v", s.Volumes)
	}
	if len(f.Autoscalers) != 1 || f.Autoscalers[0].Name != "web" {
		t.Errorf("the autoscalers are %v", f.Autoscalers)
	}
	if len(f.APIServices) != 1 || f.APIServices[0].Name != "v1.apps" {
		t.Errorf("the APIServices are %v", f.APIServices)
	}
	for path, fault := range map[string]func(*Facts) error{
		"/apis/apiregistration.k8s.io/v1/apiservices":   func(f *Facts) error { return f.APIServicesErr },
		"/api/v1/persistentvolumes":                     func(f *Facts) error { return f.Storage.Err },
		"/api/v1/persistentvolumeclaims":                func(f *Facts) error { return f.Storage.Err },
		"/api/v1/events":                                func(f *Facts) error { return f.Storage.Err },
		"/apis/storage.k8s.io/v1/storageclasses":        func(f *Facts) error { return f.Storage.Err },
		"/apis/autoscaling/v2/horizontalpodautoscalers": func(f *Facts) error { return f.AutoscalersErr },
	} {
		a := newAPI(t)
		a.codes[path] = http.StatusForbidden
		if f := Gather(t.Context(), a.config(), "v1"); !apierrors.IsForbidden(fault(f)) || f.NodesErr != nil {
			t.Errorf("without %s the errors are %v, %v", path, fault(f), f.NodesErr)
		}
	}
}

// TestGather gathers everything from a sound server.
func TestGather(t *testing.T) {
	a := newAPI(t)
	config := a.config()
	config.BearerToken = "secret"
	f := Gather(t.Context(), config, "v1")
	if err := errors.Join(f.Dial, f.Trust, f.ReadyErr, f.StatusErr, f.LeasesErr, f.NodesErr, f.ApiserversErr); err != nil {
		t.Fatal(err)
	}
	if f.Server != a.URL || f.Version != "v1" || len(f.Chain) != 1 || !f.Token || f.ReadyCode != 200 || f.Ready != a.ready || f.Took <= 0 ||
		time.Since(f.ServerTime).Abs() > time.Minute || f.Status.Apiserver != "a1" {
		t.Errorf("the facts are %+v", f)
	}
	if f.Leases["kube-scheduler"] == nil || f.Heartbeats["n1"] == nil || len(f.Nodes) != 1 || f.Nodes[0].Name != "n1" ||
		!slices.Equal(f.Apiservers, []string{"192.0.2.1", "192.0.2.2"}) {
		t.Errorf("the objects are %v, %v, %v, %v", f.Leases, f.Heartbeats, f.Nodes, f.Apiservers)
	}
}

// TestConnect: why a server cannot be reached, or not be trusted. Without a connection nothing else
// is asked for, and without trust no credential is sent.
func TestConnect(t *testing.T) {
	a := newAPI(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(config *rest.Config)
		// dial and trust are parts of the errors; empty if there is none.
		dial, trust string
		// asks reports that the server is asked for its readiness.
		asks bool
	}{
		{"trusted", func(*rest.Config) {}, "", "", true},
		{"no URL", func(config *rest.Config) { config.Host = "https://a b" }, "is not a URL", "", false},
		{"not encrypted", func(config *rest.Config) { config.Host, config.CAData = "http://127.0.0.1:80", nil }, "is not https", "", false},
		{"nothing listens", func(config *rest.Config) { config.Host = "https://" + closed.Addr().String() }, "connection refused", "", false},
		{"no authority", func(config *rest.Config) { config.CAData = nil }, "", "unknown authority", false},
		{"no certificate as authority", func(config *rest.Config) { config.CAData = []byte("x") }, "", "not a PEM certificate", false},
		{"no file of the authority", func(config *rest.Config) {
			config.CAData, config.CAFile = nil, filepath.Join(t.TempDir(), "none")
		}, "", "reading the CA file", false},
		{"another name", func(config *rest.Config) { config.ServerName = "other.test" }, "", "other.test", false},
		{"a name in the certificate", func(config *rest.Config) { config.ServerName = "example.com" }, "", "", true},
		{"no verification", func(config *rest.Config) { config.CAData, config.Insecure = nil, true }, "", "insecure-skip-tls-verify", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := a.config()
			c.change(config)
			a.asked = nil
			f := Gather(t.Context(), config, "v1")
			for what, texts := range map[string][2]string{"connection": {text(f.Dial), c.dial}, "trust": {text(f.Trust), c.trust}} {
				if got, want := texts[0], texts[1]; (got == "") != (want == "") || !strings.Contains(got, want) {
					t.Errorf("the fault of the %s is %q, want %q", what, got, want)
				}
			}
			if asked := slices.Contains(a.asked, "/readyz"); asked != c.asks {
				t.Errorf("the server was asked for %v", a.asked)
			}
			if f.Dial == nil && len(f.Chain) == 0 {
				t.Error("the server's certificate is unknown")
			}
		})
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](Gather(t.Context(), &rest.Config{Host: a.URL}, "").Trust); !ok {
		t.Error("an unknown authority cannot be told from other faults")
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestPartsFail: what cannot be read has an error, and the rest is there.
func TestPartsFail(t *testing.T) {
	const leases, nodes = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "/api/v1/nodes"
	a := newAPI(t)
	a.codes["/readyz"], a.ready = http.StatusUnauthorized, "no"
	if f := Gather(t.Context(), a.config(), ""); f.ReadyCode != http.StatusUnauthorized || f.Status != nil || len(a.asked) != 1 {
		t.Errorf("a client that is not let in asks for %v", a.asked)
	}
	a = newAPI(t) // A request of the former one may still be in progress.
	a.codes = map[string]int{"/readyz": 500, report.StatusPath: 403, leases: 403, nodes: 500}
	a.ready = "[-]etcd failed\n" + strings.Repeat("x", 2*maxReady)
	f := Gather(t.Context(), a.config(), "")
	if f.ReadyErr != nil || f.ReadyCode != 500 || len(f.Ready) != maxReady {
		t.Errorf("readiness is %d with %d bytes, %v", f.ReadyCode, len(f.Ready), f.ReadyErr)
	}
	if f.Status != nil || !isForbidden(f.StatusErr) || !apierrors.IsForbidden(f.LeasesErr) || f.NodesErr == nil || f.Nodes != nil || f.Heartbeats != nil {
		t.Errorf("the errors are %v, %v, %v", f.StatusErr, f.LeasesErr, f.NodesErr)
	}
	if f.ApiserversErr != nil || len(f.Apiservers) != 2 {
		t.Errorf("the apiservers are %v, %v", f.Apiservers, f.ApiserversErr)
	}
	// A server that accepts requests and never answers.
	for _, path := range []string{"/readyz", nodes} {
		a := newAPI(t)
		a.codes, a.hang = map[string]int{}, map[string]bool{path: true}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		f := Gather(ctx, a.config(), "")
		cancel()
		if err := errors.Join(f.ReadyErr, f.NodesErr); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when %s hangs, the error is %v", path, err)
		}
		http.DefaultClient.CloseIdleConnections()
	}
}
