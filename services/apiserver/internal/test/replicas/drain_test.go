package replicas_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// member is a replica as its clients see it.
type member struct {
	*harness.Server
	config *rest.Config
	client *http.Client

	mu    sync.Mutex
	ready bool
	told  time.Time // when it was told to shut down; zero before
}

// balancer chooses replicas as clients do: any that reports that it is ready.
type balancer struct {
	t       *testing.T
	mu      sync.Mutex
	members []*member
}

func (b *balancer) add(server *harness.Server) *member {
	b.t.Helper()
	config := server.Admin()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.t.Fatal(err)
	}
	m := &member{Server: server, config: config, client: client}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members = append(b.members, m)
	return m
}

func (b *balancer) remove(gone *member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members = slices.DeleteFunc(b.members, func(m *member) bool { return m == gone })
}

func (b *balancer) all() []*member {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.members)
}

// check queries the replicas' readiness until ctx ends, over its own connections.
func (b *balancer) check(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // It sends no secrets.
	}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, m := range b.all() {
			ready := false
			if r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL+"/readyz", nil); err == nil {
				if answer, err := client.Do(r); err == nil {
					ready = answer.StatusCode == http.StatusOK
					_ = answer.Body.Close()
				}
			}
			m.mu.Lock()
			m.ready = ready
			m.mu.Unlock()
		}
		<-tick.C
	}
}

// pick waits for a ready replica; it returns nil when ctx ends.
func (b *balancer) pick(ctx context.Context) *member {
	for ctx.Err() == nil {
		var ready []*member
		for _, m := range b.all() {
			m.mu.Lock()
			if m.ready {
				ready = append(ready, m)
			}
			m.mu.Unlock()
		}
		if len(ready) > 0 {
			return ready[rand.IntN(len(ready))]
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// excused reports whether a request that has just failed reached a replica after its shutdown
// delay: because the balancer had not checked for that long, or the request was under way for that
// long, as happens on an overloaded machine. A request that the replica had accepted is never
// excused for being late.
func (m *member) excused(sent time.Time, delay time.Duration, failure string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told.IsZero() || time.Now().Before(m.told.Add(delay)) {
		return false
	}
	return sent.After(m.told.Add(delay)) ||
		slices.ContainsFunc([]string{"shutting down", "connection refused", "connection reset by peer"}, func(not string) bool { return strings.Contains(failure, not) })
}

const drainDelay, drainWatches = time.Second, time.Second

// TestDrainedReplicas replaces one of two replicas ten times while clients that follow readiness,
// and retry nothing, write and watch: no request fails, and every write is seen once.
func TestDrainedReplicas(t *testing.T) {
	t.Parallel()
	r := startReplicas(t, 2, func(_ int, cfg *apiserver.Config) {
		cfg.Serving.ShutdownDelay, cfg.Serving.ShutdownWatchGrace = drainDelay, drainWatches
	})
	b := &balancer{t: t}
	members := []*member{b.add(r.servers[0]), b.add(r.servers[1])}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	list, err := r.clients[0].CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	clients.Go(func() { b.check(ctx) })

	var mu sync.Mutex
	written, seen := map[string]bool{}, map[string]int{}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := 0; writing.Err() == nil; n++ {
				m := b.pick(writing)
				if m == nil {
					return
				}
				name, sent := fmt.Sprintf("w%d-%d", w, n), time.Now()
				text, code := m.post(ctx, name)
				switch {
				case code == http.StatusCreated:
					mu.Lock()
					written[name] = true
					mu.Unlock()
				case !m.excused(sent, drainDelay, text):
					t.Errorf("creating %s: %d %s", name, code, text)
				}
			}
		})
	}
	clients.Go(func() {
		at := list.ResourceVersion
		for ctx.Err() == nil {
			m := b.pick(ctx)
			if m == nil {
				return
			}
			sent := time.Now()
			watching, err := harness.Typed(t, m.config).CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: at})
			if err != nil {
				if ctx.Err() == nil && !m.excused(sent, drainDelay, err.Error()) {
					t.Errorf("watching: %v", err)
				}
				continue
			}
			for event := range watching.ResultChan() {
				object, ok := event.Object.(*corev1.ConfigMap)
				if !ok && ctx.Err() != nil {
					break // client-go reports that it was told to end.
				}
				if !ok {
					t.Errorf("watching from %s: %v", at, event)
					break
				}
				at = object.ResourceVersion
				mu.Lock()
				seen[object.Name]++
				mu.Unlock()
			}
		}
	})
	atOnce := 0
	for n := range 10 {
		gone := members[n%2]
		ends := gone.watches(t, 20)
		gone.mu.Lock()
		gone.told = time.Now()
		gone.mu.Unlock()
		gone.Stop()
		b.remove(gone)
		gone.client.CloseIdleConnections()
		spread, early := ends()
		if early {
			t.Error("a watch ended before the shutdown delay of its replica was over")
		}
		if spread < drainWatches/10 {
			atOnce++ // Or it only seems so, since the machine stalled meanwhile.
		}
		next := &harness.Server{T: t, CertDir: gone.CertDir, Etcd: gone.Etcd, Bus: gone.Bus, Change: gone.Change}
		next.Start()
		members[n%2] = b.add(next)
	}
	if atOnce > 3 {
		t.Errorf("%d times the watches of a replica that shuts down ended all at once", atOnce)
	}
	stop()
	writers.Wait()
	r.eventually("every write is seen once", func() string {
		mu.Lock()
		defer mu.Unlock()
		for name := range written {
			if seen[name] != 1 {
				return fmt.Sprintf("%s was seen %d times; there are %d writes", name, seen[name], len(written))
			}
		}
		return ""
	})
	cancel()
	clients.Wait()
	if len(written) < 50 {
		t.Errorf("only %d writes were made", len(written))
	}
	t.Logf("%d writes", len(written))
}

// post creates an object with one request.
func (m *member) post(ctx context.Context, name string) (text string, code int) {
	body := strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL+"/api/v1/namespaces/default/configmaps", body)
	if err != nil {
		return err.Error(), 0
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := m.client.Do(request)
	if err != nil {
		return err.Error(), 0
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error(), 0
	}
	return string(data), answer.StatusCode
}

// watches opens some watches; ends waits for their ends, and returns the time over which they were
// spread and whether one came before the replica's shutdown delay was over.
func (m *member) watches(t *testing.T, n int) (ends func() (spread time.Duration, early bool)) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var at []time.Time
	for range n {
		watching, err := harness.Typed(t, m.config).CoreV1().Secrets("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range watching.ResultChan() { //nolint:revive // Only the end matters.
			}
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
		})
	}
	return func() (time.Duration, bool) {
		all.Wait()
		slices.SortFunc(at, time.Time.Compare)
		return at[n-1].Sub(at[0]), at[0].Before(m.told.Add(drainDelay))
	}
}
