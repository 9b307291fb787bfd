//go:build operators

package operators

import (
	"testing"

	chaos "github.com/garboard/garboard/test/chaos/plane"
	"github.com/garboard/garboard/test/services"
)

// own is the path of this module's packages.
const own = "github.com/garboard/garboard/"

// cluster is a plane whose services are processes, and the operator that works on it.
type cluster struct {
	*services.Services

	operator *chaos.Process
	ends     int // how often the operator has ended by itself
}

// start starts a plane with one simulated node. The end of the test stops it, the operator first.
func start(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{Services: services.Start(t, "--runtime", "simulated", "--data-dir", t.TempDir(), "--listen", ":"+freePort(t))}
	t.Cleanup(func() {
		if c.operator != nil {
			c.operator.Stop()
		}
		if t.Failed() {
			t.Logf("the operator printed at last:\n%s", c.Log("operator"))
		}
	})
	return c
}
