package store_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestParseOverride(t *testing.T) {
	for text, want := range map[string]store.Override{
		"/events#https://127.0.0.1:4002":               {Resource: schema.GroupResource{Resource: "events"}, Servers: []string{"https://127.0.0.1:4002"}},
		"coordination.k8s.io/leases#http://a;http://b": {Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Servers: []string{"http://a", "http://b"}},
	} {
		if got, err := store.ParseOverride(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "events", "/events", "events#http://a", "/events#", "/events#http://a;", "/#http://a", "/events#http://a#http://b", "a/b/c#http://a"} {
		if got, err := store.ParseOverride(text); err == nil {
			t.Errorf("%q: %v and no error", text, got)
		}
	}
}

func overridden(t *testing.T, resource schema.GroupResource) (s *store.Store, main, other *etcdtest.Server) {
	t.Helper()
	main, other = etcdtest.Start(t), etcdtest.Start(t)
	s = open(t, store.Config{
		Servers: main.Endpoints(), Overrides: []store.Override{{Resource: resource, Servers: other.Endpoints()}},
	})
	return s, main, other
}

// TestOverride checks that a resource with an etcd of its own is there and nowhere else, in both of
// its forms, and that its revisions are that etcd's.
func TestOverride(t *testing.T) {
	events, newer, maps := scheme.For[*corev1.Event](table), scheme.For[*eventsv1.Event](table), scheme.For[*corev1.ConfigMap](table)
	s, main, other := overridden(t, schema.GroupResource{Group: "events.k8s.io", Resource: "events"})
	for range 20 {
		main.Put(t, map[string]string{"/elsewhere": "x"})
	}
	create(t, s, configMap("default", "a", "1"))
	event := create(t, s, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e1"}})
	if got := main.Values(t, "/registry/events"); len(got) != 0 {
		t.Errorf("the main etcd has %v", got)
	}
	if got := other.Values(t, "/registry"); len(got) != 1 || got["/registry/events/default/e1"] == "" {
		t.Errorf("the other etcd has %v", got)
	}
	if granted, _ := other.Lease(t, "/registry/events/default/e1"); granted == 0 {
		t.Error("the event has no lease")
	}
	mainly, err := s.RevisionOf(t.Context(), maps)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []*scheme.Kind{events, newer} {
		if s.Of(kind) == s || s.Of(kind) != s.Of(events) {
			t.Errorf("%s is not in the cluster for events", kind)
		}
		now, err := s.RevisionOf(t.Context(), kind)
		if err != nil || now >= mainly || now != revision(t, event) {
			t.Errorf("the revision of %s is %d, %v; the main etcd's is %d", kind, now, err, mainly)
		}
	}
	if got, err := s.Get(t.Context(), events, "default", "e1"); err != nil || got.GetResourceVersion() != event.GetResourceVersion() {
		t.Errorf("got %v, %v", got, err)
	}
	create(t, s, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e2"}})
	first, err := s.List(t.Context(), events, store.ListOptions{Limit: 1})
	if err != nil || len(first.Objects) != 1 || first.Revision != revision(t, event)+1 {
		t.Fatalf("the first page is %+v, %v", first, err)
	}
	if _, err := s.Delete(t.Context(), events, "default", "e2", nil); err != nil {
		t.Fatal(err)
	}
	second, err := s.List(t.Context(), events, store.ListOptions{Limit: 1, Continue: first.Continue})
	if err != nil || len(second.Objects) != 1 || second.Objects[0].GetName() != "e2" || second.Revision != first.Revision {
		t.Errorf("the second page is %+v, %v", second, err)
	}
	if _, err := s.Get(t.Context(), events, "default", "e2"); !apierrors.IsNotFound(err) {
		t.Errorf("after its deletion: %v", err)
	}
	mainHistory, err := s.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if history, err := s.Of(events).History(t.Context()); err != nil || history == mainHistory {
		t.Errorf("the history of the other etcd is %v, %v; of the main one %v", history, err, mainHistory)
	}
	clusters := s.Clusters()
	if len(clusters) != 2 || clusters[0] != s || clusters[0].Cluster() != "" || clusters[1].Cluster() != "events" {
		t.Errorf("the clusters are %v", clusters)
	}
}

func TestReadyAsksEveryCluster(t *testing.T) {
	s, _, other := overridden(t, schema.GroupResource{Resource: "events"})
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.Stop(t)
	ctx, cancel := contextWithin(t)
	defer cancel()
	if err := s.Ready(ctx); err == nil || !strings.Contains(err.Error(), other.Endpoints()[0]) {
		t.Errorf("with an etcd that is away: %v", err)
	}
}

func TestOverridesThatAreRefused(t *testing.T) {
	events := schema.GroupResource{Resource: "events"}
	for what, c := range map[string]struct {
		overrides []store.Override
		says      string
	}{
		"unknown": {[]store.Override{{Resource: schema.GroupResource{Resource: "things"}, Servers: []string{"http://127.0.0.1:1"}}}, "no resource things"},
		"twice": {[]store.Override{
			{Resource: events, Servers: []string{"http://127.0.0.1:1"}},
			{Resource: schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, Servers: []string{"http://127.0.0.1:2"}},
		}, "two etcd clusters"},
	} {
		_, err := store.Open(t.Context(), store.Config{Servers: []string{"http://127.0.0.1:1"}, Table: table, Overrides: c.overrides})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
