package ttl

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(n int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}
}

// settle lets everything happen that happens within two seconds. So many nodes are a crowd, whose keys rest for one.
func settle() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// TestCount has the time to live as a cluster grows and shrinks.
func TestCount(t *testing.T) {
	r := &reconciler{known: map[string]bool{}}
	size := 0
	for _, tt := range []struct{ size, want int }{
		{0, 0}, {1, 0}, {100, 0}, {101, 15}, {99, 15}, {90, 15}, {89, 0}, {500, 15}, {501, 30}, {450, 30}, {449, 15},
		{1001, 60}, {899, 30}, {2001, 300}, {1800, 300}, {1799, 60}, {5000, 300}, {0, 0},
	} {
		got := 0
		for ; size < tt.size; size++ {
			got = r.count(fmt.Sprint(size), true)
		}
		for ; size > tt.size; size-- {
			got = r.count(fmt.Sprint(size-1), false)
		}
		if got != tt.want {
			t.Errorf("with %d nodes: got %d s, want %d", tt.size, got, tt.want)
		}
	}
}

func TestAnnotatesNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Allow("list watch update patch /nodes")
		for n := range 100 {
			p.Load(node(n))
		}
		p.Declare(New)
		p.Start()
		settle()
		is := func(n int, want string) {
			t.Helper()
			if got := controltest.Get[*corev1.Node](p, "", fmt.Sprint("n", n)).Annotations[corev1.ObjectTTLAnnotationKey]; got != want {
				t.Errorf("node %d: got %q, want %q", n, got, want)
			}
		}
		is(7, "0")
		// A node that is over the boundary changes those that change later.
		p.Load(node(100))
		settle()
		is(100, "15")
		is(7, "0")
		controltest.SetStatus(p, "", "n7", func(n *corev1.Node) { n.Status.NodeInfo.OSImage = "x" })
		settle()
		is(7, "15")
		// What another writes is corrected, and what is right is not written.
		controltest.Change(p, "", "n7", func(n *corev1.Node) { n.Annotations[corev1.ObjectTTLAnnotationKey] = "x" })
		settle()
		is(7, "15")
		p.ClearCalls()
		time.Sleep(time.Hour)
		if n := len(p.Writes()); n > 0 {
			t.Errorf("got %d writes without a change", n)
		}
		for n := 10; n < 30; n++ {
			if err := client.Of[*corev1.Node](p.Client).Delete(t.Context(), "", fmt.Sprint("n", n), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		controltest.SetStatus(p, "", "n7", func(n *corev1.Node) { n.Status.NodeInfo.OSImage = "y" })
		settle()
		is(7, "0")
	})
}
