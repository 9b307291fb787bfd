package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

const mapsPath = "/api/v1/namespaces/default/configmaps"

// openWatch begins a watch over plain HTTP.
func openWatch(t *testing.T, s *harness.Server, query, accept string) *http.Response {
	t.Helper()
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+mapsPath+"?watch=1&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the watch got %s", res.Status)
	}
	return res
}

// jsonEvent is an event in JSON.
type jsonEvent struct {
	Type   string
	Object struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Data     map[string]string
		Rows     []struct {
			Cells  []any
			Object struct{ Metadata metav1.ObjectMeta }
		}
		ColumnDefinitions []any
	}
}

func (e jsonEvent) String() string {
	name := e.Object.Metadata.Name
	if len(e.Object.Rows) > 0 {
		name = fmt.Sprintf("%v of %d columns", e.Object.Rows[0].Object.Metadata.Name, len(e.Object.ColumnDefinitions))
	}
	return fmt.Sprintf("%s %s %s", e.Type, e.Object.Kind, name)
}

func parseJSON(t *testing.T, data []byte) string {
	t.Helper()
	var event jsonEvent
	if err := json.Unmarshal(data, &event); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return event.String()
}

func parseProtobuf(t *testing.T, data []byte) string {
	t.Helper()
	var event metav1.WatchEvent
	if err := event.Unmarshal(data); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	var object runtime.Unknown
	if err := object.Unmarshal(bytes.TrimPrefix(event.Object.Raw, []byte("k8s\x00"))); err != nil {
		t.Fatal(err)
	}
	// The metadata is the first field of all objects.
	var partial metav1.PartialObjectMetadata
	if err := partial.Unmarshal(object.Raw); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %s", event.Type, object.Kind, partial.Name)
}

func lines(t *testing.T, body io.Reader) func() string {
	t.Helper()
	reader := bufio.NewReader(body)
	return func() string {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		return parseJSON(t, line)
	}
}

func delimited(t *testing.T, body io.Reader) func() string {
	t.Helper()
	return func() string {
		var length [4]byte
		if _, err := io.ReadFull(body, length[:]); err != nil {
			t.Fatal(err)
		}
		data := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(body, data); err != nil {
			t.Fatal(err)
		}
		return parseProtobuf(t, data)
	}
}

// overWebSocket reads a watch over WebSocket.
func overWebSocket(t *testing.T, s *harness.Server, query, accept, protocol string, kind websocket.MessageType, parse func([]byte) string) func() string {
	t.Helper()
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	opts := &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Accept": {accept}, "Origin": {"https://elsewhere.example"}}}
	if protocol != "" {
		opts.Subprotocols = []string{protocol}
	}
	conn, res, err := websocket.Dial(t.Context(), s.URL+mapsPath+"?watch=1&"+query, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	if got := res.Header.Get("Sec-Websocket-Protocol"); got != protocol {
		t.Errorf("got the subprotocol %q, want %q", got, protocol)
	}
	conn.SetReadLimit(1 << 20)
	return func() string {
		got, data, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got != kind {
			t.Errorf("got a message of %v, want %v", got, kind)
		}
		return parse(data)
	}
}

func createMap(t *testing.T, client kubernetes.Interface, name, value string, labels map[string]string) *corev1.ConfigMap {
	t.Helper()
	made, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"v": value}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const (
	inJSON             = "application/json"
	inProtobuf         = "application/vnd.kubernetes.protobuf"
	inTables           = "application/json;as=Table;v=v1;g=meta.k8s.io"
	inMetadata         = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	inMetadataProtobuf = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
)

// TestWatchFormsAreEncodedOnce watches the same objects in every form and over every transport,
// several times each, and counts how often objects were encoded.
func TestWatchFormsAreEncodedOnce(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client := harness.Typed(t, s.Admin())
	start := createMap(t, client, "start", "0", nil).ResourceVersion
	query := "resourceVersion=" + start
	decode64 := func(data []byte) []byte {
		decoded, err := base64.StdEncoding.DecodeString(string(data))
		if err != nil {
			t.Fatal(err)
		}
		return decoded
	}
	ofJSON := func(data []byte) string { return parseJSON(t, data) }
	ofProtobuf := func(data []byte) string { return parseProtobuf(t, data) }
	whole := []string{"ADDED ConfigMap a", "MODIFIED ConfigMap a", "DELETED ConfigMap a"}
	selected := []string{"ADDED ConfigMap a", "DELETED ConfigMap a"}
	partial := []string{"ADDED PartialObjectMetadata a", "MODIFIED PartialObjectMetadata a", "DELETED PartialObjectMetadata a"}
	type watcher struct {
		name string
		next func() string
		want []string
	}
	var watchers []watcher
	for range 3 {
		watchers = append(watchers,
			watcher{"JSON", lines(t, openWatch(t, s, query, inJSON).Body), whole},
			watcher{"JSON, selected", lines(t, openWatch(t, s, query+"&labelSelector=in%3Dyes", inJSON).Body), selected},
			watcher{"protobuf", delimited(t, openWatch(t, s, query, inProtobuf).Body), whole},
			watcher{"protobuf, selected", delimited(t, openWatch(t, s, query+"&labelSelector=in%3Dyes", inProtobuf).Body), selected},
			watcher{"metadata", lines(t, openWatch(t, s, query, inMetadata).Body), partial},
			watcher{"metadata in protobuf", delimited(t, openWatch(t, s, query, inMetadataProtobuf).Body), partial},
			watcher{"WebSocket", overWebSocket(t, s, query, inJSON, "", websocket.MessageText, ofJSON), whole},
			watcher{"WebSocket, protobuf", overWebSocket(t, s, query, inProtobuf, "", websocket.MessageBinary, ofProtobuf), whole},
			watcher{"WebSocket, binary", overWebSocket(t, s, query, inJSON, "binary.k8s.io", websocket.MessageBinary, ofJSON), whole},
			watcher{"WebSocket, base64", overWebSocket(t, s, query, inProtobuf, "base64.binary.k8s.io", websocket.MessageText,
				func(data []byte) string { return parseProtobuf(t, decode64(data)) }), whole},
		)
	}
	before := counter(s, "garboard_feed_encodings_total")
	a := createMap(t, client, "a", "1", map[string]string{"in": "yes"})
	a.Labels, a.Data = nil, map[string]string{"v": "2"}
	if _, err := client.CoreV1().ConfigMaps("default").Update(t.Context(), a, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range watchers {
		for _, want := range w.want {
			if got := w.next(); got != want {
				t.Errorf("%s: got %s, want %s", w.name, got, want)
			}
		}
	}
	// Three changes in JSON, in protobuf, and as metadata in both; and the object that left the
	// selection, as it was before, in two.
	if got := counter(s, "garboard_feed_encodings_total") - before; got != 3*4+2 {
		t.Errorf("objects were encoded %v times for %d watches", got, len(watchers))
	}
}

// TestTablesOfAWatchHaveOneHeader checks that the columns come with the first event only.
func TestTablesOfAWatchHaveOneHeader(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client := harness.Typed(t, s.Admin())
	start := createMap(t, client, "start", "0", nil).ResourceVersion
	next := lines(t, openWatch(t, s, "resourceVersion="+start, inTables).Body)
	createMap(t, client, "a", "1", nil)
	createMap(t, client, "b", "1", nil)
	for _, want := range []string{"ADDED Table a of 3 columns", "ADDED Table b of 0 columns"} {
		if got := next(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestWatchListsAreCompressed checks that a watch that begins with all objects is compressed, and no other, and that its
// events come one by one.
func TestWatchListsAreCompressed(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client := harness.Typed(t, s.Admin())
	start := createMap(t, client, "start", "0", nil).ResourceVersion
	if openWatch(t, s, "resourceVersion="+start, inJSON).Uncompressed {
		t.Error("a watch without a list is compressed")
	}
	res := openWatch(t, s, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", inJSON)
	if !res.Uncompressed { // The client has asked for gzip, and unpacks it.
		t.Error("a watch with a list is not compressed")
	}
	next := lines(t, res.Body)
	for i, want := range []string{"ADDED ConfigMap start", "BOOKMARK ConfigMap ", "ADDED ConfigMap a", "ADDED ConfigMap b"} {
		if i > 1 {
			createMap(t, client, string(rune('a'+i-2)), "1", nil)
		}
		if got := next(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestWatchEndsWithABookmark checks that a watch sends how far it got before it times out.
func TestWatchEndsWithABookmark(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	createMap(t, harness.Typed(t, s.Admin()), "start", "0", nil)
	res := openWatch(t, s, "timeoutSeconds=8&allowWatchBookmarks=true", inJSON)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	events := strings.Split(strings.TrimSpace(string(body)), "\n")
	if last := parseJSON(t, []byte(events[len(events)-1])); last != "BOOKMARK ConfigMap " {
		t.Errorf("got %[2]s as the last of %[1]d events, want a bookmark", len(events), last)
	}
}

// TestWatchGoesOnAfterARestart checks that a restarted apiserver lets clients resume from a version
// before the restart (kubernetes#129194): they get exactly what they missed, including the last
// states of deleted objects and what happened while no apiserver ran.
func TestWatchGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client := harness.Typed(t, s.Admin())
	at := createMap(t, client, "gone", "last state", map[string]string{"in": "yes"}).ResourceVersion
	createMap(t, client, "kept", "1", nil)
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Start()
	client = harness.Typed(t, s.Admin())
	createMap(t, client, "later", "1", nil)
	watching, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: at})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	for _, want := range []string{"ADDED kept 1", "DELETED gone last state", "ADDED later 1"} {
		select {
		case event := <-watching.ResultChan():
			c, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				t.Fatalf("got %s %v", event.Type, apierrors.FromObject(event.Object))
			}
			if got := fmt.Sprintf("%s %s %s", event.Type, c.Name, c.Data["v"]); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		case <-time.After(harness.Patience):
			t.Fatalf("no event %s", want)
		}
	}
}

// TestStalledClientIsCutOff has one client read nothing while others go on.
func TestStalledClientIsCutOff(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client := harness.Typed(t, s.Admin())
	start := createMap(t, client, "start", "0", nil).ResourceVersion
	stalled(t, s, "resourceVersion="+start)
	watching, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: start})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	// These fill the connection's buffers; the rest fills the watch's own.
	for i := range 8 {
		createMap(t, client, fmt.Sprintf("large-%d", i), strings.Repeat("x", 900<<10), nil)
	}
	made := 8
	for end := time.Now().Add(2 * harness.Patience); counter(s, "apiserver_terminated_watchers_total") == 0; {
		if time.Now().After(end) {
			t.Fatalf("the client was not cut off after %d changes", made)
		}
		var writers errgroup.Group
		for i := range 100 {
			writers.Go(func() error {
				_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("small-%d-%d", made, i)}}, metav1.CreateOptions{})
				return err
			})
		}
		if err := writers.Wait(); err != nil {
			t.Fatal(err)
		}
		made += 100
		// The other client keeps reading.
		for received := 0; received < 100 || made == 108 && received < made; received++ {
			select {
			case event := <-watching.ResultChan():
				if event.Type != watch.Added {
					t.Fatalf("the other client got %s %v", event.Type, apierrors.FromObject(event.Object))
				}
			case <-time.After(harness.Patience):
				t.Fatal("the other client was cut off too")
			}
		}
	}
}

// counter returns the sum of a metric over its labels.
func counter(s *harness.Server, name string) float64 {
	s.T.Helper()
	_, body := s.Exchange(s.Admin(), http.MethodGet, "/metrics", "", nil)
	sum := 0.0
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name); ok && strings.ContainsAny(rest[:1], "{ ") {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
			if err != nil {
				s.T.Fatalf("%q: %v", line, err)
			}
			sum += value
		}
	}
	return sum
}

// stalled opens a watch that is never read, over a connection with a small buffer.
func stalled(t *testing.T, s *harness.Server, query string) {
	t.Helper()
	config := rest.CopyConfig(s.Admin())
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok {
			err = tcp.SetReadBuffer(4 << 10)
		}
		return conn, err
	}
	config.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+mapsPath+"?watch=1&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
}
