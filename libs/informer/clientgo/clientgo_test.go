package clientgo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

var h1, h2 = fabric.History{Created: 1}, fabric.History{Created: 2}

// driven is a source whose followers are driven by the test.
type driven struct {
	mu    sync.Mutex
	sinks []*view
	ended int
	fresh error
}

type drivenFollower struct {
	informer.FollowerDefaults
	source *driven
}

func (s *driven) Follower(_ *scheme.Kind, _ informer.View, sink informer.Sink) informer.Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks = append(s.sinks, sink.(*view))
	return drivenFollower{source: s}
}

func (f drivenFollower) Run(ctx context.Context) error {
	<-ctx.Done()
	f.source.mu.Lock()
	defer f.source.mu.Unlock()
	f.source.ended++
	return nil
}

func (f drivenFollower) Refresh(context.Context) error {
	f.source.mu.Lock()
	defer f.source.mu.Unlock()
	return f.source.fresh
}

func (s *driven) view(t *testing.T, i int) *view {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sinks) <= i {
		t.Fatalf("only %d views are followed", len(s.sinks))
	}
	return s.sinks[i]
}

// apiserver allows every user except deny, and answers everything else with 418.
type apiserver struct {
	mu    sync.Mutex
	deny  string
	asked []string
}

func (a *apiserver) RoundTrip(req *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := httptest.NewRecorder()
	if req.URL.Path == reviewsPath {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		answer.WriteHeader(http.StatusCreated)
		allowed := a.deny == "" || req.Header.Get("Authorization") != a.deny
		if !json.Valid(body) {
			return nil, errors.New("the review is not JSON")
		}
		fmt.Fprintf(answer, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%v}}`, allowed)
		return answer.Result(), nil
	}
	a.asked = append(a.asked, req.URL.RequestURI())
	answer.WriteHeader(http.StatusTeapot)
	return answer.Result(), nil
}

// run runs an adapter over a driven source, within a bubble.
func run(t *testing.T, change ...func(*Config)) (http.RoundTripper, *driven, *apiserver) {
	t.Helper()
	source, server := &driven{}, &apiserver{}
	cfg := Config{REST: &rest.Config{Host: "http://x"}, Source: source}
	for _, c := range change {
		c(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if source.ended != len(source.sinks) {
			t.Errorf("%d of %d followers have ended", source.ended, len(source.sinks))
		}
	})
	synctest.Wait()
	return a.RoundTripper(server), source, server
}

func get(t *testing.T, to http.RoundTripper, uri string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	answer, err := to.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func pod(name, uid string, revision int64, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, UID: types.UID(uid), ResourceVersion: fmt.Sprint(revision), Labels: labels,
	}}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return p
}

func put(p *corev1.Pod, revision, prev int64) informer.Change {
	return informer.Change{Revision: revision, Prev: prev, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Object: p}
}

func gone(p *corev1.Pod, revision, prev int64) informer.Change {
	return informer.Change{Revision: revision, Prev: prev, Deleted: true, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// events reads n events of a watch, or fewer if it ends, as "TYPE name@version".
func events(t *testing.T, answer *http.Response, n int) []string {
	t.Helper()
	var said []string
	decoder := json.NewDecoder(answer.Body)
	for len(said) < n {
		var event struct {
			Type   string
			Object struct {
				Kind     string
				Code     int
				Metadata metav1.ObjectMeta
			}
		}
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return append(said, "END")
		} else if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s %s@%s", event.Type, event.Object.Metadata.Name, event.Object.Metadata.ResourceVersion)
		if event.Type == "ERROR" {
			text = fmt.Sprintf("ERROR %d", event.Object.Code)
		}
		if event.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			text += " END OF INITIAL"
		}
		said = append(said, text)
	}
	return said
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

const pods = "/api/v1/namespaces/a/pods"

// filled runs an adapter that follows the pods of namespace a, at revision 10.
func filled(t *testing.T) (http.RoundTripper, *view, *driven, *apiserver) {
	t.Helper()
	to, source, server := run(t)
	go func() {
		for {
			source.mu.Lock()
			n := len(source.sinks)
			source.mu.Unlock()
			if n > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		v := source.view(t, 0)
		v.Replace(fabric.Position{History: h1, Revision: 10}, []informer.Object{pod("y", "1", 5, map[string]string{"app": "x"}), pod("b", "2", 9, nil)})
	}()
	answer := get(t, to, pods)
	var list corev1.PodList
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if list.Kind != "PodList" || list.ResourceVersion != "10" || len(list.Items) != 2 || list.Items[0].Name != "b" || list.Items[0].Kind != "" {
		t.Fatalf("the list is %+v", list)
	}
	return to, source.view(t, 0), source, server
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, v, _, server := filled(t)
		whole := get(t, to, pods+"?watch=1&resourceVersion=10&allowWatchBookmarks=true&timeoutSeconds=100")
		some := get(t, to, pods+"?watch=true&resourceVersion=10&labelSelector=app%3Dx")
		initial := get(t, to, pods+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		expect(t, events(t, initial, 3), "ADDED b@9", "ADDED y@5", "BOOKMARK @10 END OF INITIAL")
		_ = initial.Body.Close()

		y := pod("y", "1", 12, nil)
		v.Apply([]informer.Change{put(y, 12, 9)}, 12)                           // leaves the selection
		v.Apply([]informer.Change{gone(y, 13, 12)}, 13)                         // is deleted
		v.Apply(nil, 20)                                                        // nothing
		again := pod("b", "3", 25, map[string]string{"app": "x"})               // re-created unseen,
		v.Apply([]informer.Change{put(again, 25, 0)}, 30)                       // in an answer
		v.Apply([]informer.Change{gone(pod("never", "4", 31, nil), 31, 0)}, 31) // came and went
		expect(t, events(t, whole, 5), "MODIFIED y@12", "DELETED y@13", "DELETED b@20", "ADDED b@25", "BOOKMARK @30")
		expect(t, events(t, some, 2), "DELETED y@12", "ADDED b@25")

		// A watch can begin at any revision after which all changes are known; for others the
		// apiserver is asked.
		for version, known := range map[int]bool{9: false, 10: true, 11: true, 12: true, 13: true, 20: true, 24: false, 27: false, 30: true, 31: true} {
			answer := get(t, to, fmt.Sprintf("%s?watch=1&resourceVersion=%d", pods, version))
			if (answer.StatusCode == http.StatusOK) != known {
				t.Errorf("a watch from %d: %s", version, answer.Status)
			}
			_ = answer.Body.Close()
		}
		if len(server.asked) != 3 {
			t.Errorf("the apiserver was asked %q", server.asked)
		}
		// When its time is over, a watch sends a bookmark.
		expect(t, events(t, whole, 9), "BOOKMARK @31", "END")

		// A whole view with the same content sends nothing; any other ends the watch.
		v.Replace(fabric.Position{History: h1, Revision: 40}, []informer.Object{again})
		v.Apply([]informer.Change{put(pod("n", "5", 41, map[string]string{"app": "x"}), 41, 31)}, 41)
		expect(t, events(t, some, 1), "ADDED n@41")
		v.Replace(fabric.Position{History: h1, Revision: 50}, []informer.Object{again})
		expect(t, events(t, some, 9), "ERROR 410", "END")
		_ = some.Body.Close()
		_ = whole.Body.Close()
	})
}

func TestAnotherHistoryEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, v, _, _ := filled(t)
		watching := get(t, to, pods+"?watch=1&resourceVersion=10")
		v.Replace(fabric.Position{History: h2, Revision: 12}, []informer.Object{pod("b", "2", 9, nil), pod("y", "1", 5, nil)})
		expect(t, events(t, watching, 9), "ERROR 410", "END")
		_ = watching.Body.Close()
	})
}

func TestSlowWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, v, _, _ := filled(t)
		watching := get(t, to, pods+"?watch=1&resourceVersion=10")
		for i := range int64(maxChanges + 10) {
			v.Apply([]informer.Change{put(pod("y", "1", 11+i, nil), 11+i, 10+i)}, 11+i)
		}
		expect(t, events(t, watching, 9), "END")
		_ = watching.Body.Close()
		if len(v.steps) > maxSteps || v.changes > maxChanges {
			t.Errorf("%d steps and %d changes are kept", len(v.steps), v.changes)
		}
	})
}

func TestNobodyFollowsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, _, source, _ := filled(t)
		watching := get(t, to, pods+"?watch=1&resourceVersion=10")
		time.Sleep(10 * DefaultLinger)
		if source.ended != 0 {
			t.Error("a watched view is no longer followed")
		}
		_ = watching.Body.Close()
		time.Sleep(2 * DefaultLinger)
		synctest.Wait()
		if source.ended != 1 {
			t.Error("a view without watches is still followed")
		}
	})
}

func TestWhatGoesToTheApiserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, v, source, server := filled(t)
		for _, uri := range []string{
			pods + "/b", pods + "?limit=1", pods + "?continue=x", pods + "?resourceVersion=5&resourceVersionMatch=Exact", pods + "?resourceVersion=5&limit=500",
			pods + "?resourceVersion=x", pods + "?watch=maybe", pods + "?fieldSelector=spec.colour%3Dred", pods + "?labelSelector=(", pods + "?pretty=true",
			pods + "?watch=1&sendInitialEvents=true", pods + "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", pods + "?resourceVersionMatch=NotOlderThan",
			"/api/v1/watch/namespaces/a/pods", "/apis/events.k8s.io/v1/events", "/api/v1/namespaces/a/nodes", "/healthz", "/",
			"/api/v1/namespaces/a", "/api/v1//pods", pods + "?resourceVersion=11", pods + "?limit=2&limit=3",
		} {
			before := len(server.asked)
			if answer := get(t, to, uri); answer.StatusCode != http.StatusTeapot || len(server.asked) != before+1 || server.asked[before] != uri {
				t.Errorf("%s did not go to the apiserver: %s, %q", uri, answer.Status, server.asked[before:])
			}
		}
		for _, accept := range []string{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/yaml", "", "application/json;q=0.5"} {
			if answer := get(t, to, pods, "Accept", accept); answer.StatusCode != http.StatusTeapot {
				t.Errorf("%q was answered: %s", accept, answer.Status)
			}
		}
		// A user without permission, a view that cannot be confirmed as fresh, and a view that
		// cannot be read.
		server.deny = "Bearer jane"
		if answer := get(t, to, pods, "Authorization", "Bearer jane"); answer.StatusCode != http.StatusTeapot {
			t.Errorf("jane was answered: %s", answer.Status)
		}
		source.fresh = informer.ErrNotFresh
		if answer := get(t, to, pods); answer.StatusCode != http.StatusTeapot {
			t.Errorf("possibly stale content was returned as fresh: %s", answer.Status)
		}
		if answer := get(t, to, pods+"?resourceVersion=0"); answer.StatusCode != http.StatusOK {
			t.Errorf("a list from the cache: %s", answer.Status)
		}
		source.fresh = nil
		go func() {
			time.Sleep(time.Second)
			source.view(t, 1).WatchError(t.Context(), errors.New("forbidden"))
		}()
		if answer := get(t, to, "/api/v1/secrets?resourceVersion=0"); answer.StatusCode != http.StatusTeapot {
			t.Errorf("a view that cannot be read: %s", answer.Status)
		}
		_ = v
	})
}

// TestPatience asks for a view that never gets any content.
func TestPatience(t *testing.T) {
	for _, patience := range []time.Duration{0, 7 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			to, _, _ := run(t, func(cfg *Config) { cfg.Patience = patience })
			began := time.Now()
			answer := get(t, to, pods+"?resourceVersion=0")
			if took, want := time.Since(began), cmp.Or(patience, DefaultPatience); answer.StatusCode != http.StatusTeapot || took != want {
				t.Errorf("the apiserver was asked after %v, want %v: %s", took, want, answer.Status)
			}
		})
	}
}

func TestNotRunning(t *testing.T) {
	source, server := &driven{}, &apiserver{}
	a, err := New(Config{REST: &rest.Config{Host: "http://x"}, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	if answer := get(t, a.RoundTripper(server), pods); answer.StatusCode != http.StatusTeapot || len(source.sinks) > 0 {
		t.Errorf("an adapter that does not run has answered: %s", answer.Status)
	}
	for _, cfg := range []Config{{}, {REST: &rest.Config{}}, {REST: &rest.Config{Host: "x"}}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("New accepted %+v", cfg)
		}
	}
}

// FuzzParse checks that no request makes the adapter fail, and that it accepts only lists and
// watches of a served collection.
func FuzzParse(f *testing.F) {
	f.Add(pods, "watch=1&resourceVersion=5&fieldSelector=metadata.name%3Dx", "application/json")
	f.Add("/apis/apps/v1/deployments", "limit=500&resourceVersion=0", "application/vnd.kubernetes.protobuf,application/json")
	f.Add("/api/v1/nodes", "labelSelector=a+in+(b,c)&timeoutSeconds=9223372036854775807", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	a, err := New(Config{REST: &rest.Config{Host: "http://x"}, Source: &driven{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path, query, accept string) {
		req := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{"Accept": {accept}}}
		r := a.parse(req, nowhere{})
		if r == nil {
			return
		}
		if !strings.HasSuffix(strings.TrimRight(path, "/"), r.kind.Resource) || r.version < 0 || r.timeout < 0 || r.limit < 0 {
			t.Errorf("%q, %q was parsed as %+v", path, query, r)
		}
		r.selected.matches(r.kind.New())
	})
}

// TestLargeObjectsAreNotRememberedForEver checks that what a view keeps for watches is bounded in
// bytes too, since one object may be a million times as large as another.
func TestLargeObjectsAreNotRememberedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, v, _, _ := filled(t)
		watch := get(t, to, pods+"?watch=1&resourceVersion=10&allowWatchBookmarks=true&timeoutSeconds=100")
		text := strings.Repeat("x", 1<<20)
		const updates = 3 * maxBytes >> 20
		for revision := int64(11); revision < 11+updates; revision++ {
			large := pod("b", "2", revision, nil)
			large.Annotations = map[string]string{"large": text} // the same bytes, but counted each time
			v.Apply([]informer.Change{put(large, revision, revision-1)}, revision)
		}
		bytes := 0
		for _, s := range v.steps {
			for _, c := range s.changes {
				if before, ok := c.before.(*corev1.Pod); ok {
					bytes += before.Size()
				}
			}
		}
		if bytes > maxBytes || bytes < maxBytes/2 {
			t.Errorf("%d bytes are kept, in %d steps", bytes, len(v.steps))
		}
		// A watch that is behind ends, and continues from its revision; a watch that is not behind
		// goes on.
		expect(t, events(t, watch, 9), "END")
		at := v.position
		watch = get(t, to, fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=100", pods, at-1))
		expect(t, events(t, watch, 1), fmt.Sprintf("MODIFIED b@%d", at))
		_ = watch.Body.Close()
		v.Apply([]informer.Change{gone(pod("b", "2", at, nil), at+1, at)}, at+1)
		v.Replace(fabric.Position{History: h1, Revision: at + 2}, nil)
		if v.bytes != 0 {
			t.Errorf("%d bytes are counted that are no longer kept", v.bytes)
		}
	})
}

// TestViewsAreBounded checks that a program that looks at one name after the other does not end up
// following all of them; requests beyond the limit go over HTTP.
func TestViewsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, source, server := run(t)
		a := to.(*transport).adapter
		kind := scheme.For[*corev1.Pod](a.table)
		one := func(i int) informer.View { return informer.View{Namespace: "a", Name: fmt.Sprint(i)} }
		var release []func()
		for i := range maxViews {
			v, done, _ := a.acquire(kind, one(i))
			if v == nil {
				t.Fatalf("the view %d is not followed", i)
			}
			release = append(release, done)
		}
		if v, _, _ := a.acquire(kind, one(0)); v == nil {
			t.Error("a view that is followed already is refused")
		}
		if _, _, why := a.acquire(kind, one(maxViews)); why != whyTooMany {
			t.Errorf("one more view was refused because of %q", why)
		}
		if answer := get(t, to, pods); answer.StatusCode != http.StatusTeapot || len(server.asked) != 1 {
			t.Errorf("a request for one more view: %s", answer.Status)
		}
		for _, done := range release {
			done()
		}
		time.Sleep(2 * DefaultLinger)
		if v, _, _ := a.acquire(kind, one(maxViews)); v == nil {
			t.Error("no new view is followed, although the others have no watches any more")
		}
		synctest.Wait()
		if len(source.sinks) != maxViews+1 {
			t.Errorf("%d views were followed", len(source.sinks))
		}
	})
}
