package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestSnapshot: an administrator gets the whole content of each etcd, and all others get nothing.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	events := etcdtest.New(t)
	s := harness.StartWith(t, func(cfg *apiserver.Config) {
		cfg.Etcd.ServersOverrides = []string{"/events#" + events[0]}
	})
	made := createMap(t, harness.Typed(t, s.Admin()), "needle", strings.Repeat("needle in etcd ", 1000), nil)
	res, body := s.Exchange(s.Admin(), "GET", snapshot.Path, "", nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got %s %s", res.Status, body)
	}
	if _, err := snapshot.Verify(strings.NewReader(body)); err != nil {
		t.Error(err)
	}
	if !strings.Contains(body, "needle in etcd needle") {
		t.Error("the snapshot does not hold what was written")
	}
	for header, want := range map[string]string{
		snapshot.HeaderEtcd: "main", snapshot.HeaderClusters: "main,events", "Content-Type": "application/octet-stream", "Cache-Control": "no-store",
	} {
		if got := res.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	written, err := strconv.ParseInt(made.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if least, err := strconv.ParseInt(res.Header.Get(snapshot.HeaderRevision), 10, 64); err != nil || least < written {
		t.Errorf("the header promises revision %d (%v), the write was at %d", least, err, written)
	}
	if res, body := s.Exchange(s.Admin(), "GET", snapshot.Path+"?etcd=events", "", nil); res.StatusCode != http.StatusOK || strings.Contains(body, "needle") || res.Header.Get(snapshot.HeaderEtcd) != "events" {
		t.Errorf("of events: got %s", res.Status)
	} else if _, err := snapshot.Verify(strings.NewReader(body)); err != nil {
		t.Errorf("of events: got %v", err)
	}
	if res, body := s.Exchange(s.Admin(), "HEAD", snapshot.Path, "", nil); res.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: got %s", res.Status)
	}
	for _, tc := range []struct {
		name, method, path string
		config             *rest.Config
		code               int
		says               string
	}{
		{"another etcd", "GET", snapshot.Path + "?etcd=sheep", s.Admin(), 400, `there is no etcd \"sheep\"; there are: main, events`},
		{"another method", "POST", snapshot.Path, s.Admin(), 405, "MethodNotAllowed"},
		{"the controllers", "GET", snapshot.Path, s.Service("system:kube-controller-manager"), 403, `cannot get path`},
		{"a node", "GET", snapshot.Path, s.Service("system:node:n1"), 403, `cannot get path`},
		{"anonymous", "GET", snapshot.Path, rest.AnonymousClientConfig(s.Admin()), 403, `cannot get path`},
	} {
		if res, body := s.Exchange(tc.config, tc.method, tc.path, "", nil); res.StatusCode != tc.code || !strings.Contains(body, tc.says) {
			t.Errorf("%s: got %s %s", tc.name, res.Status, body)
		}
	}
}

// TestSnapshotsOneByOne: while one snapshot is read no other starts; a reader that disconnects
// frees its slot, and one whose server shuts down does not take a part for the whole.
func TestSnapshotsOneByOne(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	api := harness.Typed(t, s.Admin())
	for i := range 12 {
		createMap(t, api, "filler-"+strconv.Itoa(i), strings.Repeat(strconv.Itoa(i), 900_000/len(strconv.Itoa(i))), nil)
	}
	begin := func() (*http.Response, func()) {
		t.Helper()
		client, err := rest.HTTPClientFor(s.Admin())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", s.URL+snapshot.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("beginning a snapshot: %v, %v", res, err)
		}
		return res, func() { cancel(); _ = res.Body.Close() }
	}
	_, leave := begin()
	if res, body := s.Exchange(s.Admin(), "GET", snapshot.Path, "", nil); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "another snapshot is being read") {
		t.Errorf("a second snapshot: got %s %s", res.Status, body)
	}
	leave()
	harness.Eventually(t, "the slot is free again", func() bool {
		res, body := s.Exchange(s.Admin(), "GET", snapshot.Path, "", nil)
		_, err := snapshot.Verify(strings.NewReader(body))
		return res.StatusCode == http.StatusOK && err == nil
	})
	res, leave := begin()
	defer leave()
	s.Stop()
	data, err := io.ReadAll(res.Body)
	if _, broken := snapshot.Verify(bytes.NewReader(data)); err == nil && broken != nil {
		t.Errorf("reading %d bytes ended without an error: %v", len(data), broken)
	}
	if err == nil {
		t.Errorf("a server that shut down sent all of %d bytes", len(data))
	}
}

// TestFullEtcd: when etcd is full, writers get an API error, and reads and watches work; when there
// is space again, writes work too.
func TestFullEtcd(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.StartSmall(t, 12<<20)
	s := harness.New(t, etcd.Endpoints())
	s.Start()
	api := harness.Typed(t, s.Admin())
	doomed := createMap(t, api, "doomed", "1", nil)
	watch, err := api.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: doomed.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	etcd.Fill(t)
	js := map[string]string{"Content-Type": "application/json"}
	res, body := s.Exchange(s.Admin(), "POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`, js)
	if res.StatusCode != 500 || !strings.Contains(body, `"kind":"Status"`) || !strings.Contains(body, "etcdserver: mvcc: database space exceeded: nothing can be written until") {
		t.Errorf("creating: got %s %s", res.Status, body)
	}
	if res, body := s.Exchange(s.Admin(), "GET", "/api/v1/namespaces/default/configmaps/doomed", "", nil); res.StatusCode != 200 {
		t.Errorf("reading: got %s %s", res.Status, body)
	}
	if res, body := s.Exchange(s.Admin(), "GET", "/readyz", "", nil); res.StatusCode != 200 {
		t.Errorf("the apiserver is not ready: %s %s", res.Status, body)
	}
	// A deletion takes no space, and watchers see it.
	if err := api.CoreV1().ConfigMaps("default").Delete(t.Context(), "doomed", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting: %v", err)
	}
	if event := <-watch.ResultChan(); event.Type != "DELETED" {
		t.Errorf("the watch delivers %+v", event)
	}
	res, body = s.Exchange(s.Admin(), "GET", "/debug/garboard/status", "", nil)
	if res.StatusCode != 200 || !strings.Contains(body, `"alarm":"NOSPACE"`) || !strings.Contains(body, `"quota":12582912`) {
		t.Errorf("got the status %s %s", res.Status, body)
	}
	etcd.MakeRoom(t)
	createMap(t, api, "new", "1", nil)
	if event := <-watch.ResultChan(); event.Type != "ADDED" {
		t.Errorf("the watch delivers %+v", event)
	}
}
