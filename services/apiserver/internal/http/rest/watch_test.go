package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
)

// event is one event of a watch.
type event struct {
	Type   string
	Object json.RawMessage
}

func (e event) String() string { return e.Type + " " + resttest.ShowJSON(e.Object) }

// revision returns the revision of the API's newest ConfigMap list.
func (w *world) revision() string {
	var list metav1.PartialObjectMetadataList
	if err := json.NewDecoder(w.Send("GET "+maps, "", "").Body).Decode(&list); err != nil {
		w.T.Fatal(err)
	}
	return list.ResourceVersion
}

// history makes the changes that the tests of watches watch: ConfigMap one comes, changes and goes,
// while two stays. It returns the revision before.
func (w *world) history() (before string) {
	before = w.revision()
	w.Script([]resttest.Step{
		{Send: "POST " + maps, Body: `{"metadata":{"name":"one"}}`, Want: "201 ConfigMap one"},
		{Send: "POST " + maps, Body: `{"metadata":{"name":"two"}}`, Want: "201 ConfigMap two"},
		{Send: "PUT " + maps + "/one", Body: `{"metadata":{"name":"one","labels":{"a":"b"}}}`, Want: "200 ConfigMap one a=b"},
		{Send: "DELETE " + maps + "/one", Want: "200 Status configmaps one"},
	})
	return before
}

// TestWatchJSON reads a watch of the same changes with different options.
func TestWatchJSON(t *testing.T) {
	w := newWorld(t)
	from := w.history()
	const all = "ADDED ConfigMap one, ADDED ConfigMap two, MODIFIED ConfigMap one a=b, DELETED ConfigMap one a=b"
	for _, c := range []struct{ name, path, accept, want string }{
		{"all", maps + "?watch=1&", "", all},
		{"in an old path", "/api/v1/watch/namespaces/default/configmaps?", "", all},
		{"one in an old path", "/api/v1/watch/namespaces/default/configmaps/two?", "", "ADDED ConfigMap two"},
		{"one in an old path, named twice", "/api/v1/watch/namespaces/default/configmaps/two?fieldSelector=metadata.name%3Dtwo&", "", "ADDED ConfigMap two"},
		{"by name", maps + "?watch=true&fieldSelector=metadata.name%3Dtwo&", "", "ADDED ConfigMap two"},
		{"by label", maps + "?watch&labelSelector=a&", "", "ADDED ConfigMap one a=b, DELETED ConfigMap one a=b"},
		{"of all namespaces", "/api/v1/configmaps?watch=1&", "", all},
		{"of another namespace", "/api/v1/namespaces/other/configmaps?watch=1&", "", ""},
		{"as metadata", maps + "?watch=1&", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", strings.ReplaceAll(all, "ConfigMap", "PartialObjectMetadata")},
		{"as old metadata", maps + "?watch=1&fieldSelector=metadata.name%3Dtwo&", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
			"ADDED PartialObjectMetadata two of v1beta1"},
		{"as tables", maps + "?watch=1&", "application/json;as=Table;g=meta.k8s.io;v=v1", "ADDED Table one, ADDED Table two, MODIFIED Table one, DELETED Table one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.Send("GET "+c.path+"timeoutSeconds=1&resourceVersion="+from, "Accept: "+c.accept, "")
			if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Cache-Control") != "no-cache, private" {
				t.Fatalf("the response is %s with %v", r.Status, r.Header)
			}
			var got []string
			columns := 0
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				var e event
				if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
					t.Fatalf("%v in %q", err, lines.Text())
				}
				got = append(got, e.String())
				if strings.Contains(string(e.Object), `"columnDefinitions":[{`) {
					columns++
				}
			}
			if text := strings.Join(got, ", "); text != c.want || lines.Err() != nil {
				t.Errorf("got %q, %v, want %q", text, lines.Err(), c.want)
			}
			if want := strings.Contains(c.accept, "Table"); want != (columns == 1) {
				t.Errorf("the columns were sent %d times", columns)
			}
		})
	}
	if got := w.Sent.Load(); got != 4*5+1*4+2 {
		t.Errorf("%d events were counted", got)
	}
}

// TestWatchesRefused sends watches that cannot begin.
func TestWatchesRefused(t *testing.T) {
	w := newWorld(t)
	w.Script([]resttest.Step{
		{Send: "GET " + maps + "?watch=1&resourceVersion=x", Want: `422 configmaps "" is invalid: resourceVersion: Invalid value: "x": ...`},
		{Send: "GET " + maps + "?watch=1&timeoutSeconds=soon", Want: "400 strconv.ParseInt: parsing \"soon\": invalid syntax"},
		{Send: "GET " + maps + "?watch=1&labelSelector=%21%21", Want: "400 ..."},
		{Send: "GET " + maps + "?watch=1&sendInitialEvents=true",
			Want: `422 ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
		{Send: "GET " + maps + "?watch=1&includeObject=All", Header: "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", Want: "400 Unable to convert to Table..."},
		{Send: "GET " + maps + "?watch=1", Header: "Accept: text/html", Want: "406 ..."},
		{Send: "GET " + maps + "?watch=1", Header: "Accept: application/yaml,application/json;as=Rocket;g=meta.k8s.io;v=v1",
			Want: "406 application/yaml ..."},
		{Send: "GET " + maps + "?watch=1", Header: "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Want: "406 ..."},
		{Send: "GET /api/v1/watch/namespaces/default/configmaps/two?fieldSelector=metadata.name%3Done",
			Want: "400 fieldSelector metadata.name doesn't match requested name"},
		{Send: "GET /api/v1/watch/namespaces/default/configmaps/two?fieldSelector=data%3Done", Want: "400 ..."},
		{Send: "GET /api/v1/watch/namespaces/default/configmaps/two?fieldSelector=%3D%3D", Want: "400 ..."},
		// These are no watches.
		{Send: "GET " + maps + "?watch=0", Want: "200 ConfigMapList"},
		{Send: "GET " + maps + "?watch=False", Want: "200 ConfigMapList"},
		{Send: "GET " + resttest.Default + "serviceaccounts/default?watch=1", Want: "200 ServiceAccount default"},
	})
}

// TestWatchEnds: a watch ends by its timeout, when the server drains, and when its client goes. A
// negative timeout ends it at once.
func TestWatchEnds(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	if got := resttest.Show(w.Send("GET "+maps+"?watch=1&timeoutSeconds=-1", "", "")); !strings.HasPrefix(got, "200 ") {
		t.Errorf("with a negative timeout: %s", got)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	watch := w.Send("GET "+maps+"?watch=1", "", "")
	close(w.Drain)
	if _, err := io.ReadAll(watch.Body); err != nil {
		t.Errorf("the watch of a draining server ends with %v", err)
	}
}

// TestWatchProtobuf decodes the frames of a watch as client-go does: four bytes of length, and a
// WatchEvent whose object is a whole message of its own.
func TestWatchProtobuf(t *testing.T) {
	w := newWorld(t)
	from := w.history()
	r := w.Send("GET "+maps+"?watch=1&timeoutSeconds=1&resourceVersion="+from, "Accept: application/vnd.kubernetes.protobuf;stream=watch", "")
	if got := r.Header.Get("Content-Type"); got != "application/vnd.kubernetes.protobuf;stream=watch" {
		t.Errorf("the content type is %q", got)
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(data) > 0 {
		length := binary.BigEndian.Uint32(data)
		got = append(got, w.fromProtobuf(data[4:4+length]))
		data = data[4+length:]
	}
	if text := strings.Join(got, ", "); text != "ADDED one, ADDED two, MODIFIED one, DELETED one" {
		t.Errorf("got %q", text)
	}
}

// fromProtobuf formats an encoded WatchEvent.
func (w *world) fromProtobuf(data []byte) string {
	w.T.Helper()
	var e metav1.WatchEvent
	if err := e.Unmarshal(data); err != nil {
		w.T.Fatal(err)
	}
	decoder := protobuf.NewSerializer(w.Table.Scheme(), w.Table.Scheme())
	obj, _, err := decoder.Decode(e.Object.Raw, nil, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	configMap, ok := obj.(*corev1.ConfigMap)
	if !ok {
		w.T.Fatalf("got a %T", obj)
	}
	return e.Type + " " + configMap.Name
}

// TestWatchWebSocket reads a watch as a page in a browser does, in each subprotocol.
func TestWatchWebSocket(t *testing.T) {
	w := newWorld(t)
	from := w.history()
	const text, binary = websocket.MessageText, websocket.MessageBinary
	for _, c := range []struct {
		name, protocol, accept string
		kind                   websocket.MessageType
	}{
		{"text without a protocol", "", "application/json", text},
		{"binary without a protocol", "", protobufType, binary},
		{"binary", "binary.k8s.io", "application/json", binary},
		{"base64", "base64.binary.k8s.io", "application/json", text},
		{"base64 of protobuf", "base64.binary.k8s.io", protobufType, text},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			options := &websocket.DialOptions{HTTPHeader: map[string][]string{"Accept": {c.accept}, "Origin": {"https://elsewhere.example"}}}
			if c.protocol != "" {
				options.Subprotocols = []string{c.protocol}
			}
			conn, _, err := websocket.Dial(ctx, w.URL+maps+"?watch=1&resourceVersion="+from, options)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.CloseNow() }()
			if conn.Subprotocol() != c.protocol {
				t.Errorf("the subprotocol is %q", conn.Subprotocol())
			}
			var got []string
			for range 4 {
				kind, data, err := conn.Read(ctx)
				if err != nil || kind != c.kind {
					t.Fatalf("got a message of type %v, %v", kind, err)
				}
				if strings.HasPrefix(c.protocol, "base64") {
					if data, err = base64.StdEncoding.DecodeString(string(data)); err != nil {
						t.Fatal(err)
					}
				}
				if c.accept == protobufType {
					got = append(got, w.fromProtobuf(data))
					continue
				}
				var e event
				if err := json.Unmarshal(data, &e); err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.TrimSuffix(strings.Replace(e.String(), "ConfigMap ", "", 1), " a=b"))
			}
			if text := strings.Join(got, ", "); text != "ADDED one, ADDED two, MODIFIED one, DELETED one" {
				t.Errorf("got %q", text)
			}
		})
	}
	// A handshake that asks for an upgrade but is none.
	if got := resttest.Show(w.Send("GET "+maps+"?watch=1", "Connection: keep-alive, Upgrade; Upgrade: websocket", "")); !strings.HasPrefix(got, "4") {
		t.Errorf("a broken handshake is answered with %s", got)
	}
	if got := resttest.Show(w.Send("GET "+maps+"?watch=1&timeoutSeconds=1", "Upgrade: websocket", "")); !strings.HasPrefix(got, "200") {
		t.Errorf("a request that only names the protocol is answered with %s", got)
	}
}

const protobufType = "application/vnd.kubernetes.protobuf;stream=watch"

// TestManyWatchesShareAnEncoding: watches of one change in different forms do not get each other's.
func TestManyWatchesShareAnEncoding(t *testing.T) {
	w := newWorld(t)
	from := w.revision()
	accepts := []string{
		"application/json", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json",
	}
	bodies := make([]*bytes.Buffer, len(accepts))
	ended := make(chan error, len(accepts))
	for i, accept := range accepts {
		r := w.Send("GET "+maps+"?watch=1&timeoutSeconds=2&resourceVersion="+from, "Accept: "+accept, "")
		bodies[i] = &bytes.Buffer{}
		go func() {
			_, err := io.Copy(bodies[i], r.Body)
			ended <- err
		}()
	}
	w.Script([]resttest.Step{{Send: "POST " + maps, Body: `{"metadata":{"name":"one"},"data":{"key":"sesame"}}`, Want: "201 ConfigMap one"}})
	for range accepts {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for i, want := range []string{`"kind":"ConfigMap"`, `"apiVersion":"meta.k8s.io/v1"`, `"apiVersion":"meta.k8s.io/v1beta1"`,
		`"kind":"PartialObjectMetadata"`, `"kind":"ConfigMap"`} {
		got := bodies[i].String()
		if !strings.Contains(got, want) || strings.Contains(accepts[i], "as=") && strings.Contains(got, "sesame") {
			t.Errorf("%s: got %s", accepts[i], got)
		}
	}
	if bodies[0].String() != bodies[4].String() {
		t.Errorf("two watches in one form got %s and %s", bodies[0], bodies[4])
	}
}
