package response

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/scheme"
)

// TestStream checks that a client gets each flush at once and whole, compressed or not, and that only large ones are
// made smaller.
func TestStream(t *testing.T) {
	e := New(scheme.New(), slog.New(slog.DiscardHandler))
	for name, tc := range map[string]struct {
		squeeze  bool
		encoding string // that the client accepts
		zipped   bool
	}{
		"compressed":                 {squeeze: true, encoding: "gzip", zipped: true},
		"not worth it":               {encoding: "gzip"},
		"a client that accepts none": {squeeze: true, encoding: "identity"},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan string)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s := e.Stream(w, r, "application/json", tc.squeeze)
				for text := range next {
					for line := range strings.Lines(text) {
						if _, err := io.WriteString(s, line); err != nil {
							t.Error(err)
						}
					}
					for range 2 { // The second has nothing to send.
						if err := s.Flush(); err != nil {
							t.Error(err)
						}
					}
				}
			}))
			defer server.Close()
			transport := &http.Transport{DisableCompression: tc.encoding != "gzip"} // Otherwise it asks for gzip, and unpacks it.
			defer transport.CloseIdleConnections()
			res, err := (&http.Client{Transport: transport}).Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if res.Uncompressed != tc.zipped {
				t.Errorf("compressed is %v, want %v", res.Uncompressed, tc.zipped)
			}
			body := bufio.NewReader(res.Body)
			for _, text := range []string{"a\n", "b\nc\n", strings.Repeat(strings.Repeat("x", 4000)+"\n", 50), "d\n"} {
				next <- text
				got := make([]byte, len(text))
				if _, err := io.ReadFull(body, got); err != nil || string(got) != text {
					t.Fatalf("got %.20q, %v; want %.20q", got, err, text)
				}
			}
			close(next)
			if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
				t.Errorf("after the end: %q, %v", rest, err)
			}
		})
	}
}

// TestStreamSizes checks what is sent for events of several sizes.
func TestStreamSizes(t *testing.T) {
	e := New(scheme.New(), slog.New(slog.DiscardHandler))
	for size, most := range map[int]int{100: 160, 4000: 4060, 9000: 200, 1 << 20: 20000} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		s := e.Stream(w, r, "application/json", true)
		if _, err := s.Write([]byte(strings.Repeat("x", size))); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if n := w.Body.Len(); n > most {
			t.Errorf("%d bytes were sent as %d, want %d at most", size, n, most)
		}
	}
}
