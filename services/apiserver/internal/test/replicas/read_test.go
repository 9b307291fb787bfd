package replicas_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

func version(t *testing.T, text string) int64 {
	t.Helper()
	parsed, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// replicasReadWrites checks that what one replica has written, every other returns at once, by
// every kind of read.
func replicasReadWrites(t *testing.T, r *replicas) {
	ctx := t.Context()
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for n := range 12 {
				name := fmt.Sprintf("w%d-%d", w, n)
				made, err := r.any().CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}}}, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("creating %s: %v", name, err)
					return
				}
				made.Data = map[string]string{"n": "1"}
				// Another replica has the version on which the change is based.
				changed, err := r.any().CoreV1().ConfigMaps("default").Update(ctx, made, metav1.UpdateOptions{})
				if err != nil {
					t.Errorf("updating %s: %v", name, err)
					return
				}
				if got, err := r.any().CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err != nil || got.ResourceVersion != changed.ResourceVersion {
					t.Errorf("getting %s: %v at %s, want %s", name, err, got.ResourceVersion, changed.ResourceVersion)
				}
				for what, opts := range map[string]metav1.ListOptions{
					"now":         {},
					"a page now":  {Limit: 500},
					"not older":   {ResourceVersion: changed.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
					"of old":      {ResourceVersion: changed.ResourceVersion},
					"exactly":     {ResourceVersion: changed.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
					"a page then": {ResourceVersion: changed.ResourceVersion, Limit: 500, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
				} {
					opts.LabelSelector = "of=" + name
					list, err := r.any().CoreV1().ConfigMaps("default").List(ctx, opts)
					switch {
					case err != nil:
						t.Errorf("listing %s: got %v", what, err)
					case len(list.Items) != 1 || list.Items[0].ResourceVersion != changed.ResourceVersion:
						t.Errorf("listing %s after %s: got %d objects at %s", what, changed.ResourceVersion, len(list.Items), list.ResourceVersion)
					case version(t, list.ResourceVersion) < version(t, changed.ResourceVersion):
						t.Errorf("listing %s after %s: got version %s", what, changed.ResourceVersion, list.ResourceVersion)
					case opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact && list.ResourceVersion != changed.ResourceVersion:
						t.Errorf("listing %s at %s: got version %s", what, changed.ResourceVersion, list.ResourceVersion)
					}
				}
				if n%4 != 0 {
					continue
				}
				// The initial events and the bookmark after them are not older than requested.
				if wrong := r.initial(ctx, name, changed.ResourceVersion); wrong != "" {
					t.Errorf("watching from %s: %s", changed.ResourceVersion, wrong)
				}
			}
		})
	}
	writers.Wait()

	// No replica makes up a future revision.
	list, err := r.clients[0].CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	future := fmt.Sprint(version(t, list.ResourceVersion) + 1_000_000)
	r.each(func(i int) {
		for _, match := range []string{"", string(metav1.ResourceVersionMatchNotOlderThan)} {
			// client-go would retry, as the response says.
			request := r.clients[i].CoreV1().RESTClient().Get().MaxRetries(0).Namespace("default").Resource("configmaps").Param("resourceVersion", future)
			if match != "" {
				request = request.Param("resourceVersionMatch", match)
			}
			err := request.Do(ctx).Error()
			if !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "Too large resource version: "+future) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
				t.Errorf("at replica %d, listing a future revision: got %v", i, err)
			}
		}
	})
}

// initial opens a watch with initial events, not older than a version, at any replica, and returns
// what is wrong with them.
func (r *replicas) initial(ctx context.Context, name, from string) string {
	yes, seconds := true, int64(60)
	watching, err := r.any().CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{
		LabelSelector: "of=" + name, ResourceVersion: from, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		SendInitialEvents: &yes, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		return err.Error()
	}
	defer watching.Stop()
	found := ""
	for event := range watching.ResultChan() {
		object, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			return fmt.Sprint(event)
		}
		if event.Type == watch.Bookmark {
			switch {
			case object.Annotations[metav1.InitialEventsAnnotationKey] != "true":
				continue
			case found != from:
				return "the initial events have version " + found
			case version(r.t, object.ResourceVersion) < version(r.t, from):
				return "the bookmark has version " + object.ResourceVersion
			}
			return ""
		}
		found = object.ResourceVersion
	}
	return "the watch ended before its bookmark"
}

// replicasGoOn checks that a list's pages and a watch's parts can come from different replicas, and
// together are what one replica would have returned.
func replicasGoOn(t *testing.T, r *replicas) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	maps0 := r.clients[0].CoreV1().ConfigMaps("default")
	for n := range 50 {
		if _, err := maps0.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%02d", n)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Objects of other tests do not matter.
	begin, err := maps0.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{} // by version
	var mu sync.Mutex
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprintf("c%02d", rand.IntN(50))
			at := r.any().CoreV1().ConfigMaps("default")
			object, err := at.Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				object.Data = map[string]string{"n": fmt.Sprint(n)}
				object, err = at.Update(ctx, object, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Errorf("changing %s: %v", name, err)
				return
			}
			mu.Lock()
			want[object.ResourceVersion] = name
			mu.Unlock()
		}
	})
	for range 6 {
		opts, seen, at := metav1.ListOptions{Limit: 7}, map[string]string{}, ""
		for {
			page, err := r.any().CoreV1().ConfigMaps("default").List(ctx, opts)
			if err != nil {
				t.Fatalf("reading a page: %v", err)
			}
			if at == "" {
				at = page.ResourceVersion
			}
			if page.ResourceVersion != at {
				t.Errorf("a page of the list at version %s has version %s", at, page.ResourceVersion)
			}
			for _, object := range page.Items {
				if seen[object.Name] != "" {
					t.Errorf("%s is on two pages", object.Name)
				}
				seen[object.Name] = object.ResourceVersion
			}
			if opts.Continue = page.Continue; opts.Continue == "" {
				break
			}
		}
		whole, err := r.any().CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{ResourceVersion: at, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		if err != nil {
			t.Fatal(err)
		}
		exact := map[string]string{}
		for _, object := range whole.Items {
			exact[object.Name] = object.ResourceVersion
		}
		if !maps.Equal(seen, exact) {
			t.Errorf("the pages at %s have\n%v, the whole list has\n%v", at, seen, exact)
		}
	}
	close(stop)
	writing.Wait()
	last := ""
	for at := range want {
		if last == "" || version(t, at) > version(t, last) {
			last = at
		}
	}
	// A watch that moves to another replica after every few events, each time resuming from the
	// last one.
	got, at := map[string]string{}, begin.ResourceVersion
	deadline := time.Now().Add(harness.Patience)
	for version(t, at) < version(t, last) {
		if time.Now().After(deadline) {
			t.Fatalf("the watch reached only version %s of %s", at, last)
		}
		watching, err := r.any().CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: at, AllowWatchBookmarks: true})
		if err != nil {
			t.Fatalf("watching from %s: %v", at, err)
		}
		for n := 1 + rand.IntN(20); n > 0 && version(t, at) < version(t, last); n-- {
			event, ok := <-watching.ResultChan()
			if !ok {
				break
			}
			object, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				t.Fatalf("watching from %s: %v", at, event)
			}
			if version(t, object.ResourceVersion) <= version(t, at) && event.Type != watch.Bookmark {
				t.Errorf("after version %s came %s", at, object.ResourceVersion)
			}
			at = object.ResourceVersion
			if event.Type == watch.Modified {
				got[at] = object.Name
			}
		}
		watching.Stop()
	}
	if !maps.Equal(got, want) {
		t.Errorf("the watch delivered %d events, want %d", len(got), len(want))
	}
}

// replicasCarryLogs checks that every replica returns a node's logs.
func replicasCarryLogs(t *testing.T, r *replicas) {
	ctx := t.Context()
	if _, err := r.any().CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := r.any().CoreV1().Pods("default").Create(ctx, harness.Pod("p", "n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.servers[0].ServeNode("n1", func(w http.ResponseWriter, request *http.Request) {
		_, _ = fmt.Fprintf(w, "of %s\n", request.URL.Query().Get("uid"))
	})
	for i, client := range r.clients {
		got, err := client.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil || string(got) != fmt.Sprintf("of %s\n", pod.UID) {
			t.Errorf("at replica %d: got %q, %v", i, got, err)
		}
	}
}
