package replicas_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// replicas are several apiservers on one etcd and one NATS.
type replicas struct {
	t       *testing.T
	servers []*harness.Server
	clients []kubernetes.Interface
}

// startReplicas starts n of them at the same moment, on an empty etcd.
func startReplicas(t *testing.T, n int, change func(i int, cfg *apiserver.Config)) *replicas {
	t.Helper()
	certDir := filepath.Join(t.TempDir(), "pki")
	auth, err := apiserver.BusAuth(certDir)
	if err != nil {
		t.Fatal(err)
	}
	// An administrator who deploys several creates their certificates before.
	if _, err := apiserver.BusTLS(certDir, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	etcd, bus := etcdtest.New(t), bustest.NewServerWith(t, embedded.Config{Auth: auth})
	r := &replicas{t: t}
	for i := range n {
		// Each has its own directory, in which it creates a certificate for its own addresses.
		own := filepath.Join(t.TempDir(), "pki")
		if err := os.CopyFS(own, os.DirFS(certDir)); err != nil {
			t.Fatal(err)
		}
		server := &harness.Server{T: t, CertDir: own, Etcd: etcd, Bus: bus}
		server.Change = func(cfg *apiserver.Config) {
			cfg.Serving.AdvertiseAddress, cfg.Hostname = address(i), fmt.Sprint("apiserver-", i)
			if change != nil {
				change(i, cfg)
			}
		}
		r.servers = append(r.servers, server)
	}
	r.each(func(i int) { r.servers[i].Start() })
	if t.Failed() {
		t.FailNow()
	}
	for _, server := range r.servers {
		r.clients = append(r.clients, harness.Typed(t, server.Admin()))
	}
	return r
}

func address(i int) string { return fmt.Sprint("192.0.2.", i+1) }

// each calls do for all replicas at once.
func (r *replicas) each(do func(i int)) {
	var all sync.WaitGroup
	for i := range r.servers {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// any returns a client of one of the replicas.
func (r *replicas) any() kubernetes.Interface { return r.clients[rand.IntN(len(r.clients))] }

// eventually waits until check returns no fault.
func (r *replicas) eventually(what string, check func() string) {
	r.t.Helper()
	deadline := time.Now().Add(harness.Patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		wrong := check()
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: %s", what, wrong)
		}
		<-tick.C
	}
}

// endpoints returns the addresses of the `kubernetes` Service, on which its Endpoints and its slice
// must agree.
func (r *replicas) endpoints(client kubernetes.Interface) (string, error) {
	endpoints, err := client.CoreV1().Endpoints("default").Get(r.t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	slice, err := client.DiscoveryV1().EndpointSlices("default").Get(r.t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var inOne, inOther []string
	for _, subset := range endpoints.Subsets {
		for _, address := range subset.Addresses {
			inOne = append(inOne, address.IP)
		}
	}
	for _, endpoint := range slice.Endpoints {
		inOther = append(inOther, endpoint.Addresses...)
	}
	one, other := strings.Join(inOne, " "), strings.Join(inOther, " ")
	if one != other {
		return one + " in the Endpoints, " + other + " in the slice", nil
	}
	if endpoints.Labels["endpointslice.kubernetes.io/skip-mirror"] != "true" || slice.Labels["kubernetes.io/service-name"] != "kubernetes" || slice.AddressType != "IPv4" {
		return fmt.Sprintf("%v, %v, %v", endpoints.Labels, slice.Labels, slice.AddressType), nil
	}
	return one, nil
}

// awaitEndpoints waits until a replica returns those addresses as the endpoints.
func (r *replicas) awaitEndpoints(client kubernetes.Interface, want ...string) {
	r.t.Helper()
	r.eventually("the endpoints", func() string {
		got, err := r.endpoints(client)
		if err == nil && got == strings.Join(want, " ") {
			return ""
		}
		return fmt.Sprintf("%s, %v, want %v", got, err, want)
	})
}

// TestReplicas starts three replicas at once on an empty etcd, and sends each request to any of
// them.
func TestReplicas(t *testing.T) {
	t.Parallel()
	// The range has 62 addresses, one of which belongs to the kubernetes Service.
	r := startReplicas(t, 3, func(_ int, cfg *apiserver.Config) { cfg.ServiceCIDR = "10.96.0.0/26" })
	for _, test := range []struct {
		name string
		run  func(t *testing.T, r *replicas)
	}{
		{"start together", replicasStart},
		{"read writes", replicasReadWrites},
		{"go on", replicasGoOn},
		{"carry logs", replicasCarryLogs},
		{"allocate once", replicasAllocateOnce},
		{"keep quotas", replicasKeepQuotas},
		{"leave and come back", replicasLeave},
	} {
		t.Run(test.name, func(t *testing.T) {
			whole := r.t
			r.t = t
			defer func() { r.t = whole }()
			test.run(t, r)
		})
	}
}

// replicasStart checks that what the plane always has exists once, and that each replica is an
// endpoint of the `kubernetes` Service.
func replicasStart(t *testing.T, r *replicas) {
	ctx := t.Context()
	for i, client := range r.clients {
		service, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil || service.Spec.ClusterIP != "10.96.0.1" {
			t.Errorf("at replica %d: got the kubernetes Service %+v, %v", i, service.Spec, err)
		}
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
				t.Errorf("at replica %d: %v", i, err)
			}
		}
		if _, err := client.RbacV1().ClusterRoles().Get(ctx, "cluster-admin", metav1.GetOptions{}); err != nil {
			t.Errorf("at replica %d: %v", i, err)
		}
		r.awaitEndpoints(client, address(0), address(1), address(2))
	}
	r.eventually("the identity Leases", func() string {
		leases, err := r.any().CoordinationV1().Leases("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity=kube-apiserver"})
		if err != nil {
			return err.Error()
		}
		var found []string
		for _, lease := range leases.Items {
			found = append(found, lease.Labels["kubernetes.io/hostname"])
			if !strings.HasPrefix(lease.Name, "apiserver-") || lease.Spec.HolderIdentity == nil || !strings.HasPrefix(*lease.Spec.HolderIdentity, lease.Name+"_") || *lease.Spec.LeaseDurationSeconds != 3600 {
				t.Errorf("the Lease %s: got %+v", lease.Name, lease.Spec)
			}
		}
		slices.Sort(found)
		if got := strings.Join(found, " "); got != "apiserver-0 apiserver-1 apiserver-2" {
			return got
		}
		return ""
	})
}

// replicasLeave checks that a replica that has shut down is not an endpoint until it starts again.
func replicasLeave(t *testing.T, r *replicas) {
	r.servers[1].Stop()
	// Nothing had to wait for the registration to expire.
	if got, err := r.endpoints(r.clients[0]); err != nil || strings.Contains(got, address(1)) {
		t.Errorf("after one has shut down: got the endpoints %s, %v", got, err)
	}
	// Another may have been removed for a while, if it stalled.
	r.awaitEndpoints(r.clients[0], address(0), address(2))
	r.servers[1].Start()
	r.awaitEndpoints(r.clients[2], address(0), address(1), address(2))
}

// replicasAllocateOnce checks that no address and no port is allocated twice, and that none is left
// over, whichever replica creates the services.
func replicasAllocateOnce(t *testing.T, r *replicas) {
	const each, room = 30, 61
	var mu sync.Mutex
	owner := map[string]string{}
	made, full := 0, 0
	r.each(func(i int) {
		for n := range each {
			name := fmt.Sprintf("s-%d-%d", i, n)
			service, err := r.clients[i].CoreV1().Services("default").Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			mu.Lock()
			switch {
			case err == nil:
				made++
				for _, what := range []string{service.Spec.ClusterIP, fmt.Sprint(service.Spec.Ports[0].NodePort)} {
					if other := owner[what]; other != "" {
						t.Errorf("%s is allocated to %s and to %s", what, other, name)
					}
					owner[what] = name
				}
			case strings.Contains(err.Error(), "range is full"):
				full++
			default:
				t.Errorf("creating %s: %v", name, err)
			}
			mu.Unlock()
		}
	})
	if made != room || full != 3*each-room {
		t.Errorf("%d services were created and %d got no address; the range has room for %d", made, full, room)
	}
	// Addresses that one replica releases, another allocates again.
	if err := r.clients[0].CoreV1().Services("default").Delete(t.Context(), owner["10.96.0.2"], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := r.clients[1].CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "again"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil || again.Spec.ClusterIP != "10.96.0.2" {
		t.Errorf("the address that was released: got %v, %v", again.Spec.ClusterIP, err)
	}
}

// replicasKeepQuotas checks that no more is created than a quota allows, whichever replica is
// asked.
func replicasKeepQuotas(t *testing.T, r *replicas) {
	ctx := t.Context()
	if _, err := r.any().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bounded"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const limit, each = 20, 25
	hard := corev1.ResourceList{"count/configmaps": *resource.NewQuantity(limit, resource.DecimalSI)}
	quotas := r.clients[0].CoreV1().ResourceQuotas("bounded")
	quota, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// As the controller writes it when the namespace is still empty.
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"count/configmaps": *resource.NewQuantity(0, resource.DecimalSI)}}
	if quota, err = quotas.UpdateStatus(ctx, quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Wait until every replica knows the quota: until then it may allow what it does not know to be
	// limited.
	for _, client := range r.clients {
		if _, err := client.CoreV1().ResourceQuotas("bounded").List(ctx, metav1.ListOptions{ResourceVersion: quota.ResourceVersion}); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	made := 0
	r.each(func(i int) {
		for n := range each {
			_, err := r.clients[i].CoreV1().ConfigMaps("bounded").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d-%d", i, n)}}, metav1.CreateOptions{})
			mu.Lock()
			switch {
			case err == nil:
				made++
			case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: few"):
				t.Errorf("creating: %v", err)
			}
			mu.Unlock()
		}
	})
	now, err := r.any().CoreV1().ResourceQuotas("bounded").Get(ctx, "few", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := now.Status.Used["count/configmaps"]
	if made != limit || used.Value() != limit {
		t.Errorf("%d objects were created and the quota counts %d; it allows %d", made, used.Value(), limit)
	}
}
