package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestEventsInAnEtcdOfTheirOwn checks the whole path of events that have an etcd cluster of their
// own: written, listed in pages, watched from a revision, published and followed. The rest works as
// before.
func TestEventsInAnEtcdOfTheirOwn(t *testing.T) {
	t.Parallel()
	main, other := etcdtest.Start(t), etcdtest.Start(t)
	s := harness.New(t, main.Endpoints())
	s.Change = func(cfg *apiserver.Config) {
		cfg.Etcd.ServersOverrides = []string{"/events#" + other.Endpoints()[0]}
	}
	s.Start()
	clients := harness.Typed(t, s.Admin())
	events := clients.CoreV1().Events("default")
	event := func(name string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
			Reason:         "Test", Type: corev1.EventTypeNormal,
		}
	}
	// From here on only the test writes to either etcd.
	harness.Eventually(t, "a publisher is elected for each part", func() bool {
		const elections = "/garboard/election/"
		return len(main.Values(t, elections)) > 0 && len(other.Values(t, elections)) > 0
	})
	var made []*corev1.Event
	for i := range 3 {
		e, err := events.Create(t.Context(), event(fmt.Sprint("e", i)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, e)
	}
	if got := main.Values(t, "/registry/events"); len(got) != 0 {
		t.Errorf("the main etcd holds %d events", len(got))
	}
	if got := other.Values(t, "/registry/"); len(got) != 3 {
		t.Errorf("the etcd for events holds %d objects", len(got))
	}
	if got := main.Values(t, "/registry/namespaces/default"); len(got) != 1 {
		t.Errorf("the main etcd lacks the default namespace")
	}

	first, err := events.List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || len(first.Items) != 2 || first.ResourceVersion != made[2].ResourceVersion {
		t.Fatalf("the first page: got %d events at %s, %v; the last event has version %s", len(first.Items), first.ResourceVersion, err, made[2].ResourceVersion)
	}
	second, err := events.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil || len(second.Items) != 1 || second.ResourceVersion != first.ResourceVersion {
		t.Errorf("the second page: got %+v, %v", second, err)
	}
	newer, err := clients.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(newer.Items) != 3 || newer.ResourceVersion != first.ResourceVersion {
		t.Errorf("in the newer version: got %d events at %s, %v", len(newer.Items), newer.ResourceVersion, err)
	}

	// A watch that begins with the present objects waits for the revision of the right etcd.
	yes := true
	initial, err := clients.CoreV1().Events("default").Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range made {
		if got := <-initial.ResultChan(); got.Type != watch.Added {
			t.Errorf("the watch begins with %v, want the events", got)
		}
	}
	if got := <-initial.ResultChan(); got.Type != watch.Bookmark || got.Object.(*corev1.Event).ResourceVersion != made[2].ResourceVersion {
		t.Errorf("the initial events end with %v, want a bookmark at %s", got, made[2].ResourceVersion)
	}
	initial.Stop()

	// After a restart a watch still resumes where it stopped.
	s.Stop()
	s.Start()
	clients = harness.Typed(t, s.Admin())
	watching, err := clients.CoreV1().Events("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: made[0].ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	for _, want := range made[1:] {
		got := <-watching.ResultChan()
		if e, ok := got.Object.(*corev1.Event); !ok || got.Type != watch.Added || e.Name != want.Name || e.ResourceVersion != want.ResourceVersion {
			t.Errorf("the resumed watch delivers %v, want %s", got, want.Name)
		}
	}

	// One follower of each etcd.
	conn := s.OnBus("system:kube-controller-manager")
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: fabricsource.New(fabricsource.Config{Conn: conn, Table: followed, Client: fake.New(followed)}), Table: followed, Service: "test",
	})
	eventInformer, mapInformer := informer.For[*corev1.Event](factory), informer.For[*corev1.ConfigMap](factory)
	ctx, cancel := context.WithCancel(t.Context())
	following := make(chan error, 1)
	go func() { following <- factory.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-following; err != nil {
			t.Error(err)
		}
	}()
	created, err := clients.CoreV1().Events("default").Create(t.Context(), event("e3"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clients.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the followers have both", func() bool {
		e, ok := eventInformer.Indexer().GetByKey("default/e3")
		c, there := mapInformer.Indexer().GetByKey("default/c")
		return ok && there && e.ResourceVersion == created.ResourceVersion && c.ResourceVersion == config.ResourceVersion &&
			len(eventInformer.Indexer().List()) == 4
	})

	// Each part has its own log, which only apiservers may read. Messages that are published before
	// a log is open are not in it (P6), so the test writes until each log holds something.
	written := map[string]map[string]bool{
		"configmaps": {config.ResourceVersion: true}, "events": {created.ResourceVersion: true},
	}
	write := map[string]func(){
		"configmaps": func() {
			config.Data = map[string]string{"seen": config.ResourceVersion}
			if config, err = clients.CoreV1().ConfigMaps("default").Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			written["configmaps"][config.ResourceVersion] = true
		},
		"events": func() {
			created.Count++
			if created, err = clients.CoreV1().Events("default").Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			written["events"][created.ResourceVersion] = true
		},
	}
	trusted := s.Trusted()
	for stream, resource := range map[string]string{"GARBOARD_WATCH": "configmaps", "GARBOARD_WATCH_EVENTS": "events"} {
		messages := subject.Resource("", resource)
		log, err := trusted.OpenLog(t.Context(), bus.LogConfig{Stream: stream, Subjects: []string{messages}, MaxAge: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		harness.Eventually(t, stream+" holds what was written", func() bool {
			message, err := log.Last(t.Context(), messages)
			if err != nil {
				write[resource]()
				return false
			}
			var last watchv1.Message
			if err := proto.Unmarshal(message.Data, &last); err != nil {
				t.Fatal(err)
			}
			if !written[resource][fmt.Sprint(last.GetRevision())] {
				write[resource]()
				return false
			}
			return true
		})
	}
}

var followed = scheme.New()

// TestStartBesideCorruptValues checks that an apiserver starts, and serves the rest, when etcd
// holds undecodable values, even of the kinds that the start itself reads.
func TestStartBesideCorruptValues(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	values := map[string]string{}
	for _, key := range []string{
		"configmaps/default/bad", "services/specs/default/bad", "namespaces/bad", "pods/default/bad",
		"minions/bad", "secrets/default/bad", "serviceaccounts/default/bad",
	} {
		values["/registry/"+key] = "k8s\x00rubbish"
	}
	etcd.Put(t, values)
	s := harness.New(t, etcd.Endpoints())
	s.Start()
	client := harness.Typed(t, s.Admin()).CoreV1()
	if _, err := client.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "good"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []metav1.ListOptions{{}, {ResourceVersion: "0"}, {Limit: 1}, {LabelSelector: "!x"}} {
		list, err := client.ConfigMaps("default").List(t.Context(), opts)
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != "good" {
			t.Errorf("a list with %+v: got %d items, %v", opts, len(list.Items), err)
		}
	}
	services, err := client.Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(services.Items) != 1 || services.Items[0].Name != "kubernetes" {
		t.Errorf("services: got %+v, %v", services, err)
	}
	_, err = client.ConfigMaps("default").Get(t.Context(), "bad", metav1.GetOptions{})
	var status apierrors.APIStatus
	if status, _ = err.(apierrors.APIStatus); status == nil || status.Status().Code != http.StatusInternalServerError ||
		!strings.Contains(err.Error(), "/registry/configmaps/default/bad") || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("a corrupt value: got %v", err)
	}
}
