package pausing

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPausing writes to a connection whose reads pause, and looks when which bytes are read.
func TestPausing(t *testing.T) {
	const pause, each = 50 * time.Millisecond, 21 * time.Millisecond
	type read struct {
		at    time.Duration
		bytes int
	}
	for name, tc := range map[string]struct {
		wait  time.Duration // before the first byte
		sizes []int         // one every 21 ms
		want  []read
	}{
		"a new connection": {0, []int{1, 1, 1}, []read{{0, 1}, {each, 1}, {2 * each, 1}}},
		"after the greeting": {2 * time.Second, []int{1, 1, 1, 1, 1, 1, 1}, []read{
			{2 * time.Second, 1}, {2*time.Second + pause, 2}, {2*time.Second + 2*pause, 2}, {2*time.Second + 3*pause, 2},
		}},
		"much at once": {2 * time.Second, []int{bulk, 1, 1}, []read{
			{2 * time.Second, bulk}, {2*time.Second + each, 1}, {2*time.Second + each + pause, 1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far := &arriving{came: make(chan struct{}, 1)}
				conn, began := New(far, pause), time.Now()
				done := make(chan struct{})
				var got []read
				go func() {
					defer close(done)
					for buffer := make([]byte, 2*bulk); ; {
						n, err := conn.Read(buffer)
						if err != nil {
							return
						}
						got = append(got, read{time.Since(began), n})
					}
				}()
				<-time.After(tc.wait)
				for _, size := range tc.sizes {
					far.add(size)
					<-time.After(each)
				}
				<-time.After(time.Second)
				_ = conn.Close()
				<-done
				if !slices.Equal(got, tc.want) {
					t.Errorf("read %v, not %v", got, tc.want)
				}
			})
		})
	}
}

// TestPausingCloses closes a connection during a pause, which ends.
func TestPausingCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &arriving{came: make(chan struct{}, 1)}
		conn := New(far, time.Hour)
		<-time.After(2 * greeting)
		far.add(1)
		if n, err := conn.Read(make([]byte, 8)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		began := time.Now()
		time.AfterFunc(time.Second, func() { _ = conn.Close() })
		if _, err := conn.Read(make([]byte, 8)); err == nil || time.Since(began) != time.Second {
			t.Errorf("the read ended with %v after %v", err, time.Since(began))
		}
		_ = conn.Close() // A second time does nothing.
	})
}

// arriving is a connection on which bytes arrive that wait to be read.
type arriving struct {
	net.Conn
	came chan struct{}

	mu      sync.Mutex
	waiting int
	closed  bool
}

func (a *arriving) add(n int) {
	a.mu.Lock()
	a.waiting += n
	a.mu.Unlock()
	select {
	case a.came <- struct{}{}:
	default:
	}
}

func (a *arriving) Read(b []byte) (int, error) {
	for {
		a.mu.Lock()
		n := min(len(b), a.waiting)
		a.waiting -= n
		closed := a.closed
		a.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, io.EOF
		}
		<-a.came
	}
}

func (a *arriving) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.add(0)
	return nil
}
