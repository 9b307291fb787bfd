// Package kinds_test runs the same tests for every kind that is served.
package kinds_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
