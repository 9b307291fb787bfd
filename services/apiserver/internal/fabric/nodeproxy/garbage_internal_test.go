package nodeproxy

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
)

func TestGarbage(t *testing.T) {
	const mb = 1 << 20
	for name, test := range map[string]struct {
		received      []int
		garbage, live uint64
		look, run     bool
	}{
		"little":                    {[]int{mb, 2 * mb}, 20 * mb, 30 * mb, false, false},
		"much":                      {[]int{mb, 11 * mb}, 20 * mb, 30 * mb, true, true},
		"much, and collected since": {[]int{20 * mb, 20 * mb}, 3 * mb, 30 * mb, true, false},
		"much beside a large heap":  {[]int{20 * mb}, 20 * mb, 300 * mb, true, false},
		"many small ones":           {slices.Repeat([]int{1}, 6200), 20 * mb, 30 * mb, true, true},
		"not known":                 {[]int{20 * mb}, 0, 0, true, false},
	} {
		ran := false
		g := newGarbage()
		g.read, g.run = func() (uint64, uint64) { return test.garbage, test.live }, func() { ran = true }
		for _, bytes := range test.received {
			g.received(bytes)
		}
		look := len(g.much) > 0
		if look {
			<-g.much
			g.collect()
		}
		if look != test.look || ran != test.run {
			t.Errorf("%s: looked: %t, want %t; collected: %t, want %t", name, look, test.look, ran, test.run)
		}
		if g.received(mb); look && len(g.much) > 0 {
			t.Errorf("%s: a look is due again", name)
		}
	}
}

// TestGarbageOfSessionsIsCollected has a pod send 256 MiB while no collection runs by itself, and checks how much
// memory that takes.
func TestGarbageOfSessionsIsCollected(t *testing.T) {
	conn := bustest.NewServer(t).Connect()
	nodes := startNodes(t, func() *bus.Conn { return conn }, conn)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	sent, err := nodes.Dial(t.Context(), pod, flood)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sent.Close() }()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := objects()
	var peak uint64
	part := make([]byte, 64<<10)
	for read := 0; read < floodBytes; {
		n, err := sent.Read(part)
		if err != nil {
			t.Fatalf("after %d bytes: %v", read, err)
		}
		read += n
		peak = max(peak, objects())
	}
	// The embedded NATS, the agent and both ends' buffers are in this process as well.
	if grown := int64(peak) - int64(before); grown > floodBytes/2 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

func objects() uint64 {
	garbage, live := readGarbage()
	return garbage + live
}
