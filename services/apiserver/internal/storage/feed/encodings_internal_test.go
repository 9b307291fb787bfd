package feed

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestAnEncodingThatPanicsIsNotKept checks that later callers do not get an empty result.
func TestAnEncodingThatPanicsIsNotKept(t *testing.T) {
	e := &Encodings{cache: &encodingCache{room: 1 << 20, encoded: newMetrics(prometheus.NewRegistry()).encoded}}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		_, _ = e.Of("json", func() ([]byte, error) { panic("no") })
	}()
	data, err := e.Of("json", func() ([]byte, error) { return []byte("{}"), nil })
	if string(data) != "{}" || err != nil {
		t.Errorf("got %q, %v", data, err)
	}
	if again, err := e.Of("json", func() ([]byte, error) { return nil, nil }); string(again) != "{}" || err != nil {
		t.Errorf("again: %q, %v", again, err)
	}
}

// TestWaitingCallersGetThePanicAsAnError checks that a waiting caller gets an error.
func TestWaitingCallersGetThePanicAsAnError(t *testing.T) {
	e := &Encodings{cache: &encodingCache{room: 1 << 20, encoded: newMetrics(prometheus.NewRegistry()).encoded}}
	begun, end := make(chan struct{}), make(chan struct{})
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = e.Of("json", func() ([]byte, error) {
			close(begun)
			<-end
			panic("no")
		})
	}()
	<-begun
	type result struct {
		data []byte
		err  error
	}
	joined := make(chan result, 1)
	go func() {
		data, err := e.Of("json", func() ([]byte, error) { return []byte("{}"), nil })
		joined <- result{data, err}
	}()
	close(end)
	if <-panicked == nil {
		t.Error("the panic is lost")
	}
	// The caller may have joined the panicking call or come after it.
	if got := <-joined; got.err == nil && string(got.data) != "{}" {
		t.Errorf("got %q, %v", got.data, got.err)
	}
}
