package rest

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// patient is a connection that can have deadlines.
type patient struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (p *patient) SetReadDeadline(at time.Time) error  { p.read = at; return nil }
func (p *patient) SetWriteDeadline(at time.Time) error { p.write = at; return nil }

// TestBounded: a client that does not send its request, or does not read the answer, holds a
// request no longer than requests may last.
func TestBounded(t *testing.T) {
	w := &patient{ResponseRecorder: httptest.NewRecorder()}
	before := time.Now()
	r, cancel := bounded(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), requestTimeout)
	defer cancel()
	end, ok := r.Context().Deadline()
	if !ok || end.Before(before.Add(requestTimeout)) {
		t.Errorf("it lasts until %v", end)
	}
	if !w.read.After(end) || !w.write.After(w.read) || w.write.After(end.Add(time.Minute)) {
		t.Errorf("it lasts until %v, is read until %v and written until %v", end, w.read, w.write)
	}
	// Not every writer can have one.
	_, stop := bounded(httptest.NewRecorder(), r, requestTimeout)
	stop()
}
