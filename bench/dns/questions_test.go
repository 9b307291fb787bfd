package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// serve answers questions with answer, until the test ends, and returns where.
func serve(t *testing.T, answer func(question []byte) []byte) string {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answer(buffer[:n]), from)
		}
	})
	t.Cleanup(func() { _ = conn.Close(); serving.Wait() })
	return conn.LocalAddr().String()
}

// right answers as the server for other names does.
func right(question []byte) []byte {
	answer, err := answerTo(question)
	if err != nil {
		return nil
	}
	return answer
}

func TestResolve(t *testing.T) {
	address := serve(t, right)
	kinds := kinds()
	existingCached, afterSearch := kinds[2], kinds[3]
	for _, tc := range []struct {
		name       string
		kind       kind
		clients, n int
		want       int // names
		fault      string
	}{
		{"one client", existingCached, 1, 7, 7, ""},
		{"names that are no multiple of the clients", existingCached, 4, 10, 8, ""},
		{"more clients than names", existingCached, 3, 1, 3, ""},
		{"search domains", afterSearch, 2, 4, 4, ""},
		{"another code", kind{"x", []string{existing}, dnsmessage.RCodeNameError}, 2, 4, 0, "has the code RCodeSuccess, not RCodeNameError"},
		{"a search domain that exists", kind{"x", []string{existing, existing}, dnsmessage.RCodeSuccess}, 1, 1, 0, "not RCodeNameError"},
		{"no name", kind{"x", []string{strings.Repeat("x", 300)}, dnsmessage.RCodeSuccess}, 1, 1, 0, "asking for xxx"},
	} {
		took, err := side{address: address}.resolve(t.Context(), tc.kind, tc.clients, tc.n)
		if tc.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s: got %v, want %q", tc.name, err, tc.fault)
			}
			continue
		}
		if err != nil || len(took) != tc.want {
			t.Errorf("%s: %d names, want %d: %v", tc.name, len(took), tc.want, err)
		}
		for _, one := range took {
			if one <= 0 || one > answerTimeout {
				t.Errorf("%s: a name took %v", tc.name, one)
			}
		}
	}
}

func TestWrongAnswers(t *testing.T) {
	for name, answer := range map[string]func([]byte) []byte{
		"of another question": func(q []byte) []byte { a := right(q); a[0] ^= 1; return a },
		"cut off":             func(q []byte) []byte { return q[:11] },
		"nothing":             func([]byte) []byte { return nil },
	} {
		c, err := dial(t.Context(), serve(t, answer))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.ask(existing); err == nil || !strings.Contains(err.Error(), "what came is no answer about "+existing) {
			t.Errorf("an answer %s: got %v, %v", name, got, err)
		}
		c.close()
	}
}

func TestKnown(t *testing.T) {
	const after = 50 * time.Millisecond
	began := time.Now()
	s := side{name: "it", address: serve(t, func(q []byte) []byte {
		a := right(q)
		if time.Since(began) < after {
			a[3] |= byte(dnsmessage.RCodeNameError)
		}
		return a
	})}
	took, err := s.known(t.Context(), existing, began)
	if err != nil || took < after {
		t.Errorf("known after %v: %v", took, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.known(ended, "another.", time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("asking went on after the end: %v", err)
	}
	if _, err := s.resolve(ended, kinds()[2], 2, 1000); !errors.Is(err, context.Canceled) {
		t.Errorf("resolving went on after the end: %v", err)
	}
}

func TestUpstream(t *testing.T) {
	for _, tc := range []struct {
		name    string
		kind    dnsmessage.Type
		code    dnsmessage.RCode
		answers int
	}{
		{existing, dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{existing, dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"other.example.com.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
	} {
		question := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(tc.name), Type: tc.kind, Class: dnsmessage.ClassINET}},
		}
		packed, err := question.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var answer dnsmessage.Message
		data, err := answerTo(packed)
		if err = errors.Join(err, answer.Unpack(data)); err != nil {
			t.Fatal(err)
		}
		negative := tc.code != dnsmessage.RCodeSuccess
		if answer.ID != 7 || !answer.Response || answer.RCode != tc.code || len(answer.Answers) != tc.answers || (len(answer.Authorities) == 1) != negative {
			t.Errorf("%s %v: the answer is %v", tc.name, tc.kind, answer.GoString())
		}
	}
	if _, err := answerTo([]byte("x")); err == nil {
		t.Error("garbage was answered")
	}
	empty, err := (&dnsmessage.Message{Header: dnsmessage.Header{ID: 7}}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answerTo(empty); err == nil {
		t.Error("a message without a question was answered")
	}
}
