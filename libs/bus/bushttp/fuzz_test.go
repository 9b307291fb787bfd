package bushttp

import (
	"bytes"
	"net/http"
	"reflect"
	"testing"
)

// FuzzFrame checks that a decoded frame is encoded to the same bytes.
func FuzzFrame(f *testing.F) {
	for _, seed := range []frame{
		{kind: kindRequest, flags: flagFirst | flagLast, credit: 5, head: []byte("GET / HTTP/1.1\r\n\r\n"), body: []byte("x")},
		{kind: kindRequest, flags: flagLast, number: 7, body: []byte("y")},
		{kind: kindAnswer, flags: flagFirst, head: []byte("HTTP/1.1 200 OK\r\n\r\n")},
		{kind: kindAnswer, number: 1 << 40, body: []byte("z")},
		{kind: kindCredit, number: 1 << 20},
		{kind: kindAbort},
	} {
		f.Add(seed.appendTo(nil))
	}
	f.Add(encodeQuestions([]question{{1, 2, 3, 4}}))
	f.Add(encodeReplies([]reply{{1, true, 3}, {call: 4}}))
	f.Add([]byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(data)
		if err != nil {
			return
		}
		if again := got.appendTo(nil); !bytes.Equal(again, data) {
			t.Errorf("%x was re-encoded as %x", data, again)
		}
		if got.kind != kindBeat {
			return
		}
		if questions, err := decodeQuestions(got.body); err == nil {
			again, err := decode(encodeQuestions(questions))
			if err != nil || !bytes.Equal(again.body, got.body) {
				t.Errorf("questions %x: %v", data, err)
			}
		}
		if replies, err := decodeReplies(got.body); err == nil {
			again, err := decode(encodeReplies(replies))
			if err != nil || !bytes.Equal(again.body, got.body) {
				t.Errorf("replies %x: %v", data, err)
			}
		}
	})
}

// FuzzRequestHead checks that an accepted head stays the same when it is forwarded.
func FuzzRequestHead(f *testing.F) {
	f.Add([]byte("GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"))
	f.Add([]byte("GET http://b/x HTTP/1.0\r\nConnection: close\r\nUpgrade: x\r\n\r\n"))
	f.Add([]byte("0 A: HTTP/0.0\n\n0"))
	f.Add([]byte("CONNECT a:1 HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		r, err := decodeRequest(head)
		if err != nil {
			return
		}
		if r.URL == nil || r.Header == nil || r.Body == nil || r.TLS != nil || r.ContentLength < -1 {
			t.Fatalf("%q is decoded as %+v", head, r)
		}
		_ = wantsUpgrade(r)
		again, err := encodeRequest(r, r.ContentLength)
		if err != nil {
			return // Such as a method that no client may send.
		}
		second, err := decodeRequest(again)
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
		answer, err := decodeAnswer(head, &http.Request{Method: http.MethodGet})
		if err != nil {
			return
		}
		if answer.StatusCode < 200 || answer.Header == nil || answer.Body != http.NoBody || answer.ContentLength < -1 {
			t.Errorf("%q is decoded as %+v", head, answer)
		}
	})
}

func TestFrameRoundTrip(t *testing.T) {
	for _, f := range []frame{
		{kind: kindRequest, flags: flagFirst | flagLast, credit: 1 << 33, head: []byte("head"), body: []byte("body")},
		{kind: kindAnswer, flags: flagLast, number: 1 << 40, body: []byte("z")},
		{kind: kindCredit, number: 12, body: []byte{}},
	} {
		data := f.appendTo(nil)
		if len(data) != f.overhead()+len(f.body) {
			t.Errorf("the overhead of %+v is %d, want %d", f, len(data)-len(f.body), f.overhead())
		}
		if got, err := decode(data); err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%+v is decoded as %+v, %v", f, got, err)
		}
	}
}
