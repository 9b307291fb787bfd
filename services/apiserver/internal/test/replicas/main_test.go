// Package replicas_test tests several apiservers on one etcd and one NATS, and leaders that lose their
// Leases.
package replicas_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
