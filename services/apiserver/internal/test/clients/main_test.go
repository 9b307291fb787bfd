// Package clients_test runs programs as users write them, with client-go, controller-runtime and
// libs/client.
package clients_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
