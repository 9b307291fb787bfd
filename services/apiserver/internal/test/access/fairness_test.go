package access_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// hostile is an HTTP/2 connection that limits how many bytes each stream may receive.
type hostile struct {
	t         *testing.T
	conn      *tls.Conn
	framer    *http2.Framer
	headers   bytes.Buffer
	encoder   *hpack.Encoder
	authority string
	token     string

	mu     sync.Mutex
	next   uint32
	opened int
	codes  map[string]int // of responses that have begun
	over   map[uint32]bool
	done   chan struct{}
}

// newHostile connects with a token. It lets the server send window bytes of each response; if that is
// above zero, it reads nothing of what is sent.
func newHostile(t *testing.T, s *harness.Server, token string, window uint32) *hostile {
	t.Helper()
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	config, err := rest.TLSConfigFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates, config.GetClientCertificate, config.NextProtos = nil, nil, []string{http2.NextProtoTLS}
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", target.Host)
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{
		t: t, conn: conn.(*tls.Conn), authority: target.Host, token: token, next: 1,
		codes: map[string]int{}, over: map[uint32]bool{}, done: make(chan struct{}),
	}
	h.encoder = hpack.NewEncoder(&h.headers)
	h.framer = http2.NewFramer(h.conn, h.conn)
	h.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.must(io.WriteString(h.conn, http2.ClientPreface))
	h.must(0, h.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	if window == 0 {
		go h.read()
	} else {
		h.must(0, h.framer.WriteWindowUpdate(0, window-1<<16))
		close(h.done)
	}
	t.Cleanup(func() {
		_ = h.conn.Close()
		<-h.done
	})
	return h
}

func (h *hostile) must(_ int, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// open sends the header of a request. A request with a body announces its length, and never sends
// it.
func (h *hostile) open(method, path string, body int) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.headers.Reset()
	fields := [][2]string{
		{":method", method}, {":path", path}, {":scheme", "https"}, {":authority", h.authority}, {"authorization", "Bearer " + h.token},
	}
	if body > 0 {
		fields = append(fields, [2]string{"content-length", strconv.Itoa(body)}, [2]string{"content-type", "application/json"})
	}
	for _, field := range fields {
		h.must(0, h.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	h.must(0, h.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: h.next, BlockFragment: h.headers.Bytes(), EndStream: body == 0, EndHeaders: true,
	}))
	h.next += 2
	h.opened++
}

// read records what the server sends until the connection ends.
func (h *hostile) read() {
	defer close(h.done)
	for {
		frame, err := h.framer.ReadFrame()
		if err != nil {
			return
		}
		h.mu.Lock()
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = h.framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			h.codes[frame.PseudoValue("status")]++
		case *http2.RSTStreamFrame:
			h.over[frame.StreamID] = true
		}
		h.mu.Unlock()
	}
}

// answers returns how many responses with a code have begun, and how many requests were cut off.
func (h *hostile) answers(code string) (begun, cut int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.codes[code], len(h.over)
}

// requestTimeout is how long a request may take in these tests: longer than a request that ends
// needs on a machine under load.
const requestTimeout = 5 * time.Second

// overrun starts an apiserver with a small limit of requests, which knows bob, an administrator,
// and returns the token of an ordinary service account.
func overrun(t *testing.T, change func(*apiserver.Config)) (s *harness.Server, token string) {
	t.Helper()
	s = harness.New(t, etcdtest.New(t))
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("mastertoken,boss,b1,\"system:masters\"\nbobtoken,bob,b1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Change = func(cfg *apiserver.Config) {
		cfg.Authentication.TokenFile = tokens
		cfg.Limits.MaxReads, cfg.Limits.MaxWrites = 40, 40
		change(cfg)
	}
	s.Start()
	admin := harness.Typed(t, s.Admin())
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bob"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	issued, err := request(t, admin, func(*authenticationv1.TokenRequest) {})
	if err != nil {
		t.Fatal(err)
	}
	return s, issued.Status.Token
}

// idles waits until no request is in flight.
func idles(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, "no request is in flight", func() bool {
		_, text := s.Exchange(s.Admin(), http.MethodGet, "/metrics", "", nil)
		// This request itself is.
		return strings.Contains(text, `apiserver_current_inflight_requests{request_kind="readOnly"} 1`+"\n") &&
			!strings.Contains(text, `apiserver_current_inflight_requests{request_kind="mutating"} 1`)
	})
}

// TestOneUserDoesNotTakeAllReads: a user who requests much and reads nothing of it keeps no other
// user from reading, and can read again once the requests time out.
func TestOneUserDoesNotTakeAllReads(t *testing.T) {
	s, token := overrun(t, func(cfg *apiserver.Config) { cfg.Limits.RequestTimeout = requestTimeout })
	h := newHostile(t, s, token, 0)
	for range 100 {
		h.open(http.MethodGet, "/openapi/v2", 0)
	}
	harness.Eventually(t, "some of the requests are refused", func() bool { refused, _ := h.answers("429"); return refused > 0 })
	bob := harness.Typed(t, s.WithToken("bobtoken"))
	if _, err := bob.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("another user: %v", err)
	}
	// All 100 wait to send: some a response, the others their refusal.
	harness.Eventually(t, "the requests are cut off", func() bool { _, cut := h.answers("200"); return cut == 100 })
	if _, err := harness.Typed(t, s.WithToken(token)).Discovery().OpenAPISchema(); err != nil {
		t.Errorf("the user, afterwards: %v", err)
	}
}

// TestOneUserDoesNotTakeAllWrites: a user who sends no bodies keeps no node from renewing its
// lease.
func TestOneUserDoesNotTakeAllWrites(t *testing.T) {
	s, token := overrun(t, func(cfg *apiserver.Config) { cfg.Limits.RequestTimeout = requestTimeout })
	h := newHostile(t, s, token, 0)
	for range 100 {
		h.open(http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 10)
	}
	harness.Eventually(t, "some of the requests are refused", func() bool { refused, _ := h.answers("429"); return refused > 0 })
	node := harness.Typed(t, s.Service("system:node:n1"))
	if _, err := node.CoordinationV1().Leases("kube-node-lease").Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a node's lease: %v", err)
	}
	if _, err := harness.Typed(t, s.WithToken("bobtoken")).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("another user: %v", err)
	}
	harness.Eventually(t, "the requests that were let in have timed out", func() bool { late, _ := h.answers("504"); return late == 10 })
	if _, err := whoami(t, s.WithToken(token)); err != nil {
		t.Errorf("the user, afterwards: %v", err)
	}
}

// TestConnectionThatTakesNothing: a connection that receives nothing does not learn of the end of
// its requests; they end nevertheless.
func TestConnectionThatTakesNothing(t *testing.T) {
	s, token := overrun(t, func(cfg *apiserver.Config) { cfg.Limits.RequestTimeout = requestTimeout })
	h := newHostile(t, s, token, 1<<31-1)
	// How many whole responses the buffers of the two sockets take is up to the kernel, and on a slow
	// machine the first requests end before the last ones begin.
	harness.Eventually(t, "the user's share is used up", func() bool {
		for range 10 {
			h.open(http.MethodGet, "/openapi/v2", 0)
		}
		res, _ := s.Exchange(s.WithToken(token), http.MethodGet, "/version", "", nil)
		return res.StatusCode == http.StatusTooManyRequests
	})
	idles(t, s)
}

// TestDeadlinesOverNATS: requests that send no body, or whose responses are not read, time out over
// NATS too.
func TestDeadlinesOverNATS(t *testing.T) {
	s, _ := overrun(t, func(cfg *apiserver.Config) { cfg.Limits.RequestTimeout = requestTimeout })
	carried := s.Carried(t, s.WithToken("bobtoken"))
	client, err := rest.HTTPClientFor(carried)
	if err != nil {
		t.Fatal(err)
	}
	do := func(method, path string, body io.Reader) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		if body != nil {
			req.ContentLength = 1 << 20 // More than travels with the header.
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	unread := do(http.MethodGet, "/openapi/v2", nil)
	body, never := io.Pipe()
	t.Cleanup(func() { _ = never.Close() })
	if late := do(http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body); late.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("without a body: %s", late.Status)
	}
	idles(t, s)
	if _, err := io.Copy(io.Discard, unread.Body); err == nil {
		t.Error("a client that reads nothing in time takes a part for the whole")
	}
}
