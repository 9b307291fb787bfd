package encoded_test

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/storage/encoded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTheOldestFormsGo checks that a form is encoded once while there is room, that the oldest go
// when there is none, and that nil forms keep nothing.
func TestTheOldestFormsGo(t *testing.T) {
	cache := encoded.NewCache(1000, prometheus.NewCounter(prometheus.CounterOpts{Name: "encoded"}))
	times := map[string]int{}
	read := func(of *encoded.Forms, name string) {
		t.Helper()
		data, err := of.Of("json", func() ([]byte, error) {
			times[name]++
			return append(make([]byte, 300), name...), nil
		})
		if err != nil || string(data[300:]) != name {
			t.Errorf("%s: got %q, %v", name, data, err)
		}
	}
	first, second := cache.Forms(), cache.Forms()
	third := second.Another()
	for range 2 {
		read(first, "first")
		read(second, "second")
	}
	read(third, "third") // Three times 300 bytes and their overhead are more than 1,000.
	read(second, "second")
	read(third, "third")
	read(first, "first")
	read(nil, "nil")
	read(nil, "nil")
	if want := map[string]int{"first": 2, "second": 1, "third": 1, "nil": 2}; !maps.Equal(times, want) {
		t.Errorf("encoded %v times, want %v", times, want)
	}
}

// TestAnEncodingThatPanicsIsNotKept checks that later callers do not get an empty result.
func TestAnEncodingThatPanicsIsNotKept(t *testing.T) {
	e := encoded.NewCache(1<<20, prometheus.NewCounter(prometheus.CounterOpts{Name: "encoded"})).Forms()
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
	e := encoded.NewCache(1<<20, prometheus.NewCounter(prometheus.CounterOpts{Name: "encoded"})).Forms()
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
