package protocol

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzRequestHead checks that an accepted head stays the same when it is forwarded.
func FuzzRequestHead(f *testing.F) {
	f.Add([]byte("GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"))
	f.Add([]byte("GET http://b/x HTTP/1.0\r\nConnection: close\r\nUpgrade: x\r\n\r\n"))
	f.Add([]byte("0 A: HTTP/0.0\n\n0"))
	f.Add([]byte("CONNECT a:1 HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		r, err := DecodeRequest(head)
		if err != nil {
			return
		}
		if r.URL == nil || r.Header == nil || r.Body == nil || r.TLS != nil || r.ContentLength < -1 {
			t.Fatalf("%q is decoded as %+v", head, r)
		}
		_ = Upgrade(r.Header)
		again, err := EncodeRequest(r, r.ContentLength)
		if err != nil {
			return // Such as a method that no client may send.
		}
		second, err := DecodeRequest(again)
		if err != nil {
			t.Fatalf("%q is forwarded as %q: %v", head, again, err)
		}
		if second.Method != r.Method || second.URL.Path != r.URL.Path || second.URL.RawQuery != r.URL.RawQuery || second.Host != r.Host {
			t.Errorf("%q is forwarded as %q", head, again)
		}
	})
}

// FuzzAnswerHead checks that no response head is accepted that could not come over HTTP.
func FuzzAnswerHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		answer, err := DecodeAnswer(head, &http.Request{Method: http.MethodGet})
		if err != nil {
			return
		}
		if answer.StatusCode < 200 || answer.Header == nil || answer.Body != http.NoBody || answer.ContentLength < -1 {
			t.Errorf("%q is decoded as %+v", head, answer)
		}
	})
}

// TestRequestHead checks what the head of a request carries of it, and what cannot be carried.
func TestRequestHead(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), "PUT", "http://api/a%2fb?c=d", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer x"}, "Content-Length": {"99"}, "Transfer-Encoding": {"chunked"}, "Host": {"other"}}
	for length, want := range map[int64]int64{3: 3, 0: 0, -1: -1} {
		head, err := EncodeRequest(r, length)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeRequest(head)
		if err != nil || got.Method != "PUT" || got.RequestURI != "/a%2fb?c=d" || got.Host != "api" || got.ContentLength != want ||
			got.Header.Get("Authorization") != "Bearer x" || got.Header.Get("Transfer-Encoding") != "" {
			t.Errorf("length %d: got %+v, %v", length, got, err)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"no URL":                    func(r *http.Request) { r.URL = nil },
		"a tunnel":                  func(r *http.Request) { r.Method = http.MethodConnect },
		"a method of two lines":     func(r *http.Request) { r.Method = "GET\r\nX: y" },
		"a host of two words":       func(r *http.Request) { r.Host = "a b" },
		"a header longer than that": func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", MaxHead)) },
	} {
		r := r.Clone(t.Context())
		change(r)
		if head, err := EncodeRequest(r, 0); err == nil {
			t.Errorf("%s: encoded as %.80q", name, head)
		}
	}
}

// TestAnswerHead checks that the head of a response carries its header without that of a connection.
func TestAnswerHead(t *testing.T) {
	header := http.Header{"Content-Type": {"text/plain"}, "Connection": {"close"}, "Transfer-Encoding": {"chunked"}, "Content-Length": {"5"}}
	head, err := EncodeAnswer(http.StatusTeapot, header)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeAnswer(head, &http.Request{Method: http.MethodGet})
	if err != nil || got.StatusCode != http.StatusTeapot || got.ContentLength != 5 || got.Header.Get("Content-Type") != "text/plain" ||
		got.Close || len(got.TransferEncoding) > 0 || got.Header.Get("Connection") != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if head, err := EncodeAnswer(http.StatusOK, http.Header{"X": {strings.Repeat("x", MaxHead)}}); err == nil {
		t.Errorf("too large a header is encoded in %d bytes", len(head))
	}
}

func TestUpgrade(t *testing.T) {
	for _, tc := range []struct{ connection, upgrade, want string }{
		{"", "", ""},
		{"keep-alive", "websocket", ""},
		{"", "websocket", ""},
		{"Upgrade", "", ""},
		{"Upgrade", "websocket", "websocket"},
		{"keep-alive, upgrade", "SPDY/3.1", "SPDY/3.1"},
	} {
		header := http.Header{"X": {"y"}, "Keep-Alive": {"5"}}
		if tc.connection != "" {
			header.Set("Connection", tc.connection)
		}
		if tc.upgrade != "" {
			header.Set("Upgrade", tc.upgrade)
		}
		if got := Upgrade(header); got != tc.want {
			t.Errorf("Connection: %s, Upgrade: %s: got %q, want %q", tc.connection, tc.upgrade, got, tc.want)
		}
		KeepUpgrade(header)
		if Upgrade(header) != tc.want || header.Get("X") != "y" || header.Get("Keep-Alive") != "" || tc.want == "" && len(header) != 1 {
			t.Errorf("Connection: %s, Upgrade: %s: carried as %v", tc.connection, tc.upgrade, header)
		}
	}
}

// TestSwitchingProtocols checks that only a request that asks for an upgrade can be answered by one.
func TestSwitchingProtocols(t *testing.T) {
	head, err := EncodeAnswer(http.StatusSwitchingProtocols, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}, "Te": {"y"}})
	if err != nil {
		t.Fatal(err)
	}
	asked := &http.Request{Method: http.MethodGet, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}}}
	got, err := DecodeAnswer(head, asked)
	if err != nil || got.StatusCode != http.StatusSwitchingProtocols || Upgrade(got.Header) != "x" || got.Header.Get("Te") != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := DecodeAnswer(head, &http.Request{Method: http.MethodGet}); err == nil {
		t.Errorf("a request without an upgrade is answered by %+v", got)
	}
}

func TestHasBody(t *testing.T) {
	for _, tc := range []struct {
		method string
		status int
		want   bool
	}{{"GET", 200, true}, {"GET", 204, false}, {"GET", 304, false}, {"HEAD", 200, false}, {"GET", 101, false}, {"DELETE", 404, true}} {
		if got := HasBody(tc.method, tc.status); got != tc.want {
			t.Errorf("%s %d: %t", tc.method, tc.status, got)
		}
	}
}
