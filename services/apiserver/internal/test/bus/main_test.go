// Package bus_test tests the apiserver over NATS: rights, the watch protocol as documented, calls of the
// API, and reports of the plane's processes.
package bus_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
