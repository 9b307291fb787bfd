package replicas_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// fenced is one request that writes, or would write if it were not a dry run.
type fenced struct {
	name string
	do   func(ctx context.Context, api client.Interface) error
}

func fencedRequests() []fenced {
	everything := []string{metav1.DryRunAll}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}
	on := func(name string, of func(pods client.Resource[*corev1.Pod], ctx context.Context) error) fenced {
		return fenced{name, func(ctx context.Context, api client.Interface) error { return of(client.Of[*corev1.Pod](api), ctx) }}
	}
	evict := func(opts *metav1.DeleteOptions) func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
		return func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			return pods.CreateSubresource(ctx, "default", "a", "eviction",
				&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, DeleteOptions: opts}, nil, metav1.CreateOptions{})
		}
	}
	patch := func(pt types.PatchType, data string, opts metav1.PatchOptions) func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
		return func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			_, err := pods.Patch(ctx, "default", "a", pt, []byte(data), opts, "")
			return err
		}
	}
	force := true
	return []fenced{
		on("dry creation", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			_, err := pods.Create(ctx, pod("dry"), metav1.CreateOptions{DryRun: everything})
			return err
		}),
		on("creation", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			_, err := pods.Create(ctx, pod("a"), metav1.CreateOptions{})
			return err
		}),
		on("update", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			current, err := pods.Get(ctx, "default", "a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			current.Labels["x"] = "updated"
			_, err = pods.Update(ctx, current, metav1.UpdateOptions{})
			return err
		}),
		on("status", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			current, err := pods.Get(ctx, "default", "a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			current.Status.Reason = "Fenced"
			_, err = pods.UpdateStatus(ctx, current, metav1.UpdateOptions{})
			return err
		}),
		on("merge patch", patch(types.MergePatchType, `{"metadata":{"labels":{"x":"merged"}}}`, metav1.PatchOptions{})),
		on("strategic patch", patch(types.StrategicMergePatchType, `{"metadata":{"labels":{"x":"strategic"}}}`, metav1.PatchOptions{})),
		on("JSON patch", patch(types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/x","value":"json"}]`, metav1.PatchOptions{})),
		on("apply", patch(types.ApplyPatchType, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"applied"}}}`, metav1.PatchOptions{FieldManager: "m", Force: &force})),
		on("dry patch", patch(types.MergePatchType, `{"metadata":{"labels":{"x":"dry"}}}`, metav1.PatchOptions{DryRun: everything})),
		on("binding", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			return pods.CreateSubresource(ctx, "default", "a", "binding", &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
			}, nil, metav1.CreateOptions{})
		}),
		on("dry deletion", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			return pods.Delete(ctx, "default", "a", metav1.DeleteOptions{DryRun: everything})
		}),
		on("dry eviction", evict(&metav1.DeleteOptions{DryRun: everything})),
		on("eviction", evict(nil)),
		on("deletion", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			none := int64(0)
			return pods.Delete(ctx, "default", "a", metav1.DeleteOptions{GracePeriodSeconds: &none})
		}),
		on("creation of another", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			_, err := pods.Create(ctx, pod("b"), metav1.CreateOptions{})
			return err
		}),
		on("deletion of a collection", func(pods client.Resource[*corev1.Pod], ctx context.Context) error {
			return pods.DeleteCollection(ctx, "default", metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"})
		}),
		{"service", func(ctx context.Context, api client.Interface) error {
			_, err := client.Of[*corev1.Service](api).Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			return err
		}},
		{"deployment", func(ctx context.Context, api client.Interface) error {
			d := harness.Deployment("d")
			d.Namespace = "default"
			_, err := client.Of[*appsv1.Deployment](api).Create(ctx, d, metav1.CreateOptions{})
			return err
		}},
		{"scale", func(ctx context.Context, api client.Interface) error {
			_, err := client.Of[*appsv1.Deployment](api).Patch(ctx, "default", "d", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{}, "")
			return err
		}},
		{"namespace", func(ctx context.Context, api client.Interface) error {
			_, err := client.Of[*corev1.Namespace](api).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
			return err
		}},
		{"deletion of a namespace", func(ctx context.Context, api client.Interface) error {
			return client.Of[*corev1.Namespace](api).Delete(ctx, "", "n", metav1.DeleteOptions{})
		}},
		{"finalize", func(ctx context.Context, api client.Interface) error {
			namespaces := client.Of[*corev1.Namespace](api)
			current, err := namespaces.Get(ctx, "", "n", metav1.GetOptions{})
			if err != nil {
				return err
			}
			current.Spec.Finalizers = nil
			_, err = namespaces.UpdateSubresource(ctx, current, "finalize", metav1.UpdateOptions{})
			return err
		}},
		{"event", func(ctx context.Context, api client.Interface) error {
			_, err := client.Of[*corev1.Event](api).Create(ctx, &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "e"},
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "a"},
			}, metav1.CreateOptions{})
			return err
		}},
		{"token", func(ctx context.Context, api client.Interface) error {
			request := &authenticationv1.TokenRequest{}
			return client.Of[*corev1.ServiceAccount](api).CreateSubresource(ctx, "default", "default", "token", request, request, metav1.CreateOptions{})
		}},
	}
}

// settled returns what etcd holds, without what the apiserver itself writes.
func settled(t *testing.T, etcd *etcdtest.Server) map[string]string {
	t.Helper()
	values := etcd.Values(t, "/registry/")
	maps.DeleteFunc(values, func(key, _ string) bool {
		return slices.ContainsFunc([]string{"leases/", "masterleases/", "endpointslices/kube", "services/endpoints/default/kubernetes"}, func(part string) bool {
			return strings.HasPrefix(key, "/registry/"+part)
		})
	})
	return values
}

// leadShard creates a lease that no part of the plane uses, and returns the context of its holder.
func leadShard(t *testing.T, api client.Interface, holder string) context.Context {
	t.Helper()
	transitions := int32(0)
	lease, err := client.Of[*coordinationv1.Lease](api).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "shard-7"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fence.With(t.Context(), fence.Of(lease), nil)
}

// giveShard gives the lease to another holder in the same term, which the test may revert, and
// renews it.
func giveShard(t *testing.T, api client.Interface, holder string) {
	t.Helper()
	leases := client.Of[*coordinationv1.Lease](api)
	lease, err := leases.Get(t.Context(), "kube-system", "shard-7", metav1.GetOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &now
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

// TestDeposedLeaderWritesNothing has two clients, one over HTTPS and one over NATS, hold a lease in
// turn: every kind of write by the one that does not hold it is refused, and etcd stays as it is.
func TestDeposedLeaderWritesNothing(t *testing.T) {
	t.Parallel()
	for _, by := range []client.Transport{client.TransportHTTP, client.TransportNATS} {
		t.Run(string(by), func(t *testing.T) {
			etcd := etcdtest.Start(t)
			s := harness.StartWithTokensOn(t, etcd.Endpoints())
			config := s.WithToken(harness.MasterToken)
			if by == client.TransportNATS {
				config = s.Carried(t, config)
			}
			api, err := client.New(config, scheme.New())
			if err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, "the service account exists", func() bool {
				_, err := client.Of[*corev1.ServiceAccount](api).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}, metav1.CreateOptions{})
				return err == nil || apierrors.IsAlreadyExists(err)
			})
			ctx := leadShard(t, api, "one")
			for _, request := range fencedRequests() {
				giveShard(t, api, "two")
				before := settled(t, etcd)
				if err := request.do(ctx, api); !fence.IsLost(err) || !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `"two" holds it now`) {
					t.Errorf("%s by the deposed leader: got %v", request.name, err)
				}
				for key, value := range settled(t, etcd) {
					if before[key] != value {
						t.Errorf("%s by the deposed leader wrote %s", request.name, key)
					}
					delete(before, key)
				}
				for key := range before {
					t.Errorf("%s by the deposed leader deleted %s", request.name, key)
				}
				giveShard(t, api, "one")
				if err := request.do(ctx, api); err != nil {
					t.Errorf("%s by the leader: got %v", request.name, err)
				}
			}
			if _, _, err := client.Of[*corev1.Pod](api).List(ctx, "default", metav1.ListOptions{}); err != nil {
				t.Errorf("a read by the leader: got %v", err)
			}
			giveShard(t, api, "two")
			if _, _, err := client.Of[*corev1.Pod](api).List(ctx, "default", metav1.ListOptions{}); err != nil {
				t.Errorf("a read by the deposed leader: got %v", err)
			}
		})
	}
}

// TestRenewalsDoNotDisturb has the holder write from several clients while it renews its lease far
// more often than leaders do.
func TestRenewalsDoNotDisturb(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	api, err := client.New(s.Admin(), scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	ctx := leadShard(t, api, "one")
	var done atomic.Bool
	var renewing, writing sync.WaitGroup
	renewing.Go(func() {
		for !done.Load() {
			giveShard(t, api, "one")
		}
	})
	for writer := range 4 {
		writing.Go(func() {
			maps := client.Of[*corev1.ConfigMap](api)
			for i := range 25 {
				made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("m", writer, "-", i)}}, metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
					continue
				}
				made.Data = map[string]string{"k": "v"}
				if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
				if err := maps.Delete(ctx, "default", made.Name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	done.Store(true)
	renewing.Wait()
}

// TestFenceHeader sends headers as any client might.
func TestFenceHeader(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	api, err := client.New(s.Admin(), scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	f, _ := fence.From(leadShard(t, api, "one"))
	gone, elsewhere := f, f
	gone.Name, elsewhere.Namespace = "shard-8", "elsewhere"
	const maps = "/api/v1/namespaces/default/configmaps"
	scheduler := s.Service("system:kube-scheduler")
	for i, tc := range []struct {
		config  *rest.Config
		method  string
		headers []string
		code    int
		message string
	}{
		{s.Admin(), "POST", []string{f.String()}, 201, ""},
		{s.Admin(), "POST", []string{""}, 400, "the header Garboard-Fence: "},
		{s.Admin(), "POST", []string{"kube-system/shard-7"}, 400, "is not NAMESPACE/NAME;uid=UID;transitions=NUMBER;holder=HOLDER"},
		{s.Admin(), "POST", []string{strings.Repeat("x", 5000)}, 400, "more than 4096"},
		{s.Admin(), "POST", []string{f.String(), f.String()}, 400, "is set 2 times"},
		{s.Admin(), "GET", []string{"nonsense"}, 200, ""},
		{s.Admin(), "POST", []string{gone.String()}, 409, "that lease is gone"},
		{scheduler, "POST", []string{elsewhere.String()}, 403, `cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "elsewhere"`},
		{rest.AnonymousClientConfig(s.Admin()), "POST", []string{"nonsense"}, 403, "system:anonymous"},
	} {
		path, body := maps, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d"}}`, i)
		if tc.config == scheduler {
			// Something that a scheduler may write.
			path, body = "/api/v1/namespaces/default/events", `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"default"},"involvedObject":{"kind":"Pod","namespace":"default","name":"p"}}`
		}
		hc, err := rest.HTTPClientFor(tc.config)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), tc.method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Content-Type"], req.Header[fence.Header] = []string{"application/json"}, tc.headers
		res, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var status metav1.Status
		err = json.NewDecoder(res.Body).Decode(&status)
		if closeErr := res.Body.Close(); err != nil || closeErr != nil {
			t.Fatal(err, closeErr)
		}
		if res.StatusCode != tc.code || !strings.Contains(status.Message, tc.message) || tc.code >= 400 && (status.Kind != "Status" || int(status.Code) != tc.code) {
			t.Errorf("%s with %.80q: got %d %s, want %d %s", tc.method, tc.headers, res.StatusCode, status.Message, tc.code, tc.message)
		}
	}
}

// paused simulates a process that is stopped, and the network behind it: what it sends is held back
// while it is paused, and arrives afterwards, even if no caller still waits.
type paused struct {
	mu      sync.Mutex
	release chan struct{} // nil unless paused
	held    atomic.Int32
}

// over sends requests over rt while p allows it. A client has several: one for each group of the
// API.
func (p *paused) over(rt http.RoundTripper) http.RoundTripper { return pausedTransport{p, rt} }

type pausedTransport struct {
	*paused
	rt http.RoundTripper
}

func (p pausedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	release := p.release
	p.mu.Unlock()
	if release == nil {
		return p.rt.RoundTrip(r)
	}
	p.held.Add(1)
	<-release
	return p.rt.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
}

// stop pauses until the returned function is called.
func (p *paused) stop() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	release := make(chan struct{})
	p.release = release
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.release = nil
		close(release)
	})
}

// TestPausedLeaderComesBack stops a leader with a write under way. Another takes over and does the
// leader's work; then the first one's write arrives.
func TestPausedLeaderComesBack(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	config := s.Admin()
	link := &paused{}
	config.Wrap(link.over)
	slow, err := client.New(config, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	well, err := client.New(s.Admin(), scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	type term struct {
		ctx   context.Context
		ended <-chan struct{}
	}
	candidate := func(api client.Interface, identity string) <-chan term {
		ctx, cancel := context.WithCancel(t.Context())
		began, over := make(chan term, 10), make(chan error, 1)
		go func() {
			over <- election.Run(ctx, election.Config{
				Client: api, Namespace: "kube-system", Name: "shard-7", Identity: identity, Logger: slog.New(slog.DiscardHandler),
				Timing: election.Timing{LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond},
			}, func(ctx context.Context) error {
				began <- term{ctx, ctx.Done()}
				<-ctx.Done()
				return nil
			})
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
		return began
	}
	await := func(what string, from <-chan term) term {
		t.Helper()
		select {
		case got := <-from:
			return got
		case <-time.After(harness.Patience):
			t.Fatalf("timed out waiting until %s", what)
			return term{}
		}
	}
	write := func(ctx context.Context, api client.Interface, by string) error {
		_, err := client.Of[*corev1.ConfigMap](api).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "done-once-", Labels: map[string]string{"by": by}},
		}, metav1.CreateOptions{})
		return err
	}
	first := await("one leads", candidate(slow, "one"))
	standby := candidate(well, "two")
	resume := link.stop()
	defer resume()
	// The process is stopped, so it does not notice that its term ends either.
	late := make(chan error, 1)
	go func() { late <- write(context.WithoutCancel(first.ctx), slow, "one") }()
	harness.Eventually(t, "the write is under way", func() bool { return link.held.Load() > 0 })
	second := await("two leads", standby)
	if err := write(second.ctx, well, "two"); err != nil {
		t.Errorf("a write by the new leader: got %v", err)
	}
	resume()
	select {
	case err := <-late:
		if !fence.IsLost(err) || !strings.Contains(err.Error(), `"two" holds it now`) {
			t.Errorf("the late write: got %v", err)
		}
	case <-time.After(harness.Patience):
		t.Fatal("the late write gets no response")
	}
	select {
	case <-first.ended:
	case <-time.After(harness.Patience):
		t.Error("the deposed leader still leads")
	}
	made, _, err := client.Of[*corev1.ConfigMap](well).List(t.Context(), "default", metav1.ListOptions{LabelSelector: "by"})
	if err != nil || len(made) != 1 || made[0].Labels["by"] != "two" {
		t.Errorf("got %d objects, %v; want the one of the new leader", len(made), err)
	}
}
